"""Group commit: batches of an endpoint are sealed, committed together, and only then transmitted.

    touch ──▶ end of the turn ──▶ seal ──▶ commit, in a worker thread ──▶ transmit       without a disk: no commit

Rule 1: parts are committed and transmitted in the order in which they were sealed. What happens during a commit makes
        up the next one.
Rule 2: a frame goes to the connection that it was made for, or nowhere: the next connection starts with a Hello. So
        parts are sealed before a link changes, too.
Rule 3: while the disk is full, parts are held and tried again. What was on disk before may still be sent, and what its
        receivers confirm is deleted ahead of everything else (`relief`): that is how space comes back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pleach.core.links.endpoint import Batch, Endpoint, Progress
from pleach.core.links.frames import Ack, Data, Frame, Hello
from pleach.core.messages import Node
from pleach.errors import StoreFullError
from pleach.net.alarm import Alarm
from pleach.server.bugs import watched
from pleach.server.feature import Feature
from pleach.server.links import LinkTable, Wire
from pleach.server.metrics import DiskCounters
from pleach.server.settings import BrokerSettings
from pleach.server.store import Store, journal_entry_bytes

PART_BYTES_MAX = 262_144  # received: smaller parts fit sooner where space is short
FULL_RETRY_SECONDS = 0.25
QUOTA_RESERVE_SHARE = 8  # publishes are refused once less than an eighth of the quota is free, …
DISK_RESERVE_BYTES = 64 * 1_048_576  # … or, without a quota, less than this of the disk: refusals are written down too
JOURNAL_ENTRIES_MAX = 10_000  # then a snapshot takes their place: reading them again at a start takes about a second
JOURNAL_BYTES_MAX = 1_048_576  # likewise; or as much as the state itself takes, if that is more
JOURNAL_QUOTA_SHARE = 32  # where space is short, the journal gets no more than this share of the quota

log = logging.getLogger(__name__)


class SealedBatch(NamedTuple):
    """A batch with the connections that its frames are meant for."""

    batch: Batch
    wires: Mapping[Node, Wire]


class Committed(NamedTuple):
    """How a commit went: how many of the parts are on disk, and why not the others."""

    parts: int
    seconds: float
    free: int  # bytes
    full: str = ""


def write(disk: Store, relief: Batch | None, parts: Sequence[SealedBatch], state: bytes | None) -> Committed:
    """Runs in the worker thread. `state`: captured after the last part, and written with all of them."""
    started = time.perf_counter()
    written = 0
    try:
        if relief is not None:
            disk.commit(relief)
        if state is not None:
            *before, last = (part.batch for part in parts)
            disk.commit(last, state, before=before)
            return Committed(len(parts), time.perf_counter() - started, disk.bytes_free())
        for part in parts:
            if part.batch.changes_disk:
                disk.commit(part.batch)
            written += 1
    except StoreFullError as error:
        return Committed(written, time.perf_counter() - started, 0, str(error))
    return Committed(written, time.perf_counter() - started, disk.bytes_free())


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


class Durable:
    """What is on disk of each link: which frames say nothing that a crash could undo."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._progress: dict[Node, Progress] = {}
        self._last: dict[Node, int] = {}
        for peer, session in endpoint.sessions.items():
            self._progress[peer] = Progress.of(session)
            self._last[peer] = session.last

    def note(self, batch: Batch) -> None:
        for peer in batch.forgotten:
            self._progress.pop(peer, None)
            self._last.pop(peer, None)
        self._progress.update(batch.progress)
        for peer, sequence, _ in batch.queued:
            self._last[peer] = sequence

    def last(self, peer: Node) -> int:
        """The highest number for a peer whose payload is on disk."""
        return self._last.get(peer, 0)

    def allows(self, peer: Node, frame: Frame) -> bool:
        """Whether a frame may be sent ahead of the next commit."""
        match frame:
            case Data(sequence):
                return sequence <= self._last.get(peer, 0)
            case Ack(upto):
                return upto <= self._received(peer)
            case Hello(_, _, peer_epoch, received):
                known = self._progress.get(peer)
                return known is not None and known.peer_epoch == peer_epoch and received <= known.received
            case _:
                return True

    def relief(self) -> Batch | None:
        """Only what peers have confirmed of what is on disk: it takes no space and gives some."""
        progress = {}
        for peer, known in self._progress.items():
            session = self._endpoint.sessions.get(peer)
            if session is None or session.peer_epoch != known.peer_epoch:
                continue
            first = min(session.first, self._last.get(peer, 0) + 1)
            if first > known.first:
                progress[peer] = known._replace(first=first)
        return Batch.empty()._replace(progress=progress) if progress else None

    def release(self, parts: Sequence[SealedBatch]) -> list[SealedBatch]:
        """Send what is allowed of parts that are held; returns the parts with what is left of them."""
        stuck: set[Wire] = set()  # a held Hello holds all that follows it
        left = []
        for part in parts:
            kept = []
            for peer, frame in part.batch.transmits:
                wire = part.wires.get(peer)
                if wire is None:
                    continue
                if wire not in stuck and self.allows(peer, frame):
                    wire.send(frame)
                    continue
                kept.append((peer, frame))
                if isinstance(frame, Hello):
                    stuck.add(wire)
            left.append(part._replace(batch=part.batch._replace(transmits=kept)))
        return left

    def _received(self, peer: Node) -> int:
        known = self._progress.get(peer)
        return known.received if known is not None else 0


