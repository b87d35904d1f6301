"""A stand-in for a dead broker (docs/protocols/healing.md): a broker of the same name, without state.

    IDLE ── StandFor ──▶ GATHERING ── the last Testimony ──▶ MERGING ──▶ SERVING ── end of grace ──▶ IDLE

The tree stays the same; only the broker at this position is replaced. Every living neighbour reports the entries that
the dead broker had from it, and the journal of its link. From these follow the tables and the unconfirmed events.

Rule 1: while GATHERING all messages wait, and nothing is sent except to other stand-ins.
Rule 2: messages of a neighbour before its testimony are void, since the testimony includes them.
Rule 3: neighbours get the difference between the entries that they have and should have, installs first: no needed
        entry is withdrawn in between. Entries of the dead broker's clients stay until they return or grace ends.
Rule 4: an event is not sent to a neighbour that received it, or a later one of its publisher, from the dead broker, nor
        to one that has *heard* of it: the dead broker had found that it does not match there. With FIFO order only,
        what was heard does not count for events that a client sends again: a former stand-in may have spread marks of
        events that it never had.
Rule 5: while SERVING every passing event is kept for the clients that return.
Rule 6: with causal order, an event that its publisher sends again and some broker has received is sent to nobody:
        answers to it may be in flight, and it would arrive after them.
Rule 7: neighbouring stand-ins send each other every event while they serve: only the two dead brokers knew what the
        clients of one wanted from the other.
Rule 8: a stand-in keeps what it has merged for each neighbouring stand-in until that one has merged it too. If that one
        dies before, the next one gets it with our testimony, since the witnesses no longer have it.
Rule 9: `Returning` is accepted only where clients were asked to return: by a stand-in, and by a broker that has
        inherited the clients of another one. What a client says of other publishers' events is not proven. So by rule 6
        only those events are given up that their own publisher has said it sends again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pleach.core.effects import Effect, Observe, Observed, Send, SetTimer
from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from pleach.core.messages import (
    Advertise,
    Attach,
    Bereaved,
    ClientRequest,
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
KEPT_MAX = 100_000  # events for clients that return; the oldest are dropped
SEEN_MAX = 100_000  # publishers whose events clients may report; further ones are ignored
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
    stand_ins: list[Node] = []  # neighbours that are stand-ins as well
    dead_witnesses: list[Node] = []  # neighbours that died after they testified, and need our testimony
    returns: dict[Node, Returning] = {}  # of clients that returned before SERVING
    held: dict[Node, None] = {}  # links with held messages
    kept: list[Event] = []
    seen: list[EventId] = []  # received by any broker when the dead one died
    given_up: list[EventId] = []  # by rule 6
    witness: WitnessState = msgspec.field(default_factory=WitnessState)
    served: list[Node] = []  # stand-ins that have merged before us
    has_asked: bool = False  # clients were asked to return here (rule 9)
    again: Marks = {}  # per client that returned: the last event that it sends again


class StandIn:
    name = "standin"
    accepts: frozenset[type[Message]] = frozenset((StandFor, Bereaved, Testimony, Served, Pooled, Returning))
    keeps_causal_order = True

    def __init__(self, context: BrokerContext, ordering: str, grace: float) -> None:
        """`grace`: seconds for which entries of the dead broker's clients are kept."""
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
    def has_asked(self) -> bool:
        """Whether clients were asked to return here (rule 9)."""
        return self._state.has_asked

    @property
    def holds(self) -> tuple[Sequence[Event], Sequence[EventId]]:
        """Events kept for clients that return, and events given up by rule 6."""
        return self._state.kept, self._state.given_up

    @property
    def untold(self) -> Sequence[Bereaved]:
        """Testimonies still to be given about dead neighbours."""
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
                return join(self._witness.peer_died(message.peer), Reaction(self._respond(message)))
            case Pooled() if self.phase is StandInPhase.SERVING and sender in self._state.stand_ins:
                return NOTHING  # merged and reported meanwhile
            case Testimony() | Pooled():
                return self._gathered(sender, message)
            case Served():
                return self._is_served(sender)
            case Returning() if not self.has_asked:
                raise ProtocolError(self._context.name, sender, message, "no client was asked to return here")
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
                state.dead_witnesses.append(peer)  # it had testified: testify about it once we serve
                return []
            return self._add_stand_in(state.pool, peer)
        if self._is_open(peer):
            return self._witness.put_off(message)
        return self._inherit(message) if self._witness.is_heir(peer) else self._witness.respond(message)

    def _is_open(self, peer: Node) -> bool:
        """Whether the testimony must wait for an operation with the peer, or for another protocol."""
        death_hooks, operation = self._context.death_hooks, self._context.locked_for()
        known = ("", self.operation, *(each.operation for each in death_hooks))
        return operation not in known or any(each.is_open(peer) for each in death_hooks)

    def _settled(self) -> list[Effect]:
        """Give postponed testimonies as soon as possible, before any event goes the same way."""
        if not self.untold or any(self._is_open(each.peer) for each in self.untold):
            return []
        return [effect for message in self._witness.take_put_off() for effect in self._respond(message)]

    def _inherit(self, message: Bereaved) -> list[Effect]:
        """The dead broker was leaving, and its clients are ours. Rule 6 applies to what they send again."""
        got = [entry.event for entry in message.entries if isinstance(entry, Got)]
        self._state.seen = in_order(marks_of([*self._state.seen, *message.marks, *got, *message.heard]))
        self._state.has_asked = True
        self._derive()
        return []

    def _is_served(self, peer: Node) -> Reaction:
        """A stand-in has taken over our testimony, or has merged what we have."""
        self._witness.served(peer)
        if self.phase is StandInPhase.GATHERING:
            self._state.served.append(peer)
        return NOTHING

    # Gathering -----------------------------------------------------------------------------------------------

    def _begin(self, neighbours: Sequence[Node], parent: Node) -> Reaction:
        assert self.phase is StandInPhase.IDLE
        assert not self._context.router.neighbours, "a stand-in begins without neighbours"
        self._state = StandInState(
            StandInPhase.GATHERING,
            parent,
            Pool(self._context.name, {self._context.name: [*neighbours]}),
            has_asked=True,
        )
        return self._merge_if_complete([_seen_as(StandInPhase.GATHERING)])

    def _gathered(self, sender: Node, message: Testimony | Pooled) -> Reaction:
        state, pool = self._state, self._state.pool
        if self.phase is not StandInPhase.GATHERING or pool is None:
            raise ProtocolError(self._context.name, sender, message, "no stand-in gathers here")
        met = [sender] if isinstance(message, Pooled) and sender not in state.stand_ins else []
        match message:
            case Testimony():
                is_new = pool.hear(message)
            case Pooled(members, testimonies):
                state.stand_ins = sorted({*state.stand_ins, sender})
                is_new = pool.learn(sender, members, testimonies)
        told = [stand_in for stand_in in state.stand_ins if stand_in not in (sender, *state.served)] if is_new else []
        shared = self._share(pool, [*met, *told])
        return self._merge_if_complete(shared) if is_new else Reaction(shared)

    def _add_stand_in(self, pool: Pool, peer: Node) -> list[Effect]:
        """A neighbour is dead too, or again. If again, other stand-ins must know that it asks again (pool.py)."""
        state = self._state
        is_again = pool.forget(peer)
        others = [each for each in state.stand_ins if each not in (peer, *state.served)] if is_again else []
        state.stand_ins = sorted({*state.stand_ins, peer})
        state.served = [stand_in for stand_in in state.served if stand_in != peer]
        return self._share(pool, [*others, peer])

    def _share(self, pool: Pool, stand_ins: Sequence[Node]) -> list[Effect]:
        return [Send(stand_in, Pooled(list(pool.members.items()), pool.testimonies)) for stand_in in stand_ins]

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
        for peer in state.dead_witnesses:
            rewired = [each for each in rewired if not (isinstance(each, Send) and each.to == peer)]
            rewired += self._witness.testify(Bereaved(peer, inherited[peer], [], pool.heard_elsewhere(peer)))
        history = self._replay(pool)
        served = [
            Send(peer, Served()) for peer in (*pool.witnesses, *state.stand_ins) if peer not in state.dead_witnesses
        ]
        return self._serve([*effects, *rewired, *served, *history])

    def _replay(self, pool: Pool) -> list[Effect]:
        """Send unconfirmed events to neighbours that lack them. Neighbouring stand-ins do the same (rule 8)."""
        router, living, hops = self._context.router, pool.witnesses, pool.hops()
        effects: list[Effect] = []
        owed: dict[Node, list[Event]] = {
            stand_in: [] for stand_in in self._state.stand_ins if stand_in not in self._state.served
        }
        for witness, event in merged(pool.accounts()):
            destinations = router.destinations(event.attributes, hops[witness])
            lacking = [to for to in destinations if to in living and not covers(self._has[to], event.id)]
            effects += [Send(to, Forward(event)) for to in lacking]
            self._keep(event)
            for stand_in in owed:
                owed[stand_in] += [event] if hops[witness] != stand_in else []
        for stand_in, events in owed.items():
            self._witness.owe(stand_in, events)
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
        """A client returns: it gets the events it missed, in order, and is an ordinary client from then on."""
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
        is_late = self.phase is StandInPhase.IDLE and self._has_seen_any(client, message)
        if is_late and not self._context.locked_for():
            state.phase, late = StandInPhase.SERVING, [SetTimer(GRACE, self._grace)]
        marks = marks_of([*message.marks, *message.heard])
        for event_id in message.marks:
            if event_id.publisher in self._seen or len(self._seen) < SEEN_MAX:
                note(self._seen, event_id)
        state.seen = in_order(self._seen)
        for event_id in message.again:
            if event_id.publisher == client:
                note(state.again, event_id)
        answers = [send for request in requests for send in self._context.sessions.handle(client, request)]
        sessions = self._context.sessions
        wanted = sessions.subscriptions(client)  # what its rights leave of those that it asks for
        missed = [event for event in state.kept if _misses(client, message, wanted, marks, event)]
        return [*late, *answers, *sessions.deliveries(client, missed)]

    def _has_seen_any(self, client: Node, message: Returning) -> bool:
        """Whether some broker has received one of the events that a client sends again."""
        return any(each.publisher == client and covers(self._seen, each) for each in message.again)

    def _keep(self, event: Event) -> None:
        self._state.kept.append(event)
        if len(self._state.kept) > KEPT_MAX:
            del self._state.kept[0]

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        return self._end() if name == GRACE else Reaction(self._look_again())

    def _look_again(self) -> list[Effect]:
        return self._settled() or (self._witness.keep_waiting() if self.untold else [])

    def _end(self) -> Reaction:
        """Grace has ended: remove the entries of clients that have not returned."""
        state, router = self._state, self._context.router
        effects: list[Effect] = []
        for layer in reversed(Layer):
            for entry in router.received_from(layer, ABSENT):
                effects += self._context.answered(router.remove(layer, ABSENT, entry))
        given_up = [
            Observe(Observed.STATE, event_id=str(event), detail="given up: it would come after answers to it")
            for event in state.given_up
        ]
        self._state = StandInState(seen=state.seen, witness=state.witness, has_asked=state.has_asked, again=state.again)
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
        """Filter sends: nothing to absent clients, nothing twice to neighbours, everything to stand-ins (rule 7)."""
        sends = [send for send in sends if send.to != ABSENT]
        if not isinstance(cause, Forward | Publish):
            return sends
        if isinstance(cause, Publish):
            confirmed = [send for send in sends if isinstance(send.message, Published)]
            if not confirmed:
                return sends  # it was refused
            if (self._is_causal or not self._has) and self._is_again(cause.event.id):
                self._state.given_up.append(cause.event.id)
                return confirmed
        self._keep(cause.event)
        told_all = [stand_in for stand_in in self._state.stand_ins if stand_in != source]
        has = self._got if isinstance(cause, Publish) and not self._is_causal else self._has
        others = [send for send in sends if send.to not in told_all and not _is_had(has, send)]
        return [*others, *(Send(stand_in, Forward(cause.event)) for stand_in in told_all)]

    def _is_again(self, event: EventId) -> bool:
        """Whether its publisher has said that it sends it again, and some broker has received it (rules 6 and 9)."""
        return covers(self._state.again, event) and covers(self._seen, event)

    # State ---------------------------------------------------------------------------------------------------

    def _derive(self) -> None:
        """Recompute what follows from the state."""
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


def _misses(client: Node, message: Returning, wanted: Mapping[str, Filter], marks: Marks, event: Event) -> bool:
    if covers(marks, event.id) or (client == event.id.publisher and not message.own_events):
        return False
    return any(each.matches(event.attributes) for each in wanted.values())


def _is_had(has: Mapping[Node, Marks], send: Send) -> bool:
    return isinstance(send.message, Forward) and covers(has.get(send.to, {}), send.message.event.id)


def _seen_as(phase: StandInPhase) -> Observe:
    return Observe(Observed.STATE, detail=f"standin: {phase}")
