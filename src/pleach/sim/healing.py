"""Brokers that die for good in a run, and their stand-ins.

Links of the simulator are reliable and have no confirmations. Here each direction between two brokers has a journal
(healing/journal.py), and an event that was handed over is confirmed some time later, unless its receiver is dead by
then. So a broker may hold events that the dead one forwarded long ago, as with real sessions.

All copies that a broker has sent and that have not arrived die with it, except for a prefix of those in flight on each
link. The trace has each copy that dies (`died with it`) and each event that another broker still holds for the dead one
(`still has it`): from these trace/broker_losses.py separates losses with brokers from losses of the protocol.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.client.returning import ReturningClient
from pleach.core.effects import Effect, Send
from pleach.core.events.event import EventId
from pleach.core.messages import (
    OPERATOR,
    Bereaved,
    Forward,
    Marked,
    Message,
    Node,
    Redirect,
    Sent,
    StandFor,
    Testimony,
)
from pleach.core.overlay.healing.journal import Journal
from pleach.core.overlay.healing.stand_in import StandIn
from pleach.scenario import model
from pleach.scenario.machines import BrokerTree, make_broker
from pleach.sim.dead_positions import DeadPositions, is_gathering
from pleach.sim.heard_events import HeardEvents
from pleach.trace import NETWORK, RecordKind
from pleach.trace.broker_losses import DIED, GIVEN_UP, HELD, linked_when_died

if TYPE_CHECKING:
    from pleach.sim.run import ScenarioRun

CONFIRMED_WITHIN = 5.0  # latencies: a confirmation may be late; the next one includes it
Direction = tuple[Node, Node]


def successor_of(broker: Node, living: Sequence[Node]) -> Node:
    """The host of the stand-in: the next living broker by name, cyclically. A ring decides by keys (ring/)."""
    return next((node for node in sorted(living) if node > broker), min(living))


@dataclass(frozen=True)
class JournalledBroker:
    """A broker whose received events are noted in the journals."""

    broker: Broker
    on_taken: Callable[[Node, Broker, Forward | Marked], None]
    heard: HeardEvents

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        effects = self.broker.handle(sender, message, now=now)
        if isinstance(message, Forward | Marked):
            self.on_taken(sender, self.broker, message)
        self.heard.handled(self.broker, sender, message, effects)
        return effects

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        return self.broker.handle_timer(name, now=now)


@dataclass(frozen=True)
class MarkedClient:
    """A client that reads the marks that travel with the messages of its broker."""

    client: ReturningClient
    heard: HeardEvents

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        self.client.hear(self.heard.came_beside(sender, self.client.name, message).values())
        return self.client.handle(sender, message, now=now)

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        return self.client.handle_timer(name, now=now)


class Healing:
    def __init__(self, run: ScenarioRun, config: model.HealTable) -> None:
        self._run = run
        self._config = config
        self._draws = Random(f"{run.stream}/healing")
        self._journals: dict[Direction, Journal] = defaultdict(Journal)
        self._taken: Counter[Direction] = Counter()  # events from the first broker that the second has received
        self._heard = HeardEvents()
        self._known: dict[Node, None] = {}  # all brokers, also those that have left
        self._epochs: Counter[Node] = Counter()
        self._dead: dict[Node, StandFor] = {}  # those without a stand-in yet, with their neighbours
        self._positions = DeadPositions(run.brokers)
        self._unaware: dict[Node, dict[Node, None]] = defaultdict(dict)  # brokers that were down at the time

    def wrapped(self, broker: Broker) -> JournalledBroker:
        """The broker with journals of what it receives."""
        self._known[broker.name] = None
        return JournalledBroker(broker, self._taken_in, self._heard)

    def wrapped_client(self, client: ClientMachine) -> MarkedClient:
        """The client with the marks that its broker sends."""
        assert isinstance(client, ReturningClient)
        return MarkedClient(client, self._heard)

    def sent(self, node: Node, to: Node, message: Message) -> None:
        """Called with every message that is sent."""
        if isinstance(message, Forward | Marked) and to in self._run.brokers:
            self._journals[node, to].sent(*message.events)

    @property
    def is_at_work(self) -> bool:
        """Whether a dead broker has no stand-in yet, or a stand-in waits for neighbours that are down."""
        brokers = (broker for broker in self._run.brokers.values() if isinstance(broker, Broker))
        return bool(self._dead) or any(map(is_gathering, brokers))

    def is_dead(self, broker: Node) -> bool:
        return broker in self._dead

    def has_died(self, broker: Node) -> bool:
        return broker in self._dead or self._epochs[broker] > 0

    # Confirmations -------------------------------------------------------------------------------------------

    def _taken_in(self, sender: Node, broker: Broker, message: Forward | Marked) -> None:
        receiver = broker.name
        self._journals[receiver, sender].got(message.events[0].id)
        if isinstance(message, Marked) and not broker.seam.holds(sender):
            self._note_known(receiver, message.message.event.id)
        self._taken[sender, receiver] += 1
        latency = self._run.scenario.latency.of(sender, receiver)
        due = self._run.sim.now + self._draws.uniform(latency.low, CONFIRMED_WITHIN * latency.high)
        epochs = self._epochs[sender], self._epochs[receiver]
        self._run.sim.at(due, partial(self._confirm, sender, receiver, self._taken[sender, receiver], epochs))

    def _note_known(self, receiver: Node, event: EventId) -> None:
        """A marked event may reach a broker from two neighbours; either copy counts."""
        for (node, _), journal in self._journals.items():
            if node == receiver:
                journal.got(event)

    def _confirm(self, sender: Node, receiver: Node, count: int, epochs: tuple[int, int]) -> None:
        is_gone = sender in self._run.disks or sender in self._dead or receiver in self._dead
        if not is_gone and epochs == (self._epochs[sender], self._epochs[receiver]):
            self._journals[sender, receiver].confirmed(count)

    def restarted(self, broker: Node) -> None:
        """Tell a restarted broker what happened to its neighbours, and confirm what its links have handed over."""
        unaware = self._unaware.pop(broker, {})
        if any(broker in self._positions.bereft_of(peer) for peer in unaware):
            self._resign(broker)
            return
        for peer in unaware:
            self._bereave(broker, peer)
        for sender, receiver in list(self._journals):
            if broker in (sender, receiver):
                epochs = self._epochs[sender], self._epochs[receiver]
                self._confirm(
                    sender, receiver, 0 if receiver in self._run.disks else self._taken[sender, receiver], epochs
                )

    # Deaths --------------------------------------------------------------------------------------------------

    def die(self, broker: Node) -> None:
        run = self._run
        self._record(RecordKind.FAULT, broker, detail="crash for good")
        self._dead[broker] = self._positions.note(broker)
        self._unaware.pop(broker, None)
        self._note_tree(broker)
        self.crashed(broker)
        run.sim.crash(broker)
        for node in (*run.brokers, *run.clients):
            self._tear(broker, node)
        self._note_kept(broker)
        run.sim.at(run.sim.now + self._config.after, partial(self._replace, broker))

    def _note_tree(self, dying: Node) -> None:
        """Record the tree at the death, for the oracle."""
        detail = linked_when_died(dying)
        for name in self._run.brokers:
            for neighbour in self._positions.neighbours_of(name):
                self._record(RecordKind.STATE, name, peer=neighbour, detail=detail)
        for name, client in self._run.clients.items():
            self._record(RecordKind.STATE, name, peer=client.broker, detail=detail)

    def crashed(self, broker: Node) -> None:
        """Messages from dead brokers in flight to it do not arrive: no sender repeats them."""
        for dead in self._dead:
            for link in self._run.sim.links_between(dead, broker)[:1]:
                under_way, link.kept = [*link.kept, *self._run.sim.take_in_flight(link)], []
                self._note_died(dead, broker, under_way)

    def _tear(self, broker: Node, node: Node) -> None:
        """A prefix of the messages in flight to a node arrives; none if the node cannot be reached."""
        between = self._run.sim.links_between(broker, node)
        if not between:
            return
        link = between[0]
        under_way, link.kept = [*link.kept, *self._run.sim.take_in_flight(link)], []
        count = 0 if link.blocked else self._draws.randint(0, len(under_way))
        self._run.sim.resend(link, under_way[:count])
        self._note_died(broker, node, under_way[count:])

    def _note_kept(self, broker: Node) -> None:
        """Events that a stand-in had for others when it died itself: held for all, and kept for absent clients."""
        run, dead = self._run, self._run.brokers[broker]
        assert isinstance(dead, Broker), "coloured networks have no stand-ins"
        clients = [name for name, client in run.clients.items() if client.broker == broker]
        for source, messages in dead.seam.held_events().items():
            for node in (*self._dead[broker].neighbours, *clients):
                if node != source:
                    self._note_died(broker, node, messages)
        stand_in = dead.machine(StandIn)
        assert stand_in is not None, "every broker of a network that heals has one"
        for each in stand_in.untold:
            unsaid = [Forward(entry.event) for entry in each.entries if isinstance(entry, Sent)]
            self._note_died(broker, each.peer, unsaid)
        kept, given_up = stand_in.holds
        for name in clients:
            if name not in dead.sessions:
                self._note_died(broker, name, [Forward(event) for event in kept])
        for event in given_up:
            self._record(RecordKind.STATE, broker, event=str(event), detail=GIVEN_UP)

    def _note_died(self, broker: Node, to: Node, messages: Sequence[Message]) -> None:
        for event in (event for message in messages for event in message.events):
            self._record(RecordKind.FAULT, broker, peer=to, event=str(event.id), detail=DIED)

    # Stand-ins -----------------------------------------------------------------------------------------------

    def _replace(self, broker: Node) -> None:
        run = self._run
        living = [node for node in run.brokers if node not in self._dead and node not in run.disks]
        if not living:
            self._try_again(broker)
            return
        heir = self._positions.heir_of(broker)
        if heir in run.disks:
            self._try_again(broker)
        elif heir in living:
            self._succeed(broker, heir)
        else:
            self._stand_in(broker, living)

    def _resign(self, broker: Node) -> None:
        """The broker has handed its clients to one that is dead, and dies with it."""
        self.die(broker)
        self._run.operations.died(broker)

    def _stand_in(self, broker: Node, living: Sequence[Node]) -> None:
        run, sim = self._run, self._run.sim
        for other in self._positions.bereft_of(broker):
            if other in living:
                self._resign(other)
        neighbourhood = self._positions.of(broker, self._dead)
        del self._dead[broker]
        if not run.operations.replaced(broker, is_linked=bool(neighbourhood.neighbours)):
            return
        self._epochs[broker] += 1
        host = successor_of(broker, living)
        self._record(RecordKind.STATE, broker, detail=f"stand-in at {host}, life {self._epochs[broker]}")
        self._forget_links(broker)
        self._heard.forget(broker)
        fresh = run.brokers[broker] = make_broker(run.scenario, BrokerTree({}, {}), broker)
        sim.restart(broker, self.wrapped(fresh))
        sim.perform(
            broker, [*fresh.resume(now=sim.now), *self.wrapped(fresh).handle(OPERATOR, neighbourhood, now=sim.now)]
        )
        for neighbour in neighbourhood.neighbours:
            self._tell(neighbour, broker)
        for waiting in self._positions.forsaken_by(broker):
            self._perform(waiting, broker, Testimony(broker, waiting, [], [], [], [], is_linked=False))
        for name, client in sorted(run.clients.items()):
            if client.broker == broker:
                self._bring_back(name, client)

    def _succeed(self, broker: Node, heir: Node) -> None:
        """A broker died while leaving, after its clients were handed over: they go to the heir, without a stand-in."""
        run = self._run
        others = [other for other in self._positions.of(broker, self._dead).neighbours if other != heir]
        del self._dead[broker]
        self._epochs[broker] += 1
        left = {name: client for name, client in sorted(run.clients.items()) if client.broker == broker}
        undelivered = [Forward(e.event) for e in self._journals[heir, broker].entries if isinstance(e, Sent)]
        for name in left:
            self._note_died(broker, name, undelivered)
        self._bereave(heir, broker)
        for message in undelivered:
            detail = f"{GIVEN_UP}: it would come after later ones"
            self._record(RecordKind.STATE, broker, event=str(message.event.id), detail=detail)
        del run.brokers[broker]
        for other in others:  # for example one that was joining it
            self._tell(other, broker)
        self._forget_links(broker)
        for name, client in left.items():
            sent_away = client.handle(broker, Redirect(heir, ""), now=run.sim.now)
            run.sim.perform(name, [each for each in sent_away if not (isinstance(each, Send) and each.to == broker)])
            self._bring_back(name, client)

    def _try_again(self, broker: Node) -> None:
        """No broker can host the stand-in; try again if a broker may restart."""
        if self._run.disks:
            self._run.sim.at(self._run.sim.now + self._config.after, partial(self._replace, broker))
        else:
            self._record(RecordKind.STATE, NETWORK, detail=f"no broker is left to host a stand-in for {broker}")

    def _forget_links(self, broker: Node) -> None:
        """Discard messages to the dead broker: neighbours have the events in their journals, clients in their state."""
        for node in (*self._known, *self._run.clients):
            for link in self._run.sim.links_between(node, broker)[:1]:
                link.kept = []
                self._run.sim.take_in_flight(link)
        for node in self._run.brokers:
            self._journals.pop((broker, node), None)
            del self._taken[broker, node], self._taken[node, broker]

    def _tell(self, neighbour: Node, broker: Node) -> None:
        if neighbour in self._run.disks:
            self._unaware[neighbour][broker] = None  # once, even if it is the second stand-in by then
        elif neighbour not in self._dead:  # otherwise its own stand-in is told when it starts
            self._bereave(neighbour, broker)

    def _bereave(self, neighbour: Node, broker: Node) -> None:
        marks, entries = self._journals[neighbour, broker].hand_over()
        for entry in entries if self._positions.counts(neighbour, broker) else ():
            if isinstance(entry, Sent):
                self._record(RecordKind.STATE, neighbour, peer=broker, event=str(entry.event.id), detail=HELD)
        report = Bereaved(broker, marks, entries, self._heard.of(neighbour))
        self._perform(neighbour, OPERATOR, report)
        if broker not in self._run.brokers:  # it has died: no broker can take the testimony
            self._forget_links(broker)

    def _perform(self, node: Node, sender: Node, message: Message) -> None:
        broker, sim = self._run.brokers[node], self._run.sim
        assert isinstance(broker, Broker), "coloured networks have no stand-ins"
        sim.perform(node, self.wrapped(broker).handle(sender, message, now=sim.now))

    def _bring_back(self, name: Node, client: ClientMachine) -> None:
        assert isinstance(client, ReturningClient)
        for event in client.unconfirmed:
            self._record(RecordKind.STATE, name, peer=client.broker, event=str(event), detail=HELD)
        self._run.sim.perform(name, client.peer_reset(client.broker))

    def _record(self, kind: RecordKind, node: Node, *, peer: Node = "", event: str = "", detail: str) -> None:
        self._run.recorder.add(kind, at=self._run.sim.now, node=node, peer=peer, event=event, detail=detail)
