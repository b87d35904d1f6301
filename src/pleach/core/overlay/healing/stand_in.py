"""A stand-in for a broker that is dead for good (docs/protocols/healing.md): the same name, and an empty memory.

    IDLE ── StandFor ──▶ GATHERING ── the last Testimony ──▶ MERGING ──▶ SERVING ── grace is over ──▶ IDLE

The tree stays as it is; only who is at this place changes. Every living neighbour tells what the dead broker had from
it, and the journal of its link; from these come the tables, and the events that the dead one had not confirmed.

Rule 1: while GATHERING everything waits, and nothing is sent but to other stand-ins.
Rule 2: what a neighbour sends before its testimony is void: the testimony says it all. What follows it, follows.
Rule 3: neighbours are told the difference between what they have and what they should have, installs first: nothing
        that anyone wants is withdrawn on the way. What the dead broker's own clients wanted stays until they have come
        back, or grace is over.
Rule 4: an event is not sent to a neighbour that has got it, or a later one of its publisher, from the dead broker, nor
        to one that has heard of it: the dead broker had found that it does not want it. Where each publisher's order
        is all that is promised, hearsay does not count for what a client sends again: a stand-in before us may have
        spread what it had heard of itself, and never had.
Rule 5: while SERVING every event that passes is kept, for the clients that come back.
Rule 6: where causal order is promised, an event that its publisher sends again and somebody has got is sent to nobody:
        answers to it may be under way, and it would come after them.
Rule 7: stand-ins next to each other send each other every event while they serve: what the clients of one wanted of the
        other, only the two dead brokers knew.
Rule 8: a stand-in owes each of those next to it what it has merged, until that one has merged it, too: should that one
        die before, the next one gets it with our testimony, since the witnesses are done with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pleach.core.effects import Effect, Observe, Observed, Send, SetTimer
from pleach.core.events.event import Event, EventId
from pleach.core.messages import (
    Advertise,
    Attach,
    Bereaved,
    ClientRequest,
    Deliver,
    Forward,
    Got,
    Layer,
    Message,
    Node,
    Pooled,
    Publish,
    Published,
    Returning,
    Served,
    StandFor,
    Subscribe,
    Testimony,
    pack,
    unpack,
)
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.healing.causal_merge import merged
from pleach.core.overlay.healing.journal import Marks, covers, in_order, marks_of, note
from pleach.core.overlay.healing.pool import ABSENT, Pool
from pleach.core.overlay.healing.witness import Witness, WitnessState
from pleach.core.overlay.seam import Hold, Passing, Reaction, Reconfiguration, Verdict, join, stale
from pleach.errors import HealingError, ProtocolError

GRACE: Final = "standin:grace"
KEPT_MAX = 100_000  # events for clients that come back; beyond them the oldest go
NOTHING = Reaction()


class StandInPhase(StrEnum):
    IDLE = "idle"
    GATHERING = "gathering"
    MERGING = "merging"
    SERVING = "serving"


class StandInState(msgspec.Struct, array_like=True):
    phase: StandInPhase = StandInPhase.IDLE
    parent: Node = ""
    pool: Pool | None = None
    mates: list[Node] = []  # neighbours that are stand-ins as well
    bereft: list[Node] = []  # neighbours that died after they had testified, and wait for our testimony
    returns: dict[Node, Returning] = {}  # clients that were here before we could serve them
    held: dict[Node, None] = {}  # links of which something waits
    kept: list[Event] = []
    seen: list[EventId] = []  # by anybody, when the dead broker died
    given_up: list[EventId] = []  # by rule 6
    witness: WitnessState = msgspec.field(default_factory=WitnessState)
    served: list[Node] = []  # mates that have merged before us


class StandIn:
    name = "standin"
    accepts: frozenset[type[Message]] = frozenset((StandFor, Bereaved, Testimony, Served, Pooled, Returning))
    keeps_causal_order = True

    def __init__(self, context: BrokerContext, ordering: str, grace: float) -> None:
        """`grace`: seconds for which what the dead broker's clients wanted is kept up for them."""
        if ordering == "none":
            raise HealingError(
                "a network without order cannot heal: marks need the events of a publisher in rising order; "
                'set ordering = "fifo" or "causal"'
            )
        self._context = context
        self._is_causal = ordering == "causal"
        self._grace = grace
        context.on_settled = self._settled
        self._state = StandInState()
        self._has: Mapping[Node, Marks] = {}
        self._got: Mapping[Node, Marks] = {}
        self._seen: Marks = {}

    @property
    def phase(self) -> StandInPhase:
        return self._state.phase

    @property
    def holds(self) -> tuple[Sequence[Event], Sequence[EventId]]:
        """What is kept for clients that come back, and what was given up by rule 6."""
        return self._state.kept, self._state.given_up

    @property
    def untold(self) -> Sequence[Bereaved]:
        """What is still to be said of neighbours that are dead."""
        return self._state.witness.put_off

    @property
    def under_way(self) -> Reconfiguration | None:
        return None if self.phase is StandInPhase.IDLE else self

    @property
    def operation(self) -> str:
        return "" if self.phase is StandInPhase.IDLE else f"stand-in for {self._context.name}"

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        match message:
            case StandFor(neighbours, parent):
                return self._begin(neighbours, parent)
            case Bereaved():
                return join(self._witness.mourn(message.peer), Reaction(self._respond(message)))
            case Pooled() if self.phase is StandInPhase.SERVING and sender in self._state.mates:
                return NOTHING  # we have merged meanwhile, and have said so
            case Testimony() | Pooled():
                return self._gathered(sender, message)
            case Served():
                return self._is_served(sender)
            case Returning() if sender not in self._context.router.neighbours:
                return Reaction(self._returned(sender, message))
            case _:
                raise ProtocolError(self._context.name, sender, message, "neighbours do not send this")

    # The neighbours of a dead broker -------------------------------------------------------------------------

    @property
    def _witness(self) -> Witness:
        return Witness(self._context, self._state.witness)

    def _respond(self, message: Bereaved) -> list[Effect]:
        state, peer = self._state, message.peer
        if self.phase is StandInPhase.GATHERING and state.pool:
            if peer in state.pool.witnesses:
                state.bereft.append(peer)  # it was alive for us: once we serve, we are a neighbour like any other
                return []
            return self._befriend(state.pool, peer)
        if self._is_open(peer):
            return self._witness.put_off(message)
        return self._inherit(message) if self._witness.is_heir(peer) else self._witness.respond(message)

    def _is_open(self, peer: Node) -> bool:
        """Whether the testimony has to wait: for what becomes of us and the peer, or for another protocol."""
        death_hooks, operation = self._context.death_hooks, self._context.locked_for()
        known = ("", self.operation, *(each.operation for each in death_hooks))
        return operation not in known or any(each.is_open(peer) for each in death_hooks)

    def _settled(self) -> list[Effect]:
        """What was put off is said as soon as it can be: before any event goes the same way."""
        if not self.untold or any(self._is_open(each.peer) for each in self.untold):
            return []
        return [effect for message in self._witness.take_put_off() for effect in self._respond(message)]

    def _inherit(self, message: Bereaved) -> list[Effect]:
        """The dead broker was leaving, and its clients are ours. What they say again may have come by it: rule 6."""
        got = [entry.event for entry in message.entries if isinstance(entry, Got)]
        self._state.seen = in_order(marks_of([*self._state.seen, *message.marks, *got, *message.heard]))
        self._derive()
        return []

    def _is_served(self, peer: Node) -> Reaction:
        """A stand-in has taken over what we said, or has merged what we have, too."""
        self._witness.served(peer)
        if self.phase is StandInPhase.GATHERING:
            self._state.served.append(peer)
        return NOTHING

    # Gathering -----------------------------------------------------------------------------------------------

    def _begin(self, neighbours: Sequence[Node], parent: Node) -> Reaction:
        assert self.phase is StandInPhase.IDLE
        assert not self._context.router.neighbours, "a stand-in begins with nothing"
        self._state = StandInState(
            StandInPhase.GATHERING, parent, Pool(self._context.name, {self._context.name: [*neighbours]})
        )
        return self._merge_if_complete([_seen_as(StandInPhase.GATHERING)])

    def _gathered(self, sender: Node, message: Testimony | Pooled) -> Reaction:
        state, pool = self._state, self._state.pool
        if self.phase is not StandInPhase.GATHERING or pool is None:
            raise ProtocolError(self._context.name, sender, message, "nothing is gathered here")
        met = [sender] if isinstance(message, Pooled) and sender not in state.mates else []
        match message:
            case Testimony():
                is_new = pool.hear(message)
            case Pooled(members, testimonies):
                state.mates = sorted({*state.mates, sender})
                is_new = pool.learn(sender, members, testimonies)
        told = [mate for mate in state.mates if mate not in (sender, *state.served)] if is_new else []
        shared = self._share(pool, [*met, *told])
        return self._merge_if_complete(shared) if is_new else Reaction(shared)

    def _befriend(self, pool: Pool, peer: Node) -> list[Effect]:
        """A neighbour is dead as well, or again. If again, others have to know that it asks anew (pool.py)."""
        state = self._state
        others = [mate for mate in state.mates if mate not in (peer, *state.served)] if pool.forget(peer) else []
        state.mates = sorted({*state.mates, peer})
        state.served = [mate for mate in state.served if mate != peer]
        return self._share(pool, [*others, peer])

    def _share(self, pool: Pool, mates: Sequence[Node]) -> list[Effect]:
        return [Send(mate, Pooled(list(pool.members.items()), pool.testimonies)) for mate in mates]

    # Merging -------------------------------------------------------------------------------------------------

    def _merge_if_complete(self, effects: Sequence[Effect]) -> Reaction:
        state, pool = self._state, self._state.pool
        assert pool is not None
        if pool.awaited:
            return Reaction(effects)
        state.phase = StandInPhase.MERGING
        rewired = self._context.rewire(pool.rewiring(state.parent))
        inherited = state.witness.inherited = pool.inherited()
        state.seen = in_order(pool.seen())
        self._derive()
        for peer in state.bereft:
            rewired = [each for each in rewired if not (isinstance(each, Send) and each.to == peer)]
            rewired += self._witness.testify(Bereaved(peer, inherited[peer], [], pool.heard_elsewhere(peer)))
        history = self._replay(pool)
        served = [Send(peer, Served()) for peer in (*pool.witnesses, *state.mates) if peer not in state.bereft]
        return self._serve([*effects, *rewired, *served, *history])

    def _replay(self, pool: Pool) -> list[Effect]:
        """What the dead broker had not confirmed, to those who have not got it. Stand-ins next to us do the same.

        Should one of them die before, the next one has it from us (rule 8).
        """
        router, living, hops = self._context.router, pool.witnesses, pool.hops()
        effects: list[Effect] = []
        owed: dict[Node, list[Event]] = {mate: [] for mate in self._state.mates if mate not in self._state.served}
        for witness, event in merged(pool.accounts()):
            destinations = router.destinations(event.attributes, hops[witness])
            lacking = [to for to in destinations if to in living and not covers(self._has[to], event.id)]
            effects += [Send(to, Forward(event)) for to in lacking]
            self._keep(event)
            for mate in owed:
                owed[mate] += [event] if hops[witness] != mate else []
        for mate, events in owed.items():
            self._witness.owe(mate, events)
        merged_away = Observe(Observed.STATE, detail=f"standin: {StandInPhase.MERGING}: {len(self._state.kept)} events")
        return [merged_away, *effects]

    def _serve(self, effects: Sequence[Effect]) -> Reaction:
        state = self._state
        state.phase = StandInPhase.SERVING
        returned = [effect for client, each in state.returns.items() for effect in self._returned(client, each)]
        state.returns = {}
        strangers = state.pool.strangers if state.pool else []
        waiting, state.held = sorted({*state.held} - {*strangers}), {}
        neighbours = [link for link in waiting if link in self._context.router.neighbours]
        clients = [link for link in waiting if link not in neighbours]
        grace = SetTimer(GRACE, self._grace)
        served = [*effects, _seen_as(StandInPhase.SERVING), *returned, grace]
        return Reaction(served, released=[*neighbours, *clients], discarded=strangers)

    # Serving -------------------------------------------------------------------------------------------------

    def _returned(self, client: Node, message: Returning) -> list[Effect]:
        """A client is back: it gets what has come for it meanwhile, in order, and is then a client like any other."""
        state = self._state
        if self.phase is StandInPhase.GATHERING:
            state.returns[client] = message
            return []
        requests: list[ClientRequest] = [
            Attach(message.own_events),
            *(Advertise(name, wanted) for name, wanted in sorted(message.advertisements.items())),
            *(Subscribe(name, wanted) for name, wanted in sorted(message.subscriptions.items())),
        ]
        late: list[Effect] = []
        if self.phase is StandInPhase.IDLE and state.seen and not self._context.locked_for():  # for what it sends again
            state.phase, late = StandInPhase.SERVING, [SetTimer(GRACE, self._grace)]
        marks = marks_of([*message.marks, *message.heard])
        for event_id in message.marks:
            note(self._seen, event_id)
        state.seen = in_order(self._seen)
        answers = [send for request in requests for send in self._context.sessions.handle(client, request)]
        missed = [event for event in state.kept if _misses(client, message, marks, event)]
        return [*late, *answers, *(Send(client, Deliver(event)) for event in missed)]

    def _keep(self, event: Event) -> None:
        self._state.kept.append(event)
        if len(self._state.kept) > KEPT_MAX:
            del self._state.kept[0]

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        return self._end() if name == GRACE else Reaction(self._look_again())

    def _look_again(self) -> list[Effect]:
        return self._settled() or (self._witness.keep_waiting() if self.untold else [])

    def _end(self) -> Reaction:
        """Grace is over: who has not come back has ended its subscriptions."""
        state, router = self._state, self._context.router
        effects: list[Effect] = []
        for layer in reversed(Layer):
            for entry in router.received_from(layer, ABSENT):
                effects += self._context.answered(router.remove(layer, ABSENT, entry))
        given_up = [
            Observe(Observed.STATE, event_id=str(event), detail="given up: it would come after answers to it")
            for event in state.given_up
        ]
        self._state = StandInState(seen=state.seen, witness=state.witness)
        self._derive()
        return Reaction([*effects, *given_up, _seen_as(StandInPhase.IDLE)])

    # At the seam ---------------------------------------------------------------------------------------------

    @property
    def peers(self) -> frozenset[Node]:
        pool = self._state.pool
        return frozenset(pool.neighbours) if self.phase is StandInPhase.GATHERING and pool else frozenset()

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if self.phase is StandInPhase.GATHERING:
            self._state.held[sender] = None
            return Hold()
        return stale(sender, message)

    def leaving(self, source: Node, cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        """Absent clients get nothing now, neighbours nothing twice, and stand-ins next to us everything (rule 7)."""
        sends = [send for send in sends if send.to != ABSENT]
        if not isinstance(cause, Forward | Publish):
            return sends
        if isinstance(cause, Publish):
            confirmed = [send for send in sends if isinstance(send.message, Published)]
            if not confirmed:
                return sends  # it was refused
            if (self._is_causal or not self._has) and covers(self._seen, cause.event.id):
                self._state.given_up.append(cause.event.id)
                return confirmed
        self._keep(cause.event)
        told_all = [mate for mate in self._state.mates if mate != source]
        has = self._got if isinstance(cause, Publish) and not self._is_causal else self._has
        others = [send for send in sends if send.to not in told_all and not _is_had(has, send)]
        return [*others, *(Send(mate, Forward(cause.event)) for mate in told_all)]

    # State ---------------------------------------------------------------------------------------------------

    def _derive(self) -> None:
        """What follows from the rest of the state."""
        pool = self._state.pool
        self._has, self._got = (pool.has(), pool.got()) if pool else ({}, {})
        self._seen = marks_of(self._state.seen)

    def resume(self) -> Sequence[Effect]:
        grace = [SetTimer(GRACE, self._grace)] if self.phase is StandInPhase.SERVING else []
        return [*grace, *self._witness.timers()]

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, StandInState)
        self._derive()


def _misses(client: Node, message: Returning, marks: Marks, event: Event) -> bool:
    if covers(marks, event.id) or (client == event.id.publisher and not message.own_events):
        return False
    return any(wanted.matches(event.attributes) for wanted in message.subscriptions.values())


def _is_had(has: Mapping[Node, Marks], send: Send) -> bool:
    return isinstance(send.message, Forward) and covers(has.get(send.to, {}), send.message.event.id)


def _seen_as(phase: StandInPhase) -> Observe:
    return Observe(Observed.STATE, detail=f"standin: {phase}")
