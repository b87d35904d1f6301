"""The primary's side of a fill: chunks of the store, read in the disk's thread between commits, and sent in order.

    disk's thread    commit ── chunk ── commit ── chunk ── …         each posts to the loop what it has made
    event loop       ──▶ Append ──▶ FillPart ──▶ Append ──▶ …        in the order of posting, which is that of the disk

Rule 1: no more than `UNTAKEN_MAX` chunks are on their way that the replica has not taken.
Rule 2: one chunk is read at a time, and commits go in between: the broker does not wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pleach.core.messages import Node
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Machine, ViewNumber
from pleach.errors import StoreError
from pleach.server.bugs import watched
from pleach.server.standby.messages import AnyFillMessage, BrokerFiles, FillBegin, FillEnd, FillId, FillPart
from pleach.server.storage.committer import DiskThread
from pleach.server.storage.fill import Fill

UNTAKEN_MAX = 8  # chunks (server/storage/fill.py)

log = logging.getLogger(__name__)


class FillSender:
    def __init__(
        self,
        broker: Node,
        fill: FillId,
        disk: DiskThread,
        *,
        view: Callable[[], ViewNumber],
        send: Callable[[AnyFillMessage], None],
        on_failed: Callable[[], None],
    ) -> None:
        """`view`: the number of the newest one."""
        self.fill_id = fill
        self.sent = 0  # chunks
        self.taken = 0
        self.sent_bytes = 0
        self.is_begun = False  # from here on the machine gets every record
        self.is_over = False
        self._broker = broker
        self._disk = disk
        self._view = view
        self._send = send
        self._on_failed = on_failed
        self._source: Fill | None = None
        self._is_reading = False

    def begin(self, files: BrokerFiles) -> None:
        """Read what the store has from here on; the machine gets all records behind that."""
        loop = asyncio.get_running_loop()

        def begin() -> None:
            fill = self._disk.store.fill()
            loop.call_soon_threadsafe(self._begun, fill, files)

        self._read(begin)

    def end(self) -> None:
        """It is given up, or has reached its end."""
        self.is_over = True

    def note_taken(self, chunk: int) -> None:
        self.taken = max(self.taken, chunk)
        self._pump()

    def _begun(self, fill: Fill, files: BrokerFiles) -> None:
        if self.is_over:
            return
        self._source, self.is_begun, self._is_reading = fill, True, False
        self._send(FillBegin(self._broker, self._view(), self.fill_id, files))
        self._pump()

    def _pump(self) -> None:
        source = self._source
        if source is None or self._is_reading or self.is_over or self.sent - self.taken >= UNTAKEN_MAX:
            return
        loop = asyncio.get_running_loop()

        def read() -> None:
            chunk = source.next_chunk()
            loop.call_soon_threadsafe(self._pass_on, chunk, self._disk.store.position)

        self._read(read)

    def _read(self, read: Callable[[], None]) -> None:
        self._is_reading = True
        watched(self._await(self._disk.call(read)))

    async def _await(self, reading: asyncio.Future[None]) -> None:
        try:
            await reading
        except StoreError as error:
            log.error("%s cannot be copied: %s", self._broker, error)  # noqa: TRY400 - the sentence says it all
            self.end()
            self._on_failed()

    def _pass_on(self, chunk: bytes | None, position: Position) -> None:
        self._is_reading = False
        if self.is_over:
            return
        if chunk is None:
            self._send(FillEnd(self._broker, self._view(), self.fill_id, position))
            self.end()
            return
        self.sent += 1
        self.sent_bytes += len(chunk)
        self._send(FillPart(self._broker, self._view(), self.fill_id, self.sent, chunk))
        self._pump()


class Follower:
    """A machine that gets records; if it was elsewhere, a fill before."""

    def __init__(self, machine: Machine, fill: FillSender | None = None) -> None:
        self.machine = machine
        self.fill = fill

    @property
    def takes_records(self) -> bool:
        return self.fill is None or self.fill.is_begun

    @property
    def is_filling(self) -> bool:
        return self.fill is not None and not self.fill.is_over

    def end(self) -> None:
        if self.fill is not None:
            self.fill.end()
