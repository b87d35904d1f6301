"""The door in front of a broker machine: counts what passes, and refuses what there is no room for.

What is refused never reaches the broker, so that nothing of it has to be undone; nor is it journalled, since room may
be judged otherwise when the journal is read again. A full broker refuses every subscription, even one that it has; but
never the renewal of one (stabilise/), which would take it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic, perf_counter
from typing import Protocol

from pleach.core.broker import Broker
from pleach.core.effects import Effect, Passed, Send
from pleach.core.events.event import EventId
from pleach.core.messages import (
    CLIENT_REQUESTS,
    OPERATOR,
    Advertise,
    Attach,
    Bereaved,
    Deliver,
    Detach,
    Farewell,
    Forward,
    Halted,
    Layer,
    Message,
    Muster,
    Node,
    Presence,
    Publish,
    PublishRefused,
    Returning,
    StandFor,
    Subscribe,
    Switch,
)
from pleach.core.messages.runs import Run
from pleach.core.mobility.machine import Mobility
from pleach.core.optimise.council_observer import CouncilObserver
from pleach.core.overlay.membership.machine import Membership
from pleach.core.routing.clients import owner, refusal
from pleach.core.routing.entries import Entry
from pleach.errors import ProtocolError
from pleach.server.healing.witness import DeathWitness
from pleach.server.lease_metrics import LeaseMetrics
from pleach.server.metrics import Counters
from pleach.server.settings import NAME_BYTES_MAX
from pleach.server.traffic_notes import TrafficNotes

FROM_CLIENTS: frozenset[type] = CLIENT_REQUESTS | {Farewell, Halted, Returning}
MENDING: frozenset[type] = frozenset((Presence, Switch, Muster))  # what may lead to something that heals
FROM_ITS_DRIVER: frozenset[type] = frozenset((StandFor, Bereaved))


class Spoiler(Protocol):
    """Makes something else of what is sent to a peer, for a time."""

    def is_over(self, now: float) -> bool: ...

    def passed(self, effects: Sequence[Effect]) -> Sequence[Effect]: ...


class Gate:
    """A broker, as an endpoint drives it."""

    def __init__(self, broker: Broker, counters: Counters) -> None:
        self.broker = broker
        self.publishers: dict[Node, None] = {}  # clients that have published: who is not read from when it gets tight
        self.closed = ""  # why publishes are refused; empty: they are not
        self.names_max: int | None = None  # subscriptions and advertisements; None: no limit, as in a recovery
        self.is_tight = False  # too much waits to be taken: each subscription would leave more for neighbours to take
        self.detached: dict[Node, None] = {}  # clients that went while this broker leaves the tree
        self._guests: dict[Node, None] = {}  # who came by the clients' door
        self._counters = counters
        self.membership = broker.machine(Membership)
        self._mobility = broker.machine(Mobility)
        self.healing: LeaseMetrics | None = None  # counts what leases do; not in a recovery
        self.garblers: dict[Node, Spoiler] = {}  # by neighbour: faults on purpose (http/faults.py)
        self.witness: DeathWitness | None = None  # notes what comes from neighbours, where the network heals
        self.traffic_notes = TrafficNotes()
        self.seat: CouncilObserver | None = None  # of a councillor, where brokers improve their tree among themselves

    @property
    def departing(self) -> Sequence[Node]:
        """Clients that this broker waits for, on its way out of the tree."""
        return () if self.membership is None else self.membership.departing

    @property
    def held_bytes(self) -> int:
        """What waits here for a reconfiguration, or for a client on its way, to come to its end."""
        return self.broker.seam.held_bytes + (self._mobility.kept_bytes if self._mobility else 0)

    @property
    def unawaited(self) -> frozenset[Node]:
        """Those who are given up at once then, unless they are back."""
        return frozenset() if self.membership is None else self.membership.unawaited

    @property
    def name(self) -> Node:
        return self.broker.name

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        if self.healing is not None:
            self.healing.heard(sender, message)
        effects = self._handle(sender, message, now)
        if self.traffic_notes.is_on:
            self.traffic_notes.saw(message, effects)
        if self.seat is not None:
            self.seat.saw(sender, message, effects, now)
        if self.healing is not None and message.__class__ in MENDING:
            self.healing.did(effects)
        return self._garbled(effects, now) if self.garblers else effects

    def _garbled(self, effects: Sequence[Effect], now: float) -> Sequence[Effect]:
        self.garblers = {peer: garbler for peer, garbler in self.garblers.items() if not garbler.is_over(now)}
        for garbler in self.garblers.values():
            effects = garbler.passed(effects)
        return effects

    def _handle(self, sender: Node, message: Message, now: float) -> Sequence[Effect]:
        match message:
            case Publish(event) if self.closed:
                self._counters.refused += 1
                return [Send(sender, PublishRefused(event.id, self.closed))]
            case Publish():
                self.publishers[sender] = None
                return self._route(sender, message, now)
            case Forward(event):
                if self.witness is not None and sender not in self._guests:
                    self.witness.got(sender, [event.id])
                return self._route(sender, message, now)
            case Subscribe() | Advertise() if reason := self._why_not(sender, message):
                self._counters.names_refused += 1
                return [refusal(sender, message, reason)]
            case Attach() | Detach():
                self._note_attached(sender, is_attached=isinstance(message, Attach))
                return self._pass_on(sender, message, now)
            case _:
                return self._pass_on(sender, message, now)

    def _pass_on(self, sender: Node, message: Message, now: float) -> Sequence[Effect]:
        if sender in self._guests and message.__class__ not in FROM_CLIENTS:
            raise ProtocolError(self.name, sender, message, "brokers and operators say this, and come by another door")
        if message.__class__ in FROM_ITS_DRIVER and sender != OPERATOR:
            raise ProtocolError(self.name, sender, message, "nobody says this to another broker")
        return self.broker.handle(sender, message, now=now)

    def note_door(self, peer: Node, *, is_client: bool) -> None:
        """By which door a peer has come: whoever comes by the clients' is heard as a client."""
        if is_client:
            self._guests[peer] = None
        else:
            self._guests.pop(peer, None)

    def is_guest(self, peer: Node) -> bool:
        return peer in self._guests

    def _note_attached(self, client: Node, *, is_attached: bool) -> None:
        self.detached.pop(client, None)
        if not is_attached and self.membership is not None and self.membership.is_leaving:
            self.detached[client] = None

    def handle_run(self, sender: Node, run: Run) -> Passed | None:
        if self.garblers:
            return None
        if run.kind is Publish:
            if self.closed:
                return None
            self.publishers[sender] = None
        elif self.witness is not None and sender not in self._guests:
            self.witness.got(sender, [EventId(*glimpse.id) for glimpse in run.glimpses()])
        started = perf_counter()
        passed = self.broker.handle_run(sender, run)
        if passed is None:
            return None
        counters = self._counters
        counters.match_seconds += perf_counter() - started
        counters.matches += run.count
        counters.deliveries += sum((span.end - span.start) * len(span.clients) for span in passed.spans)
        counters.publishes += run.count if run.kind is Publish else 0
        if self.traffic_notes.is_on:
            self.traffic_notes.saw_run(run, passed)
        if self.seat is not None:
            self.seat.saw_run(sender, run, passed, monotonic())
        return passed

    def _why_not(self, sender: Node, message: Subscribe | Advertise) -> str:
        """Why nothing can be subscribed or advertised under a name; empty where it can."""
        if len(_name(message).encode()) > NAME_BYTES_MAX:
            return f"its name is longer than {NAME_BYTES_MAX} bytes"
        if self._has(sender, message):  # it takes no room, and is confirmed again
            return ""
        if self.names_max is not None and self.broker.sessions.names >= self.names_max:
            return f"{self.name} has {self.names_max:,} subscriptions and advertisements, its limit: try another broker"
        if self.is_tight:
            return f"too much waits to be taken at {self.name}: try again later"
        return ""

    def _has(self, sender: Node, message: Subscribe | Advertise) -> bool:
        layer = Layer.SUBSCRIPTIONS if isinstance(message, Subscribe) else Layer.ADVERTISEMENTS
        entry = Entry(owner(sender, _name(message)), message.filter)
        return self.broker.router.has(layer, sender, entry)

    def _route(self, sender: Node, message: Message, now: float) -> Sequence[Effect]:
        started = perf_counter()
        effects = self.broker.handle(sender, message, now=now)
        counters = self._counters
        counters.match_seconds += perf_counter() - started
        counters.matches += 1
        kinds = [effect.message.__class__ for effect in effects if isinstance(effect, Send)]
        counters.deliveries += kinds.count(Deliver)
        if isinstance(message, Publish):
            is_refused = kinds[-1:] == [PublishRefused]  # the answer to the publisher comes last
            counters.refused += is_refused
            counters.publishes += not is_refused
        return effects

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        effects = self.broker.handle_timer(name, now=now)
        if self.traffic_notes.is_on:
            self.traffic_notes.saw(None, effects)
        if self.seat is not None:
            self.seat.saw_timer(effects, now)
        if self.healing is not None:
            self.healing.did(effects)
        return self._garbled(effects, now) if self.garblers else effects

    def resume(self, *, now: float) -> Sequence[Effect]:
        return self.broker.resume(now=now)

    def peer_reset(self, peer: Node) -> Sequence[Effect]:
        self.publishers.pop(peer, None)
        self._note_attached(peer, is_attached=False)
        return self.broker.peer_reset(peer)

    def forget(self, peer: Node) -> None:
        self.publishers.pop(peer, None)
        self._guests.pop(peer, None)

    def is_changed_by(self, sender: Node, message: Message) -> bool:
        """What is refused here changes nothing, and must not be handled when the journal is read again."""
        match message:
            case Publish() if self.closed:
                return False
            case Subscribe() | Advertise() if self._why_not(sender, message):
                return False
            case _:
                return self.broker.is_changed_by(sender, message)

    def capture(self) -> bytes:
        return self.broker.capture()

    def restore(self, data: bytes) -> None:
        self.broker.restore(data)


def _name(message: Subscribe | Advertise) -> str:
    return message.subscription if isinstance(message, Subscribe) else message.advertisement
