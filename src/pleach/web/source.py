"""The interface of sources of snapshots: running brokers, simulated ones, a trace."""

from __future__ import annotations

from typing import Any, Protocol

from pleach.core.events.filter import Filter
from pleach.core.messages import Node
from pleach.web.drafts import Draft
from pleach.web.forms import DashboardRequest
from pleach.web.snapshot import Snapshot


class Source(Protocol):
    async def snapshot(self) -> Snapshot: ...

    async def draft(self, request: DashboardRequest) -> Draft:
        """What a request would do. Raises PleachError where it is not possible."""
        ...

    async def detail(self, broker: Node) -> dict[str, Any]:
        """The whole status of a broker. Raises PleachError where there is none, or it does not answer."""
        ...

    async def interested(self, wanted: Filter) -> dict[Node, list[str]]:
        """Clients with subscriptions that overlap the filter, and these."""
        ...

    async def replay(self, run: str) -> dict[str, Any]:
        """A recorded run as frames (replay.py). Raises PleachError where there is none."""
        ...
