"""One host of the ring, as a pure machine: Chord, look-ups, and the keeper of its place in the tree.

    messages, timers ──▶ RingHost ──▶ Cast, SetTimer        to other hosts, to the clock
                                  ──▶ TreeNeighbours        to whoever makes the links of the tree
                                  ──▶ Found, NotFound, JoinEnded   to whoever asked

It has the shape of a broker's other machines (`overlay/seam.py`), but for its effects: it talks to hosts that are no
neighbours, over connections that may lose what is sent, and takes no part in what passes the seam.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import get_args

import msgspec

from pleach.core.effects import SetTimer
from pleach.core.messages import (
    AskHop,
    AskRing,
    FindOwner,
    FindPlace,
    KeyOwner,
    Message,
    NextHop,
    Node,
    Notify,
    Peer,
    RingLeave,
    RingMessage,
    RingPlace,
    RingPlaceTaken,
    RingState,
    TreeLink,
    TreeLinkAnswer,
    TreeUnlink,
    pack,
    unpack,
)
from pleach.core.ring.chord import STABILISE, Chord, PendingQuery, RingJoin, RingPhase
from pleach.core.ring.config import RingConfig
from pleach.core.ring.effects import Asker, OwnerFound, OwnerNotFound, Purpose, RingEffect
from pleach.core.ring.keys import Arc
from pleach.core.ring.lookups import Lookup, Lookups, Mode
from pleach.core.ring.pending_answers import ANSWERS, PendingAnswers
from pleach.core.ring.survey import Neighbourhood
from pleach.core.ring.tree_keeper import CHECK, Linked, TreeKeeper
from pleach.core.ring.view import RingView


class HostState(msgspec.Struct, frozen=True, array_like=True):
    """What survives a restart. What was asked is asked anew."""

    phase: RingPhase
    predecessor: Peer
    successors: tuple[Peer, ...]
    fingers: dict[int, Peer]
    parent: Peer | None
    children: tuple[Peer, ...]


class RingHost:
    name = "ring"
    accepts: frozenset[type[Message]] = frozenset(get_args(RingMessage))

    def __init__(self, me: Peer, config: RingConfig) -> None:
        assert 0 <= me.key < config.circle.size, f"{me} is not on a circle of {config.bits} bits"
        self.me = me
        self.config = config
        self.view = RingView(config.circle, me, config.successors)
        self._requests: PendingAnswers[object] = PendingAnswers()
        self._lookups = Lookups(config, self.view, self._requests)
        self._chord = Chord(config, self.view, self._requests, self._lookups)
        self._tree = TreeKeeper(config, self.view, self._requests, self._lookups)
        self._surveyed: Arc | None = None  # what I owned when I last looked for my place in the tree

    @property
    def phase(self) -> RingPhase:
        return self._chord.phase

    @property
    def neighbourhood(self) -> Neighbourhood:
        """Its place in the tree, as far as it knows."""
        return self._tree.neighbourhood

    # What the driver asks for ------------------------------------------------------------------------------------

    def found(self, *, now: float) -> Sequence[RingEffect]:
        """Be the first host of a ring."""
        return self._done(self._chord.found(), now)

    def join(self, seeds: Sequence[Peer], *, now: float) -> Sequence[RingEffect]:
        """Enter the ring that these are members of; ends with JoinEnded."""
        return self._done(self._chord.join(seeds, now), now)

    def leave(self, *, now: float) -> Sequence[RingEffect]:
        """Those who need to know are told; nothing is answered from now on."""
        return self._done([*self._tree.leave(), *self._chord.leave()], now)

    def look_up(self, key: int, *, now: float, number: int = 0, mode: Mode = Mode.RECURSIVE) -> Sequence[RingEffect]:
        """Ends with Found or NotFound; `number` comes back in its purpose."""
        return self._done(self._lookups.start(key, Purpose(Asker.USER, number), mode, now), now)

    # The machine ---------------------------------------------------------------------------------------------------

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[RingEffect]:
        match self._chord.phase:
            case RingPhase.MEMBER if isinstance(message, FindOwner):
                return self._lookups.pass_on(message)  # most messages are this one, and it changes nothing here
            case RingPhase.MEMBER:
                return self._done(self._handle(sender, message, now), now)
            case RingPhase.JOINING:
                return self._done(self._handle_joining(message, now), now)
            case RingPhase.OUT | RingPhase.GONE:
                return ()

    def _handle_joining(self, message: Message, now: float) -> list[RingEffect]:
        match message:
            case RingPlace():
                return self._chord.place(message, now)
            case RingPlaceTaken():
                return self._chord.place_taken(message)
            case _:
                return []  # others may still hold me for the member that I was

    def _handle(self, sender: Node, message: Message, now: float) -> list[RingEffect]:  # noqa: C901 - a table
        match message:
            case KeyOwner():
                return self._lookups.found(message)
            case AskHop():
                return [*self._lookups.tell_hop(message), *self._chord.suspect(message.avoid, now)]
            case NextHop():
                return self._lookups.hop(message, now)
            case FindPlace():
                return self._chord.show_place(message)
            case AskRing():
                return self._chord.tell_state(message)
            case RingState():
                return self._chord.state(message, now)
            case Notify(candidate):
                return self._chord.notified(candidate, now)
            case RingLeave(predecessor):
                return self._chord.leaving(sender, predecessor, now)
            case TreeLink():
                return self._tree.linked(message, now)
            case TreeLinkAnswer():
                return self._tree.answered(message)
            case TreeUnlink():
                return self._tree.unlinked(sender, now)
            case _:
                return []  # a Place that comes twice

    def handle_timer(self, name: str, *, now: float) -> Sequence[RingEffect]:
        if self._chord.phase in (RingPhase.OUT, RingPhase.GONE):
            return ()
        if name == STABILISE:
            return self._done(self._chord.tick(now), now)
        if name == CHECK:
            return self._done(self._tree.check(now), now)
        assert name == ANSWERS, name
        overdue = self._requests.take_overdue(now)
        return self._done([effect for what in overdue for effect in self._no_answer(what, now)], now)

    def _no_answer(self, what: object, now: float) -> list[RingEffect]:
        match what:
            case Lookup():
                return self._lookups.overdue(what, now)
            case PendingQuery():
                return self._chord.no_answer(what, now)
            case RingJoin():
                return self._chord.not_placed(what, now)
            case Linked():
                return self._tree.no_answer(what, now)
            case _:
                raise AssertionError(what)

    def _done(self, effects: list[RingEffect], now: float) -> list[RingEffect]:
        """What the parts have to tell each other is told here; the rest is for the driver."""
        done = self._told(effects, now)
        if self.phase is RingPhase.MEMBER and self.view.arc != self._surveyed:
            if self._surveyed is None:
                done.append(self._tree.first_check())
            self._surveyed = self.view.arc
            done += self._told(self._tree.begin(now), now)
        return [*done, *self._requests.timer(now)]

    def _told(self, effects: list[RingEffect], now: float) -> list[RingEffect]:
        outside: list[RingEffect] = []
        waiting = deque(effects)
        while waiting:
            effect = waiting.popleft()
            if not isinstance(effect, OwnerFound | OwnerNotFound) or effect.purpose.asker is Asker.USER:
                outside.append(effect)
            elif effect.purpose.asker is Asker.TREE:
                waiting.extend(self._tree.found(effect, now))
            else:
                self._chord.finger(effect)
        return outside

    # State -------------------------------------------------------------------------------------------------------

    def resume(self) -> Sequence[RingEffect]:
        """After a restart. Others may have given me up: the next round brings me back into the ring."""
        return [SetTimer(STABILISE, 0.0, is_upkeep=True)] if self.phase is RingPhase.MEMBER else []

    def capture(self) -> bytes:
        view, place = self.view, self.neighbourhood
        fingers = dict(sorted(view.fingers.items()))
        return pack(HostState(self.phase, view.predecessor, view.successors, fingers, place.parent, place.children))

    def restore(self, state: bytes) -> None:
        """A host that was joining is out again."""
        saved = unpack(state, HostState)
        self._chord.phase = RingPhase.OUT if saved.phase is RingPhase.JOINING else saved.phase
        self.view.restore(saved.predecessor, saved.successors, saved.fingers)
        self._tree.restore(Neighbourhood(saved.parent, saved.children))
