"""The stream of snapshots to the pages that are open: one whole snapshot, then patches.

Rule 1: brokers are polled only while a page is open.
Rule 2: polling takes at most a fifth of the time, however many brokers there are.
Rule 3: a page gets the difference between the snapshot that it was sent last and the current one. A slow page gets
        fewer and larger patches; nothing is queued for it.
Rule 4: a failure of the dashboard is shown, and ends nothing: it may run in a broker's process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeAlias

import msgspec

from pleach.web.snapshot import Snapshot, difference, plain
from pleach.web.source import Source

PAUSE_SECONDS = 1.0
PAUSE_SECONDS_BUSY = 0.2  # while a plan is carried out from here
REST_SHARE = 4  # pauses are at least this many times as long as polls
PULSE_SECONDS = 2.0  # between heartbeats: a page that gets none connects anew
WATCHERS_MAX = 16

log = logging.getLogger(__name__)


SnapshotView: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


class SnapshotStream:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._shown: dict[str, Any] | None = None
        self._changed = asyncio.Event()  # a new one for each snapshot
        self._woken = asyncio.Event()
        self._polling: asyncio.Task[None] | None = None
        self.watchers = 0
        self.complete: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot  # adds what the source does not know
        self.is_busy: Callable[[], bool] = lambda: False  # whether to poll more often

    @property
    def is_full(self) -> bool:
        return self.watchers >= WATCHERS_MAX

    def wake(self) -> None:
        """Poll at once: a run has begun or ended."""
        self._woken.set()

    async def watch(self, view: SnapshotView = lambda shown: shown) -> AsyncGenerator[bytes]:
        """Server-sent events for one page, until it closes. `view`: what of a snapshot this page shows."""
        self.watchers += 1
        if self._polling is None:
            self._polling = asyncio.create_task(self._keep_polling())
        seen: dict[str, Any] | None = None
        last: dict[str, Any] | None = None  # of which `seen` is the view
        try:
            while True:
                shown, changed = self._shown, self._changed
                if shown is None or shown is last:
                    yield _event("pulse", {})
                else:
                    now = view(shown)
                    yield _event("whole", now) if seen is None else _event("patch", difference(seen, now))
                    seen, last = now, shown
                await _first(changed, PULSE_SECONDS)
        finally:
            self.watchers -= 1
            if not self.watchers and self._polling is not None:
                self._polling.cancel()
                self._polling = self._shown = None  # the next page sees nothing old

    async def _keep_polling(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._woken.clear()
            started = clock()
            try:
                self._show(plain(self.complete(await self._source.snapshot())))
            except Exception as error:  # rule 4
                log.exception("the dashboard could not poll the brokers")
                shown = self._shown or {}
                trouble = f"the dashboard failed: {error}; its log says more"
                self._show({**shown, "source": {**shown.get("source", {}), "trouble": trouble}})
            usual = PAUSE_SECONDS_BUSY if self.is_busy() else PAUSE_SECONDS
            await _first(self._woken, max(usual, REST_SHARE * (clock() - started)))

    def _show(self, shown: dict[str, Any]) -> None:
        self._shown = shown
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _event(kind: str, data: object) -> bytes:
    """JSON has no line ends of its own, so it is one line of data."""
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


async def _first(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