def transmit(part: SealedBatch) -> None:
    """Send the frames, then hang up: the batch is on disk, or there is no disk."""
    for peer, frame in part.batch.transmits:
        wire = part.wires.get(peer)
        if wire is not None:
            wire.send(frame)
    for peer, reason in part.batch.hangups:
        wire = part.wires.get(peer)
        if wire is not None:
            wire.close(reason)


class CommitHooks(NamedTuple):
    """What a committer calls: before and after a batch is sealed, when it is on disk, and when the disk has failed."""

    annotate: Callable[[Batch], Batch]
    sealed: Callable[[Batch], bool]  # whether this has led to more that must be sealed at once
    committed: Callable[[Batch], None]
    failed: Callable[[str], None]


class DiskThread:
    """A store, and the one thread that writes to it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._worker = ThreadPoolExecutor(1, "disk")

    def write(
        self, relief: Batch | None, parts: Sequence[SealedBatch], state: bytes | None
    ) -> asyncio.Future[Committed]:
        return asyncio.get_running_loop().run_in_executor(self._worker, write, self.store, relief, parts, state)

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
        self.durable = Durable(endpoint)
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
        self._free = store.bytes_free() if store else 0  # bytes, after the last commit
        self._commit: asyncio.Task[None] | None = None
        self._is_flush_due = False
        self._is_snapshot_due = False  # the journal does not tell how the state came about

    @property
    def is_durable(self) -> bool:
        return self._disk is not None

    @property
    def is_idle(self) -> bool:
        return not self._is_flush_due and not self._parts and self._commit is None

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
        batch = self._hooks.annotate(self._endpoint.take_batch())
        self._parts.append(SealedBatch(batch, self._links.wires))
        return self._hooks.sealed(batch)

    def replace_state(self) -> None:
        """The state was changed from outside: the next commit is a snapshot."""
        self._is_snapshot_due = True
        self.touch()

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._commit is not None:
            return  # it flushes again when it is done
        self.seal()
        while self._parts and not (self._disk and self._parts[0].batch.changes_disk):
            self._carry_out(self._parts.pop(0))
        if self._parts and self._disk:
            self._start_commit(self._disk)

    def _carry_out(self, part: SealedBatch) -> None:
        transmit(part)
        self._hooks.committed(part.batch)

    def _start_commit(self, disk: DiskThread) -> None:
        parts, relief = tuple(self._parts), self.durable.relief() if self.shortage else None
        is_due = self._is_snapshot_due or self._is_journal_long(disk.store, parts)
        state, self._is_snapshot_due = self._endpoint.capture() if is_due else None, False
        self._commit = watched(self._await_commit(disk.write(relief, parts, state), snapshot=state is not None))

    def _is_journal_long(self, store: Store, parts: Sequence[SealedBatch]) -> bool:
        new = [entry for part in parts for entry in part.batch.journal]
        bounds = JournalBounds.of(store.state_bytes, self._settings().limits.data_bytes, self._free)
        size = store.journal_bytes + sum(map(journal_entry_bytes, new))
        return store.journal_length + len(new) > bounds.entries or size > bounds.bytes

    async def _await_commit(self, work: asyncio.Future[Committed], *, snapshot: bool) -> None:
        try:
            done = await work
        except Exception as error:  # noqa: BLE001 - StoreBrokenError or worse: nothing is safe from here on
            self._hooks.failed(f"the data directory has failed: {error}")
            return
        self._free = done.free
        self._counters.commits += 1
        self._counters.commit_seconds += done.seconds
        self._counters.snapshots += snapshot and not done.full
        for part in self._parts[: done.parts]:
            self.durable.note(part.batch)
            self._carry_out(part)
        del self._parts[: done.parts]
        self._note_space(shortage(done, self._settings().limits.data_bytes, is_short=bool(self.shortage)))
        if done.full:
            self._is_snapshot_due |= snapshot
            self.seal()
            self._parts = self.durable.release(self._parts)
            await asyncio.sleep(FULL_RETRY_SECONDS)
        self._commit = None
        self._flush()

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

    def close(self) -> None:
        if self._disk is not None:
            self._disk.close()

    # As a feature --------------------------------------------------------------------------------------------

    def refuse_publish(self) -> str:
        return self.shortage

    def unready(self) -> str:
        return self.shortage

    def status(self) -> dict[str, object]:
        return {"publishes_refused": self.shortage}
