"""Group commit: batches of an endpoint are sealed, committed together, and only then transmitted.

    touch ──▶ end of the turn ──▶ seal ──▶ commit, in a worker thread ──▶ transmit       without a disk: no commit
                                                                   └──▶ confirmed by all copies ──▶ transmit

Rule 1: parts are committed and transmitted in the order in which they were sealed. What happens during a commit makes
        up the next one.
Rule 2: a frame goes to the connection that it was made for, or nowhere: the next connection starts with a Hello. So
        parts are sealed before a link changes, too.
Rule 3: while the disk is full, parts are held and tried again. What was on disk before may still be sent, and what its
        receivers confirm is deleted ahead of everything else (`relief`): that is how space comes back.
Rule 4: where there are copies (`await_copies`), parts that are on disk wait until their commit is at every copy, in
        order. Commits do not wait for that: what is committed meanwhile waits behind. Whatever says nothing that the
        copies do not have is sent all the same, so that peers do not take a broker for dead that only waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from pleach.core.links.endpoint import Batch, Endpoint
from pleach.core.standby.positions import Position
from pleach.errors import StoreFullError
from pleach.net.alarm import Alarm
from pleach.server.bugs import watched
from pleach.server.feature import Feature
from pleach.server.links import LinkTable
from pleach.server.metrics import DiskCounters
from pleach.server.settings import BrokerSettings
from pleach.server.storage.obstruction import Obstruction
from pleach.server.storage.outgoing import Durable, OutgoingParts, SealedBatch
from pleach.server.storage.store import Store, journal_entry_bytes

PART_BYTES_MAX = 262_144  # received: smaller parts fit sooner where space is short
FULL_RETRY_SECONDS = 0.25
QUOTA_RESERVE_SHARE = 8  # publishes are refused once less than an eighth of the quota is free, …
DISK_RESERVE_BYTES = 64 * 1_048_576  # … or, without a quota, less than this of the disk: refusals are written down too
JOURNAL_ENTRIES_MAX = 10_000  # then a snapshot takes their place: reading them again at a start takes about a second
JOURNAL_BYTES_MAX = 1_048_576  # likewise; or as much as the state itself takes, if that is more
JOURNAL_QUOTA_SHARE = 32  # where space is short, the journal gets no more than this share of the quota

log = logging.getLogger(__name__)


class Committed(NamedTuple):
    """How a commit went: the parts that are on disk, and why not the others."""

    numbers: Sequence[int]  # for each part that is on disk: the store's last commit then
    position: Position  # of the store
    seconds: float
    free: int  # bytes
    full: str = ""


class Work(NamedTuple):
    """What is to be committed. `state`: captured after the last part, and written with all of them."""

    relief: Batch | None
    parts: Sequence[SealedBatch]
    state: bytes | None
    record_first: bool  # copies get a record before it is on the own disk: no, where that may have no room


def write(disk: Store, work: Work) -> Committed:
    """Runs in the worker thread."""
    started = time.perf_counter()
    commit = disk.commit if work.record_first else partial(disk.commit, record_first=False)
    numbers: list[int] = []
    try:
        if work.relief is not None:
            commit(work.relief)
        if work.state is not None:
            *before, last = (part.batch for part in work.parts)
            commit(last, work.state, before=before)
            numbers += [disk.position.number] * len(work.parts)
        else:
            for part in work.parts:
                if part.batch.changes_disk:
                    commit(part.batch)
                numbers.append(disk.position.number)
    except StoreFullError as error:
        return Committed(numbers, disk.position, time.perf_counter() - started, 0, str(error))
    return Committed(numbers, disk.position, time.perf_counter() - started, disk.bytes_free())


def shortage(done: Committed, quota: int, *, is_short: bool) -> str:
    """Why no more should be taken in; it takes twice the reserve to be out of a shortage again."""
    if done.full:
        return done.full
    reserve = quota // QUOTA_RESERVE_SHARE if quota else DISK_RESERVE_BYTES
    wanted = 2 * reserve if is_short else reserve
    return f"only {done.free:,} bytes are free, {wanted:,} are wanted" if done.free < wanted else ""


class JournalBounds(NamedTuple):
    """When a snapshot takes the place of the journal."""

    entries: int
    bytes: int

    @classmethod
    def of(cls, state_bytes: int, quota: int, free: int) -> JournalBounds:
        """The work of a snapshot grows with the state: one that is large is written less often, if there is space."""
        size = max(JOURNAL_BYTES_MAX, state_bytes)
        if quota:
            size = min(size, quota // QUOTA_RESERVE_SHARE)
        if quota and free < 2 * (quota // QUOTA_RESERVE_SHARE):
            size = min(size, quota // JOURNAL_QUOTA_SHARE)
        return cls(JOURNAL_ENTRIES_MAX, size)


class CommitHooks(NamedTuple):
    """What a committer calls: before and after a batch is sealed, when it is on disk, and when the disk has failed."""

    sealed: Callable[[Batch], bool]  # whether this has led to more that must be sealed at once
    committed: Callable[[Batch], None]
    failed: Callable[[str], None]


class DiskThread:
    """A store, and the one thread that writes to it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.free = store.bytes_free()  # after the last commit
        self.on_written: Callable[[Position], None] = lambda _: None
        self._worker = ThreadPoolExecutor(1, "disk")

    def write(self, work: Work) -> asyncio.Future[Committed]:
        return asyncio.get_running_loop().run_in_executor(self._worker, write, self.store, work)

    def call(self, function: Callable[[], None]) -> asyncio.Future[None]:
        """Between commits."""
        return asyncio.get_running_loop().run_in_executor(self._worker, function)

    def close(self) -> None:
        self._worker.shutdown(wait=True)
        self.store.close()


