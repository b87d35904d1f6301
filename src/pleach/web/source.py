"""Where pictures come from, and who carries plans out: brokers that run, simulated ones, a trace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pleach.events.filter import Filter
from pleach.live.apply import Watch
from pleach.messages import Node
from pleach.overlay.plans import Outcome, Plan
from pleach.web.picture import Picture
from pleach.web.wishes import Wish


@dataclass(frozen=True)
class Draft:
    """A plan that can be shown, and what carries it out once somebody has said yes."""

    plan: Plan
    carry_out: Callable[[Watch], Awaitable[Outcome]]


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
