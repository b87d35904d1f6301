"""Chord, with the corrections of P. Zave ("Reasoning about identifier spaces: how to make Chord correct", 2017).

                    found                        leave
           ┌──── OUT ─────────▶ MEMBER ──────────────────▶ GONE
           │      │ join          ▲
           │      ▼               │ Place
           └── JOINING ───────────┘
        refused, or nobody answers

Rule 1: a newcomer takes the successors of the host before it, in one step, and with that host as its predecessor:
        never an empty list, never a list of its own making.
Rule 2: whoever becomes my first successor has answered me, and gave me its list with the answer.
Rule 3: a predecessor goes only when it does not answer, or when a nearer one says that it follows.
Rule 4: leaving is failing, said aloud: it changes nothing that a failure would not change, but sooner.
Rule 5: who did not answer is asked again for a while. Silence may have been a slow network, and two hosts that hold
        each other for dead would make two rings of one (Zave takes failures to be known for certain).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pleach.core.effects import SetTimer
from pleach.core.messages import AskRing, FindPlace, Notify, Peer, RingLeave, RingPlace, RingPlaceTaken, RingState
from pleach.core.ring.config import RingConfig, phase_of
from pleach.core.ring.effects import Asker, Cast, JoinEnded, OwnerFound, OwnerNotFound, Purpose, RingEffect
from pleach.core.ring.lookups import HOPS_MAX, Lookups, Mode
from pleach.core.ring.pending_answers import PendingAnswers
from pleach.core.ring.view import RingView

STABILISE: Final = "ring:stabilise"
JOIN_ATTEMPTS_MAX: Final = 10
FORMER_MAX: Final = 16
FORMER_ASKED_MAX: Final = 60  # a minute, where there is but one of them


class RingPhase(StrEnum):
    OUT = "out"
    JOINING = "joining"
    MEMBER = "member"
    GONE = "gone"


class Reason(StrEnum):
    """Why a host is asked how it sees the ring."""

    SUCCESSOR = "successor"  # it is my first: what follows it, and is there one before it?
    CANDIDATE = "candidate"  # it stands between me and my first successor
    PREDECESSOR = "predecessor"  # another host says that it follows: is mine still there?
    SUSPECT = "suspect"  # somebody else got no answer from it
    FORMER = "former"  # it has not answered: has it come back?


ROUND: Final = (Reason.SUCCESSOR, Reason.CANDIDATE)  # what a round of stabilising asks
ASKED_TWICE: Final = (Reason.SUCCESSOR, Reason.PREDECESSOR)  # one message may be lost


class PendingQuery(msgspec.Struct, frozen=True):
    """`instead`: whom to take for my predecessor if this one does not answer."""

    reason: Reason
    peer: Peer
    instead: Peer
    is_again: bool = False


class RingJoin(msgspec.Struct, frozen=True):
    seeds: tuple[Peer, ...]
    attempt: int = 1


class Chord:
    def __init__(self, config: RingConfig, view: RingView, requests: PendingAnswers[object], lookups: Lookups) -> None:
        self.phase = RingPhase.OUT
        self._config = config
        self._view = view
        self._requests = requests
        self._lookups = lookups
        self._is_stabilising = False  # one round at a time
        self._is_fixing = False  # one finger at a time
        self._next_finger = 0
        self._former: dict[Peer, int] = {}  # hosts that did not answer, and how often they are still asked

    # Coming and going ----------------------------------------------------------------------------------------

    def found(self) -> list[RingEffect]:
        """Be the first."""
        assert self.phase is RingPhase.OUT, self.phase
        return self._become_member()

    def join(self, seeds: Sequence[Peer], now: float) -> list[RingEffect]:
        assert self.phase is RingPhase.OUT, self.phase
        assert seeds, "somebody must be known"
        self.phase = RingPhase.JOINING
        return self._try_to_join(RingJoin(tuple(seeds)), now)

    def _try_to_join(self, joining: RingJoin, now: float) -> list[RingEffect]:
        if joining.attempt > JOIN_ATTEMPTS_MAX:
            self.phase = RingPhase.OUT
            return [JoinEnded(refusal="none of the seeds answers; is one of them a member of the ring?")]
        seed = joining.seeds[(joining.attempt - 1) % len(joining.seeds)]
        ticket = self._requests.issue(joining, self._config.find_within, now)
        return [Cast(seed, FindPlace(ticket, self._view.me, 1))]

    def not_placed(self, joining: RingJoin, now: float) -> list[RingEffect]:
        return self._try_to_join(RingJoin(joining.seeds, joining.attempt + 1), now)

    def place(self, message: RingPlace, now: float) -> list[RingEffect]:
        if not isinstance(self._requests.take(message.ticket), RingJoin):
            return []
        self._view.predecessor = message.predecessor
        self._view.follow(message.successors or [message.predecessor])
        self._view.hint(message.fingers)
        return [*self._become_member(), *self.stabilise(now)]

    def place_taken(self, message: RingPlaceTaken) -> list[RingEffect]:
        if not isinstance(self._requests.take(message.ticket), RingJoin):
            return []
        self.phase = RingPhase.OUT
        owner, key = message.owner, self._view.me.key
        return [JoinEnded(refusal=f"key {key} is that of {owner.name}; take another name, or keys with more bits")]

    def _become_member(self) -> list[RingEffect]:
        self.phase = RingPhase.MEMBER
        after = phase_of(self._view.me.name, self._config.stabilise_every)
        return [JoinEnded(), SetTimer(STABILISE, after, is_upkeep=True)]

    def leave(self) -> list[RingEffect]:
        self.phase = RingPhase.GONE
        view = self._view
        told = {peer.key: peer for peer in (view.predecessor, *view.successors[:1]) if peer != view.me}
        return [Cast(peer, RingLeave(view.predecessor)) for _, peer in sorted(told.items())]

    def show_place(self, message: FindPlace) -> list[RingEffect]:
        """Answer a newcomer that belongs behind me, or pass it on."""
        view, origin = self._view, message.origin
        followers = [peer for peer in view.successors if peer.name != origin.name]  # it may be here again so soon
        taken = next((peer for peer in (view.me, *followers[:1]) if peer.key == origin.key), None)
        if taken is not None:
            return [Cast(origin, RingPlaceTaken(message.ticket, taken))]
        if not followers or view.circle.is_between(view.me.key, origin.key, followers[0].key):
            place = RingPlace(message.ticket, view.me, followers, sorted(set(view.fingers.values()), key=_key))
            return [Cast(origin, place)]
        hop = view.next_hop(origin.key)
        if hop is None or message.hops >= HOPS_MAX:
            return []
        return [Cast(hop.peer, FindPlace(message.ticket, origin, message.hops + 1))]

    # Stabilising (Zave: StabilizeFromSuccessor, StabilizeFromPredecessor, Rectify) --------------------------------

    def tick(self, now: float) -> list[RingEffect]:
        every = SetTimer(STABILISE, self._config.stabilise_every, is_upkeep=True)
        return [*self.stabilise(now), *self._fix_a_finger(now), *self._ask_a_former(now), every]

    def stabilise(self, now: float) -> list[RingEffect]:
        if self._is_stabilising or self._view.is_alone:
            return []
        self._is_stabilising = True
        if not self._view.successors:  # I was alone, and one has come who follows: on a circle it is before me, too
            return self._ask(Reason.CANDIDATE, self._view.predecessor, now)
        return self._ask(Reason.SUCCESSOR, self._view.successors[0], now)

    def _ask(self, reason: Reason, peer: Peer, now: float, instead: Peer | None = None) -> list[RingEffect]:
        return self._put(PendingQuery(reason, peer, instead or peer), now)

    def _put(self, asked: PendingQuery, now: float) -> list[RingEffect]:
        ticket = self._requests.issue(asked, self._config.answer_within, now)
        return [Cast(asked.peer, AskRing(ticket, self._view.me))]

    def tell_state(self, message: AskRing) -> list[RingEffect]:
        view = self._view
        return [Cast(message.origin, RingState(message.ticket, view.predecessor, list(view.successors)))]

    def state(self, message: RingState, now: float) -> list[RingEffect]:
        asked = self._requests.take(message.ticket)
        if not isinstance(asked, PendingQuery) or asked.reason in (Reason.PREDECESSOR, Reason.SUSPECT):
            return []
        if asked.reason is Reason.FORMER:
            return self._is_back(asked.peer, now)
        view = self._view
        view.follow((asked.peer, *message.successors))
        before = message.predecessor
        if view.circle.is_between(view.me.key, before.key, asked.peer.key):
            return self._ask(Reason.CANDIDATE, before, now)
        return self._notify()

    def _notify(self) -> list[RingEffect]:
        self._is_stabilising = False
        return [Cast(peer, Notify(self._view.me)) for peer in self._view.successors[:1]]

    def notified(self, candidate: Peer, now: float) -> list[RingEffect]:
        view = self._view
        if candidate.key == view.me.key:
            return []
        if candidate.key == view.predecessor.key:
            view.predecessor = candidate  # it may listen elsewhere by now
            return []
        if view.circle.is_between(view.predecessor.key, candidate.key, view.me.key):
            view.predecessor = candidate
            return [] if view.successors else self.stabilise(now)
        return self._ask(Reason.PREDECESSOR, view.predecessor, now, instead=candidate)

    def no_answer(self, asked: PendingQuery, now: float) -> list[RingEffect]:
        if asked.reason in ASKED_TWICE and not asked.is_again:
            return self._put(msgspec.structs.replace(asked, is_again=True), now)
        if asked.reason in (*ROUND, Reason.PREDECESSOR) and len(self._former) < FORMER_MAX:
            self._former.setdefault(asked.peer, FORMER_ASKED_MAX)
        match asked.reason:
            case Reason.SUCCESSOR:
                self._view.forget(asked.peer.key)
                self._is_stabilising = False
                return self.stabilise(now)
            case Reason.CANDIDATE:
                return self._candidate_is_gone(asked.peer, now)
            case Reason.PREDECESSOR:
                if self._view.predecessor == asked.peer:
                    self._view.predecessor = asked.instead
                self._view.forget(asked.peer.key)
            case Reason.SUSPECT:
                self._view.forget(asked.peer.key)
            case Reason.FORMER:
                pass  # asked for the last time, or again later
        return []

    def _candidate_is_gone(self, peer: Peer, now: float) -> list[RingEffect]:
        """My successor does not know yet; when I notify it, it asks whether its predecessor is there."""
        self._view.forget(peer.key)
        if self._view.successors:
            return self._notify()
        self._is_stabilising = False
        return self.stabilise(now)

    def leaving(self, sender: str, predecessor: Peer, now: float) -> list[RingEffect]:
        view = self._view
        gone = next((peer for peer in (view.predecessor, *view.successors) if peer.name == sender), None)
        if gone is None:
            return []
        if view.predecessor == gone and predecessor != view.me:
            view.predecessor = predecessor
        was_next = gone in view.successors[:1]
        view.forget(gone.key)
        unanswered = self._requests.take_all(lambda what: isinstance(what, PendingQuery) and what.peer == gone)
        if any(isinstance(what, PendingQuery) and what.reason in ROUND for what in unanswered):
            self._is_stabilising = False
        return self.stabilise(now) if was_next else []

    def suspect(self, keys: Sequence[int], now: float) -> list[RingEffect]:
        """Somebody got no answer from these: see for myself."""
        known = (self._view.knows(key) for key in keys)
        return [effect for peer in known if peer is not None for effect in self._ask(Reason.SUSPECT, peer, now)]

    def _ask_a_former(self, now: float) -> list[RingEffect]:
        """One at a time, in turn."""
        if not self._former:
            return []
        peer = next(iter(self._former))
        times = self._former.pop(peer) - 1
        if times:
            self._former[peer] = times
        return self._ask(Reason.FORMER, peer, now)

    def _is_back(self, peer: Peer, now: float) -> list[RingEffect]:
        view = self._view
        following = view.successors[0] if view.successors else view.me
        if not view.circle.is_between(view.me.key, peer.key, following.key):
            self._former.pop(peer, None)
            return []
        if self._is_stabilising:
            return []
        self._is_stabilising = True
        return self._ask(Reason.CANDIDATE, peer, now)

    # Fingers ---------------------------------------------------------------------------------------------------

    def _fix_a_finger(self, now: float) -> list[RingEffect]:
        view = self._view
        number = max(self._next_finger, view.first_finger)
        if self._is_fixing:
            return []
        if number >= view.circle.bits:
            self._next_finger = 0
            return []
        self._is_fixing = True
        key = (view.me.key + (1 << number)) % view.circle.size
        return self._lookups.start(key, Purpose(Asker.FINGERS, number), Mode.RECURSIVE, now)

    def finger(self, found: OwnerFound | OwnerNotFound) -> None:
        number = found.purpose.number
        self._is_fixing = False
        self._next_finger = number + 1
        if isinstance(found, OwnerFound):
            self._next_finger = self._view.point(number, found.owner)


def _key(peer: Peer) -> int:
    return peer.key
