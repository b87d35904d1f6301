"""One turn of the event loop, at a client: when it ends, and the callers that wait until its results are settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pleach.errors import ClientError


class LoopTurn:
    def __init__(self, settle: Callable[[], None]) -> None:
        self._settle = settle
        self._due: asyncio.Handle | None = None
        self._awaited: asyncio.Future[None] | None = None

    def end_soon(self) -> None:
        """At the end of this turn, with all else that happens in it."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_soon(self._settle)

    async def ended(self) -> None:
        """Wait until all that has happened so far is settled; raises what kept it from being so."""
        if self._awaited is None:
            self._awaited = asyncio.get_running_loop().create_future()
            self.end_soon()
        await asyncio.shield(self._awaited)

    def end(self) -> asyncio.Future[None] | None:
        """What happens from here on belongs to the next turn. Returns who waits for this one, to be told (`tell`)."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        awaited, self._awaited = self._awaited, None
        return awaited


def tell(awaited: asyncio.Future[None] | None, error: ClientError | None) -> None:
    """Whoever waits for a turn hears that it is settled, or what came in between."""
    if awaited is None or awaited.done():
        return
    if error is None:
        awaited.set_result(None)
    else:
        awaited.set_exception(error)
