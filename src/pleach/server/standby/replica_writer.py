"""A replica with the one thread that writes to it: whatever has arrived while it was writing is written together.

    StoreRecord, fill messages ──▶ queue ──▶ thread: one transaction for all records in a row ──▶ reports, in order

Rule 1: a report is made when what it tells is on disk.
Rule 2: a record that is there already was sent again: it is passed over, and what is there is told again. One that does
        not follow what is there is told (`Strayed`) once, and again after a while: what was under way meanwhile does
        not fit either.
Rule 3: while the disk is full, all waits, and is tried again.
Rule 4: whatever the end of a fill has come to, it is told what is there then (`Settled`): until that is known, neither
        the old copy counts nor the new one, as a view may be installed while the new one takes its place.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from pleach.core.messages import Node
from pleach.core.standby.effects import StoreRecord
from pleach.core.standby.positions import Position
from pleach.errors import AstrayError, RecordError, StoreBrokenError, StoreError, StoreFullError
from pleach.server.bugs import watched
from pleach.server.standby.messages import FillBegin, FillEnd, FillId, FillPart
from pleach.server.storage.replica import Replica

FULL_RETRY_SECONDS = 0.25
STRAYED_SECONDS = 1.0  # between two reports, where nothing fits

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Job: TypeAlias = StoreRecord | FillBegin | FillPart | FillEnd


class Stored(NamedTuple):
    """All up to this position is on disk."""

    position: Position


class Strayed(NamedTuple):
    """A record does not follow what is there; `needs_fill`: or cannot be applied to it."""

    needs_fill: bool


class ChunkTaken(NamedTuple):
    fill: FillId
    chunk: int


class FillEnded(NamedTuple):
    """A fill has come to its end, or was dropped, with the reason."""

    fill: FillId
    reason: str = ""


class Settled(NamedTuple):
    """The end of a fill was taken, or refused: this is there now."""

    position: Position | None


class WriterFailed(NamedTuple):
    """The disk is not to be trusted any more."""

    reason: str


Report: TypeAlias = Stored | Strayed | ChunkTaken | FillEnded | Settled | WriterFailed


class ReplicaWriter:
    def __init__(self, folder: Path, broker: Node) -> None:
        self.on_report: Callable[[Report], None] = lambda _: None  # called in the event loop
        self.may_end: Callable[[FillEnd], bool] = lambda _: True  # asked in the thread, before a new copy counts
        self.waiting_bytes = 0
        self.is_closed = False
        self._folder = folder
        self._broker = broker
        self._replica: Replica | None = None  # used in the thread only
        self._fill: FillId = 0  # likewise, as the following ones
        self._refused: FillId = 0
        self._strayed_at = 0.0
        self._jobs: list[Job] = []
        self._thread = ThreadPoolExecutor(1, "replica")
        self._working: asyncio.Task[None] | None = None

    async def open(self) -> Position | None:
        """Where the copy is that is there; None: there is none. Raises StoreError."""
        return await self._call(self._open)

    def _open(self) -> Position | None:
        if self._replica is None:
            self._replica = Replica.open(self._folder, self._broker)
        return self._replica.position

    def add(self, job: Job) -> None:
        if self.is_closed:
            return
        self._jobs.append(job)
        self.waiting_bytes += _size(job)
        if self._working is None:
            self._working = watched(self._keep_working())

    async def _keep_working(self) -> None:
        while self._jobs and not self.is_closed:
            jobs, self._jobs = self._jobs, []
            reports, left = await self._call(lambda jobs=jobs: self._work(jobs))  # type: ignore[misc]
            self._jobs = [*left, *self._jobs]
            self.waiting_bytes = sum(map(_size, self._jobs))
            for report in reports:
                if not self.is_closed:
                    self.on_report(report)
            if left:
                await asyncio.sleep(FULL_RETRY_SECONDS)
        self._working = None

    async def close(self) -> None:
        """What is being written is finished, and what waits is dropped."""
        if self.is_closed:
            return
        self.is_closed = True
        self._jobs.clear()
        if self._working is not None:
            await asyncio.wait([self._working])
        await self._call(self._close)
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        if self._replica is not None:
            self._replica.close()
            self._replica = None

    async def _call(self, function: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    # In the thread -------------------------------------------------------------------------------------------

    def _work(self, jobs: Sequence[Job]) -> tuple[list[Report], list[Job]]:
        """What came of these jobs, and those that have to wait since the disk is full."""
        reports: list[Report] = []
        done = 0
        try:
            for is_record, group in groupby(jobs, lambda job: isinstance(job, StoreRecord)):
                together = list(group)
                for run in [together] if is_record else [[job] for job in together]:
                    reports += self._perform(run)
                    done += len(run)
        except StoreFullError as error:
            log.warning("the copy of %s waits for space: %s", self._broker, error)
            return reports, list(jobs[done:])
        except (StoreBrokenError, StoreError) as error:
            return [*reports, WriterFailed(str(error))], []
        return reports, []

    def _perform(self, jobs: Sequence[Job]) -> Iterator[Report]:
        """Records together, or one other job."""
        self._open()
        match jobs[0]:
            case StoreRecord():
                yield from self._store([job for job in jobs if isinstance(job, StoreRecord)])
            case FillBegin(fill=fill):
                self._begin_fill(fill)
            case FillPart(fill=fill, chunk=chunk, data=data):
                yield from self._take(fill, chunk, data)
            case FillEnd() as end:
                yield from self._end_fill(end)
                yield Settled(self._opened.position)

    def _store(self, records: Sequence[StoreRecord]) -> Iterator[Report]:
        replica = self._opened
        at = replica.position
        if not replica.is_filling and at is not None:  # rule 2
            records = [each for each in records if not _is_there(each.position, at)]
        try:
            replica.apply_all(records)
        except (AstrayError, RecordError) as error:
            yield from self._stray(error)
            return
        if not replica.is_filling and replica.position is not None:
            self._strayed_at = 0.0
            yield Stored(replica.position)

    def _stray(self, error: StoreError) -> Iterator[Report]:
        replica, now = self._opened, time.monotonic()
        if replica.is_filling:
            yield self._drop_fill(error)
        elif now - self._strayed_at >= STRAYED_SECONDS:
            self._strayed_at = now
            log.info("the copy of %s is elsewhere: %s", self._broker, error)
            yield Strayed(needs_fill=not isinstance(error, AstrayError))

    def _begin_fill(self, fill: FillId) -> None:
        self._fill, self._strayed_at = fill, 0.0
        self._opened.begin_fill()

    def _take(self, fill: FillId, chunk: int, data: bytes) -> Iterator[Report]:
        if fill != self._fill:
            yield from self._refuse(fill)
            return
        try:
            self._opened.take(data)
        except (AstrayError, RecordError) as error:
            yield self._drop_fill(error)
            return
        yield ChunkTaken(fill, chunk)

    def _end_fill(self, end: FillEnd) -> Iterator[Report]:
        fill = end.fill
        if fill != self._fill:
            yield from self._refuse(fill)
            return
        if not self.may_end(end):
            yield self._drop_fill(AstrayError("another machine has become the primary meanwhile"))
            return
        try:
            self._opened.end_fill(end.position)
        except (AstrayError, RecordError, StoreFullError) as error:
            yield self._drop_fill(error)
            return
        self._fill = 0
        yield FillEnded(fill)

    def _drop_fill(self, error: StoreError) -> FillEnded:
        fill, self._fill = self._fill, 0
        self._refused = fill
        self._opened.abandon_fill()
        return FillEnded(fill, str(error))

    def _refuse(self, fill: FillId) -> Iterator[Report]:
        """It was dropped, or nothing was here yet to take its beginning; that is told once."""
        if fill != self._refused:
            self._refused = fill
            yield FillEnded(fill, "its beginning was not taken")

    @property
    def _opened(self) -> Replica:
        assert self._replica is not None
        return self._replica


def _is_there(position: Position, at: Position) -> bool:
    return position.run == at.run and position.number <= at.number


def _size(job: Job) -> int:
    match job:
        case StoreRecord(record=data) | FillPart(data=data):
            return len(data)
        case _:
            return 0
