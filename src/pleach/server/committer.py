"""Group commit: batches wait for the disk together, and their frames wait for them.

    sealed parts ──▶ commit, in a worker thread ──▶ transmit          further frames meanwhile become the next parts

Rule 1: parts are committed and transmitted in the order in which they were sealed.
Rule 2: a frame goes to the connection that it was made for, or nowhere: the next connection starts with a Hello.
Rule 3: while the disk is full, parts are held and tried again. What was on disk before may still be sent, and what its
        receivers confirm is deleted ahead of everything else (`relief`): that is how space comes back.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from pleach.core.links.endpoint import Batch, Endpoint, Progress
from pleach.core.links.frames import Ack, Data, Frame, Hello
from pleach.core.messages import Node
from pleach.errors import StoreFullError

QUOTA_RESERVE_SHARE = 8  # publishes are refused once less than an eighth of the quota is free, …
DISK_RESERVE_BYTES = 64 * 1_048_576  # … or, without a quota, less than this of the disk: refusals are written down too
JOURNAL_ENTRIES_MAX = 10_000  # then a snapshot takes their place: reading them again at a start takes about a second


class Wire(Protocol):
    """A connection, as far as a node cares."""

    def send(self, frame: Frame) -> None: ...

    def close(self, reason: str = ...) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Disk(Protocol):
    """A store, as far as a node cares."""

    @property
    def journal_length(self) -> int: ...

    def bytes_free(self) -> int: ...

    def commit(self, batch: Batch, state: bytes | None = None) -> None:
        """All of it or nothing; `state`, captured after the batch, takes the place of the journal."""
        ...


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


def write(disk: Disk, relief: Batch | None, parts: Sequence[SealedBatch], state: bytes | None) -> Committed:
    """Runs in the worker thread. `state`: captured after the last part, and written with it."""
    started = time.perf_counter()
    written = 0
    try:
        if relief is not None:
            disk.commit(relief)
        for part in parts:
            is_last = written == len(parts) - 1
            if part.batch.changes_disk or (is_last and state is not None):
                disk.commit(part.batch, state if is_last else None)
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


class Durable:
    """What is on disk of each link: which frames say nothing that a crash could make undone."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._progress: dict[Node, Progress] = {}
        self._last: dict[Node, int] = {}
        for peer, session in endpoint.sessions.items():
            self._progress[peer] = Progress(endpoint.epoch, session.peer_epoch, session.received, session.first)
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


def carry_out(part: SealedBatch) -> None:
    """Transmit, then hang up: the batch is on disk, or there is no disk."""
    for peer, frame in part.batch.transmits:
        wire = part.wires.get(peer)
        if wire is not None:
            wire.send(frame)
    for peer, reason in part.batch.hangups:
        wire = part.wires.get(peer)
        if wire is not None:
            wire.close(reason)
