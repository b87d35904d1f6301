"""The seam of a broker that a client leaves or comes to: messages for the client are recorded, kept or queued.

    source   until the state is sent: delivered, and recorded. After that: kept, in case the client stays
    target   until the state has come: queued

Every event that reaches the source after the approval reaches the target, too: the approval came over the same links,
which are FIFO. So what the target has queued, without what the client received at the source, is what the client still
lacks, in an order that continues the one at the source (docs/protocols/movement.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pleach.core.effects import Send
from pleach.core.events.event import Event
from pleach.core.messages import CLIENT_REQUESTS, Deliver, Forward, Message, Node, Publish, Rejudge, encode
from pleach.core.mobility.movements import Movement, PathMovement, SourceMovement, TargetMovement
from pleach.core.mobility.phases import SourcePhase, TargetPhase
from pleach.core.overlay.seam import Hold, Passing, Verdict, stale


class MovementSeam:
    """`weights`: bytes of what waits for each movement, by operation; without it they are computed. It is kept up."""

    keeps_causal_order = True
    peers: frozenset[Node] = frozenset()

    def __init__(self, movements: Iterable[Movement], weights: dict[str, int] | None = None) -> None:
        self._leaving: dict[Node, SourceMovement] = {}
        self._entering: dict[Node, TargetMovement] = {}
        self.weights: dict[str, int] = {}
        for movement in movements:
            if waiting := _waiting(movement):
                known = (weights or {}).get(movement.operation)
                self.weights[movement.operation] = sum(map(_weight, waiting)) if known is None else known
            match movement:
                case SourceMovement(phase=phase) if phase is not SourcePhase.ABORTING:
                    self._leaving[movement.client] = movement
                case TargetMovement(phase=TargetPhase.APPROVED):
                    self._entering[movement.client] = movement

    @property
    def kept_bytes(self) -> int:
        """What is queued or kept for clients, as it would be on the wire."""
        return sum(self.weights.values())

    @property
    def is_idle(self) -> bool:
        return not (self._leaving or self._entering)

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        """A client that has halted sends nothing: what comes from it is of its next epoch, and waits for the outcome.

        It may come before its state does, where the source does not wait for the acknowledgement. A change of its
        rights waits as soon as it has halted: the target is asked at most once more.
        """
        if sender in self._entering:
            return Hold()
        leaving = self._leaving.get(sender)
        if leaving and message.__class__ in CLIENT_REQUESTS:
            is_late = leaving.phase is SourcePhase.AMENDING and isinstance(message, Rejudge)
            if leaving.phase is SourcePhase.PREPARED or is_late:
                return Hold()
            leaving.is_outdated |= not isinstance(message, Publish)
        return stale(sender, message)

    def leaving(self, _source: Node, _cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        return [send for send in sends if self._goes_out(send)]

    def _goes_out(self, send: Send) -> bool:
        if leaving := self._leaving.get(send.to):
            return self._goes_to_leaver(leaving, send)
        if (entering := self._entering.get(send.to)) and isinstance(send.message, Forward):
            entering.queued.append(send.message.event)
            self._note(entering, send.message)
            return False
        return True

    def _goes_to_leaver(self, leaving: SourceMovement, send: Send) -> bool:
        if leaving.phase is SourcePhase.PREPARED:
            leaving.kept.append(send.message)  # type: ignore[arg-type]
            self._note(leaving, send.message)
            return False
        if isinstance(send.message, Deliver):
            leaving.delivered.append(send.message.event.id)
        return True

    def _note(self, movement: SourceMovement | TargetMovement, message: Message) -> None:
        self.weights[movement.operation] = self.weights.get(movement.operation, 0) + len(encode(message))


def _waiting(movement: Movement) -> Sequence[Message | Event]:
    match movement:
        case SourceMovement(kept=kept):
            return kept
        case TargetMovement(queued=queued):
            return queued
        case PathMovement():
            return ()


def _weight(waiting: Message | Event) -> int:
    return len(encode(Forward(waiting) if isinstance(waiting, Event) else waiting))
