"""Parts on their way to peers: what is on disk is carried out at once, or when all copies have it.

Rule 1: parts are carried out in order. Where there are copies (`await_copies`) each waits until its commit is at every
        copy, and those without changes for the disk wait behind the last that has some.
Rule 2: whatever says nothing that does not last yet may be sent ahead (`release`), so that peers do not take a broker
        for dead that only waits, and get what was there before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pleach.core.links.endpoint import Batch, Endpoint, Progress
from pleach.core.links.frames import Ack, Data, Frame, Hello
from pleach.core.messages import Node
from pleach.server.links import Wire


class SealedBatch(NamedTuple):
    """A batch with the connections that its frames are meant for."""

    batch: Batch
    wires: Mapping[Node, Wire]


class Durable:
    """What lasts of each link: which frames say nothing that a crash could undo."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Nothing yet."""
        self._endpoint = endpoint
        self._progress: dict[Node, Progress] = {}
        self._last: dict[Node, int] = {}

    @classmethod
    def recovered(cls, endpoint: Endpoint) -> Durable:
        """All that an endpoint has recovered from its disk."""
        durable = cls(endpoint)
        for peer, session in endpoint.sessions.items():
            durable._progress[peer] = Progress.of(session)
            durable._last[peer] = session.last
        return durable

    def copy(self) -> Durable:
        other = Durable(self._endpoint)
        other._progress, other._last = dict(self._progress), dict(self._last)
        return other

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


class AwaitedPart(NamedTuple):
    """A part that is on the own disk, and waits until all copies have this commit."""

    number: int
    part: SealedBatch


class OutgoingParts:
    def __init__(self, endpoint: Endpoint, on_committed: Callable[[Batch], None]) -> None:
        """To be made when the endpoint is recovered. `on_committed`: a batch lasts, and was sent."""
        self.stored = Durable.recovered(endpoint)  # what is on the own disk
        self.lasting = self.stored  # what peers may be told; another one where there are copies
        self._endpoint = endpoint
        self._on_committed = on_committed
        self._awaited: list[AwaitedPart] | None = None  # None: there are no copies
        self._recovered: tuple[int, Durable] | None = None  # what no copy has confirmed yet, and its commit
        self._number = 0  # the last commit on the own disk
        self._is_late = False  # the first part has waited for a tick
        self._nothing_awaited = asyncio.Event()
        self._nothing_awaited.set()

    @property
    def awaited(self) -> int:
        """How many parts wait for copies."""
        return len(self._awaited or ())

    def await_copies(self, number: int) -> None:
        """From here on nothing lasts before `confirmed` says so: nor what was recovered, which is there at `number`."""
        assert self._awaited is None, "once"
        self._awaited, self._number = [], number
        self._recovered = number, self.stored.copy()
        self.lasting = Durable(self._endpoint)

    def written(self, part: SealedBatch, number: int) -> None:
        """A part is on the own disk, with this commit."""
        self.stored.note(part.batch)
        self._number = number
        if self._awaited is None:
            self._carry_out(part)
        else:
            self._await(part)

    def passing(self, part: SealedBatch) -> None:
        """A part without changes for the disk comes behind all that were written."""
        if self._awaited or self._recovered:
            self._await(part)
        else:
            self._carry_out(part)

    def _await(self, part: SealedBatch) -> None:
        assert self._awaited is not None
        self._awaited.append(AwaitedPart(self._number, part))
        self._nothing_awaited.clear()

    def confirmed(self, number: int) -> None:
        """All copies have the commits up to this one."""
        assert self._awaited is not None
        if self._recovered is not None:
            if number < self._recovered[0]:
                return
            self.lasting, self._recovered = self._recovered[1], None
        parts = self._awaited
        count = next((index for index, awaited in enumerate(parts) if awaited.number > number), len(parts))
        self._awaited, self._is_late = parts[count:], False
        for _, part in parts[:count]:
            self.lasting.note(part.batch)
            self._carry_out(part)
        if not self._awaited:
            self._nothing_awaited.set()

    def _carry_out(self, part: SealedBatch) -> None:
        transmit(part)
        self._on_committed(part.batch)

    def tick(self) -> None:
        """Send ahead what may be, where something waits for longer than a tick."""
        if self._is_late:
            self.release(())
        self._is_late = bool(self._awaited)

    def release(self, parts: Sequence[SealedBatch]) -> list[SealedBatch]:
        """Send ahead what may be of all that waits, and then of these parts; returns what is left of them."""
        awaited = self._awaited or []
        left = self.lasting.release([*(each.part for each in awaited), *parts])
        if awaited:
            self._awaited = [each._replace(part=part) for each, part in zip(awaited, left, strict=False)]
        return left[len(awaited) :]

    async def all_confirmed(self) -> None:
        await self._nothing_awaited.wait()
