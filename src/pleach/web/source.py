"""Where pictures come from, and who carries plans out: brokers that run, simulated ones, a trace."""

from __future__ import annotations

from typing import Any, Protocol

from pleach.core.events.filter import Filter
from pleach.core.messages import Node
from pleach.web.draft import Draft
from pleach.web.picture import Picture
from pleach.web.wishes import Wish


class Source(Protocol):
    async def look(self) -> Picture: ...

    async def draft(self, wish: Wish) -> Draft:
        """Raises PleachError where the wish cannot be fulfilled as things are."""
        ...

    async def detail(self, broker: Node) -> dict[str, Any]:
        """All that a broker says of itself. Raises PleachError where it does not answer, or there is none."""
        ...

    async def interested(self, wanted: Filter) -> dict[Node, list[str]]:
        """Clients with subscriptions that some event in the filter would match, and these."""
        ...

    async def film(self, run: str) -> dict[str, Any]:
        """A recorded run (film.py). Raises PleachError where there is none."""
        ...