class Committer(Feature):
    def __init__(
        self,
        endpoint: Endpoint,
        links: LinkTable,
        store: Store | None,
        counters: DiskCounters,
        *,
        settings: Callable[[], BrokerSettings],
        clock: Callable[[], float],
        hooks: CommitHooks,
    ) -> None:
        """To be made when the endpoint is recovered."""
        self.outgoing = OutgoingParts(endpoint, hooks.committed)
        self.shortage = ""  # why publishes are refused; empty: they are not
        self._endpoint = endpoint
        self._links = links
        self._disk = DiskThread(store) if store else None
        self._counters = counters
        self._settings = settings
        self._hooks = hooks
        self._alarm = Alarm(endpoint, clock, self.touch)
        self._parts: list[SealedBatch] = []
        self._received_bytes = 0  # since the last part was sealed
        self._commit: asyncio.Task[None] | None = None
        self._is_flush_due = False
        self._is_snapshot_due = False  # the journal does not tell how the state came about
        self._is_halted = False

    @property
    def is_durable(self) -> bool:
        return self._disk is not None

    @property
    def is_idle(self) -> bool:
        return not self._is_flush_due and not self._parts and self._commit is None and not self.outgoing.awaited

    @property
    def durable(self) -> Durable:
        """What lasts: what peers may be told."""
        return self.outgoing.lasting

    def await_copies(self, on_written: Callable[[Position], None]) -> DiskThread:
        """From here on nothing is carried out before `outgoing.confirmed` was told its commit.

        `on_written`: called with the position of the store when a commit is on the own disk. Returns the disk, for
        others to read from.
        """
        assert self._disk is not None, "a broker in memory only has no copies"
        self._disk.on_written = on_written
        self.outgoing.await_copies(self._disk.store.position.number)
        return self._disk

    def obstruct(self, obstruction: Obstruction) -> bool:
        """False: there is no disk."""
        if self._disk is not None:
            self._disk.store.obstruct(obstruction)
        return self.is_durable

    def touch(self) -> None:
        """Something has happened at the endpoint: flush at the end of this turn of the loop."""
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def received(self, count: int) -> None:
        """So many bytes have arrived."""
        self._received_bytes += count
        if self._received_bytes > PART_BYTES_MAX:
            self.seal()
        self.touch()

    def seal(self) -> None:
        """Nothing is left unsealed: what the sealing of one part leads to is sealed, too."""
        while self._seal_part():
            pass  # ends: it leads to clients that are disconnected, and nothing waits for these any more
        self._alarm.set()

    def _seal_part(self) -> bool:
        self._received_bytes = 0
        batch = self._endpoint.take_batch()
        self._parts.append(SealedBatch(batch, self._links.wires))
        return self._hooks.sealed(batch)

    def replace_state(self) -> None:
        """The state was changed from outside: the next commit is a snapshot."""
        self._is_snapshot_due = True
        self.touch()

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._commit is not None or self._is_halted:
            return  # a commit flushes again when it is done
        self.seal()
        while self._parts and not (self._disk and self._parts[0].batch.changes_disk):
            self.outgoing.passing(self._parts.pop(0))
        if self._parts and self._disk:
            self._start_commit(self._disk)

    def _start_commit(self, disk: DiskThread) -> None:
        parts, relief = tuple(self._parts), self.outgoing.stored.relief() if self.shortage else None
        is_due = self._is_snapshot_due or self._is_journal_long(disk, parts)
        state, self._is_snapshot_due = self._endpoint.capture() if is_due else None, False
        work = Work(relief, parts, state, record_first=not self.shortage)
        self._commit = watched(self._await_commit(disk, work))

    def _is_journal_long(self, disk: DiskThread, parts: Sequence[SealedBatch]) -> bool:
        store, new = disk.store, [entry for part in parts for entry in part.batch.journal]
        bounds = JournalBounds.of(store.state_bytes, self._settings().limits.data_bytes, disk.free)
        size = store.journal_bytes + sum(map(journal_entry_bytes, new))
        return store.journal_length + len(new) > bounds.entries or size > bounds.bytes

    async def _await_commit(self, disk: DiskThread, work: Work) -> None:
        snapshot = work.state is not None
        try:
            done = await disk.write(work)
        except Exception as error:  # noqa: BLE001 - StoreBrokenError or worse: nothing is safe from here on
            self.fail(f"the data directory has failed: {error}")
            return
        if self._is_halted:
            return
        disk.free = done.free
        self._counters.commits += 1
        self._counters.commit_seconds += done.seconds
        self._counters.snapshots += snapshot and not done.full
        written, self._parts = self._parts[: len(done.numbers)], self._parts[len(done.numbers) :]
        for part, number in zip(written, done.numbers, strict=True):
            self.outgoing.written(part, number)
        disk.on_written(done.position)
        self._note_space(shortage(done, self._settings().limits.data_bytes, is_short=bool(self.shortage)))
        if done.full:
            self._is_snapshot_due |= snapshot
            self.seal()
            self._parts = self.outgoing.release(self._parts)
            await asyncio.sleep(FULL_RETRY_SECONDS)
        self._commit = None
        self._flush()

    def fail(self, reason: str) -> None:
        """Nothing is safe from here on."""
        self._hooks.failed(reason)

    def _note_space(self, short: str) -> None:
        if short and not self.shortage:
            log.error("publishes are refused from here on: %s", short)
        if self.shortage and not short:
            log.warning("there is space again: publishes are accepted")
        self.shortage = f"{self._settings().name} is short of space: {short}" if short else ""

    async def finish(self) -> None:
        """Commit what is left; timers do not fire any more. Bound the time with `asyncio.timeout`."""
        self._alarm.end()
        self._flush()
        while self._commit is not None and not self._commit.done():
            await asyncio.wait([self._commit])
        await self.outgoing.all_confirmed()

    def halt(self) -> None:
        """Nothing more is committed or carried out: another machine runs this broker."""
        self._is_halted = True
        self._alarm.end()

    def close(self) -> None:
        if self._disk is not None:
            self._disk.close()

    # As a feature --------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        self.outgoing.tick()

    def refuse_publish(self) -> str:
        return self.shortage

    def unready(self) -> str:
        return self.shortage

    def status(self) -> dict[str, object]:
        return {"publishes_refused": self.shortage}
