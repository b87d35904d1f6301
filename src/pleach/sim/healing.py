"""Brokers that die for good in a run, and their stand-ins.

The links of the simulator are reliable by themselves, and know no confirmations. Here they do: for each direction
between two brokers there is a journal (healing/journal.py), and what was handed over is confirmed a while later, unless
its receiver is dead by then. So a broker may hold what the dead one has passed on long ago, as with real sessions.

What dies with a broker is all that it had sent and nobody has got: of what was under way on each link, some first part
still arrives. Each copy that dies is in the trace (`died with it`), and each event that somebody still has for the dead
broker (`still has it`): from these trace/broker_losses.py tells what was lost with brokers from what was lost by us.
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
from pleach.core.events.event import Event, EventId
from pleach.core.messages import (
    OPERATOR,
    Bereaved,
    Deliver,
    Forward,
    Marked,
    Message,
    Node,
    Pooled,
    Publish,
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

CONFIRMED_WITHIN = 5.0  # latencies: a confirmation may come late, but the next one says as much
Direction = tuple[Node, Node]


def successor_of(broker: Node, living: Sequence[Node]) -> Node:
    """Who hosts the stand-in: the next living broker by name, round and round. A ring says so by keys (ring/)."""
    return next((node for node in sorted(living) if node > broker), min(living))


@dataclass(frozen=True)
class Witnessed:
    """A broker of which the journals know what it takes in."""

    broker: Broker
    on_taken: Callable[[Node, Broker, Forward | Marked], None]
    hearsay: HeardEvents

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        effects = self.broker.handle(sender, message, now=now)
        if isinstance(message, Forward | Marked):
            self.on_taken(sender, self.broker, message)
        self.hearsay.handled(self.broker, sender, message, effects)
        return effects

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        return self.broker.handle_timer(name, now=now)


@dataclass(frozen=True)
class Attentive:
    """A client that hears what comes beside the messages of its broker."""

    client: ReturningClient
    hearsay: HeardEvents

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        self.client.hear(self.hearsay.came_beside(sender, self.client.name, message).values())
        return self.client.handle(sender, message, now=now)

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        return self.client.handle_timer(name, now=now)


class Healing:
    def __init__(self, run: ScenarioRun, config: model.HealTable) -> None:
        self._run = run
        self._config = config
        self._draws = Random(f"{run.stream}/healing")
        self._journals: dict[Direction, Journal] = defaultdict(Journal)
        self._taken: Counter[Direction] = Counter()  # events from the first, that the second has
        self._hearsay = HeardEvents()
        self._known: dict[Node, None] = {}  # all brokers that ever were
        self._lives: Counter[Node] = Counter()
        self._kin: dict[Node, StandFor] = {}  # of the dead that have no stand-in yet
        self._places = DeadPositions(run.brokers)
        self._unaware: dict[Node, dict[Node, None]] = defaultdict(dict)  # who was down when a neighbour got a stand-in

    def wrapped(self, broker: Broker) -> Witnessed:
        """The broker as the simulator shall have it."""
        self._known[broker.name] = None
        return Witnessed(broker, self._taken_in, self._hearsay)

    def attentive(self, client: ClientMachine) -> Attentive:
        """The client as the simulator shall have it."""
        assert isinstance(client, ReturningClient)
        return Attentive(client, self._hearsay)

    def sent(self, node: Node, to: Node, message: Message) -> None:
        """To be called with everything that is sent."""
        if isinstance(message, Forward | Marked) and to in self._run.brokers:
            self._journals[node, to].sent(_event_of(message))

    @property
    def is_at_work(self) -> bool:
        """Whether some place in the tree is empty, or its stand-in waits for neighbours that are down."""
        brokers = (broker for broker in self._run.brokers.values() if isinstance(broker, Broker))
        return bool(self._kin) or any(map(is_gathering, brokers))

    def is_dead(self, broker: Node) -> bool:
        return broker in self._kin

    def has_died(self, broker: Node) -> bool:
        return broker in self._kin or self._lives[broker] > 0

    # Confirmations -------------------------------------------------------------------------------------------

    def _taken_in(self, sender: Node, broker: Broker, message: Forward | Marked) -> None:
        receiver = broker.name
        self._journals[receiver, sender].got(_event_of(message).id)
        if isinstance(message, Marked) and not broker.seam.holds(sender):
            self._note_known(receiver, message.message.event.id)
        self._taken[sender, receiver] += 1
        latency = self._run.scenario.latency.of(sender, receiver)
        due = self._run.sim.now + self._draws.uniform(latency.low, CONFIRMED_WITHIN * latency.high)
        lives = self._lives[sender], self._lives[receiver]
        self._run.sim.at(due, partial(self._confirm, sender, receiver, self._taken[sender, receiver], lives))

    def _note_known(self, receiver: Node, event: EventId) -> None:
        """What is marked may come to a broker from two sides, and is known to it whichever it was."""
        for (node, _), journal in self._journals.items():
            if node == receiver:
                journal.got(event)

    def _confirm(self, sender: Node, receiver: Node, count: int, lives: tuple[int, int]) -> None:
        is_gone = sender in self._run.disks or sender in self._kin or receiver in self._kin
        if not is_gone and lives == (self._lives[sender], self._lives[receiver]):
            self._journals[sender, receiver].confirmed(count)

    def restarted(self, broker: Node) -> None:
        """What happened to its neighbours while it was down, and how far its links are."""
        unaware = self._unaware.pop(broker, {})
        if any(broker in self._places.bereft_of(peer) for peer in unaware):
            self._resign(broker)
            return
        for peer in unaware:
            self._bereave(broker, peer)
        for sender, receiver in list(self._journals):
            if broker in (sender, receiver):
                lives = self._lives[sender], self._lives[receiver]
                self._confirm(
                    sender, receiver, 0 if receiver in self._run.disks else self._taken[sender, receiver], lives
                )

    # Deaths --------------------------------------------------------------------------------------------------

    def die(self, broker: Node) -> None:
        run = self._run
        self._record(RecordKind.FAULT, broker, detail="crash for good")
        self._kin[broker] = self._places.note(broker)
        self._unaware.pop(broker, None)
        self._note_tree(broker)
        self.crashed(broker)
        run.sim.crash(broker)
        for node in (*run.brokers, *run.clients):
            self._tear(broker, node)
        self._note_kept(broker)
        run.sim.at(run.sim.now + self._config.after, partial(self._replace, broker))

    def _note_tree(self, dying: Node) -> None:
        """Who is behind whom, for those who read the trace."""
        detail = linked_when_died(dying)
        for name in self._run.brokers:
            for neighbour in self._places.neighbours_of(name):
                self._record(RecordKind.STATE, name, peer=neighbour, detail=detail)
        for name, client in self._run.clients.items():
            self._record(RecordKind.STATE, name, peer=client.broker, detail=detail)

    def crashed(self, broker: Node) -> None:
        """What dead brokers had on the way to it does not arrive any more: nobody sends it again."""
        for dead in self._kin:
            for link in self._run.sim.links_between(dead, broker)[:1]:
                under_way, link.kept = [*link.kept, *self._run.sim.take_in_flight(link)], []
                self._note_died(dead, broker, under_way)

    def _tear(self, broker: Node, node: Node) -> None:
        """Of what was under way to a node, a first part arrives, but nothing where it cannot be reached."""
        between = self._run.sim.links_between(broker, node)
        if not between:
            return
        link = between[0]
        under_way, link.kept = [*link.kept, *self._run.sim.take_in_flight(link)], []
        count = 0 if link.blocked else self._draws.randint(0, len(under_way))
        self._run.sim.resend(link, under_way[:count])
        self._note_died(broker, node, under_way[count:])

    def _note_kept(self, broker: Node) -> None:
        """What a stand-in had for others when it died itself: held for all, and kept for clients that are not back."""
        run, dead = self._run, self._run.brokers[broker]
        assert isinstance(dead, Broker), "coloured networks mend otherwise"
        clients = [name for name, client in run.clients.items() if client.broker == broker]
        for source, messages in dead.seam.held_events().items():
            for node in (*self._kin[broker].neighbours, *clients):
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
        for event in (event for message in messages for event in _events_in(message)):
            self._record(RecordKind.FAULT, broker, peer=to, event=str(event), detail=DIED)

    # Stand-ins -----------------------------------------------------------------------------------------------

    def _replace(self, broker: Node) -> None:
        run = self._run
        living = [node for node in run.brokers if node not in self._kin and node not in run.disks]
        if not living:
            self._try_again(broker)
            return
        heir = self._places.heir_of(broker)
        if heir in run.disks:
            self._try_again(broker)
        elif heir in living:
            self._succeed(broker, heir)
        else:
            self._stand_in(broker, living)

    def _resign(self, broker: Node) -> None:
        """It has handed its clients to one that is dead, and is nobody without it."""
        self.die(broker)
        self._run.operations.died(broker)

    def _stand_in(self, broker: Node, living: Sequence[Node]) -> None:
        run, sim = self._run, self._run.sim
        for other in self._places.bereft_of(broker):
            if other in living:
                self._resign(other)
        kin = self._places.of(broker, self._kin)
        del self._kin[broker]
        if not run.operations.replaced(broker, is_linked=bool(kin.neighbours)):
            return
        self._lives[broker] += 1
        host = successor_of(broker, living)
        self._record(RecordKind.STATE, broker, detail=f"stand-in at {host}, life {self._lives[broker]}")
        self._forget_links(broker)
        self._hearsay.forget(broker)
        fresh = run.brokers[broker] = make_broker(run.scenario, BrokerTree({}, {}), broker)
        sim.restart(broker, self.wrapped(fresh))
        sim.perform(broker, [*fresh.resume(now=sim.now), *self.wrapped(fresh).handle(OPERATOR, kin, now=sim.now)])
        for neighbour in kin.neighbours:
            self._tell(neighbour, broker)
        for waiting in self._places.forsaken_by(broker):
            self._perform(waiting, broker, Testimony(broker, waiting, [], [], [], [], is_linked=False))
        for name, client in sorted(run.clients.items()):
            if client.broker == broker:
                self._bring_back(name, client)

    def _succeed(self, broker: Node, heir: Node) -> None:
        """It was leaving, and had handed its clients over: nobody stands in for it, and they go on to the heir."""
        run = self._run
        others = [other for other in self._places.of(broker, self._kin).neighbours if other != heir]
        del self._kin[broker]
        self._lives[broker] += 1
        left = {name: client for name, client in sorted(run.clients.items()) if client.broker == broker}
        undelivered = [Forward(e.event) for e in self._journals[heir, broker].entries if isinstance(e, Sent)]
        for name in left:
            self._note_died(broker, name, undelivered)
        self._bereave(heir, broker)
        for message in undelivered:
            detail = f"{GIVEN_UP}: it would come after later ones"
            self._record(RecordKind.STATE, broker, event=str(message.event.id), detail=detail)
        del run.brokers[broker]
        for other in others:  # who wanted to join it, say
            self._tell(other, broker)
        self._forget_links(broker)
        for name, client in left.items():
            sent_away = client.handle(broker, Redirect(heir, ""), now=run.sim.now)
            run.sim.perform(name, [each for each in sent_away if not (isinstance(each, Send) and each.to == broker)])
            self._bring_back(name, client)

    def _try_again(self, broker: Node) -> None:
        """Nobody is there to host it; there may be later, if anybody is to come back at all."""
        if self._run.disks:
            self._run.sim.at(self._run.sim.now + self._config.after, partial(self._replace, broker))
        else:
            self._record(RecordKind.STATE, NETWORK, detail=f"no broker is left to host a stand-in for {broker}")

    def _forget_links(self, broker: Node) -> None:
        """What was sent to the dead one: neighbours have the events of it in their journals, and clients remember."""
        for node in (*self._known, *self._run.clients):
            for link in self._run.sim.links_between(node, broker)[:1]:
                link.kept = []
                self._run.sim.take_in_flight(link)
        for node in self._run.brokers:
            self._journals.pop((broker, node), None)
            del self._taken[broker, node], self._taken[node, broker]

    def _tell(self, neighbour: Node, broker: Node) -> None:
        if neighbour in self._run.disks:
            self._unaware[neighbour][broker] = None  # once, though it may be the second one by then
        elif neighbour not in self._kin:  # else its own stand-in hears of this one when it is there
            self._bereave(neighbour, broker)

    def _bereave(self, neighbour: Node, broker: Node) -> None:
        marks, entries = self._journals[neighbour, broker].hand_over()
        for entry in entries if self._places.counts(neighbour, broker) else ():
            if isinstance(entry, Sent):
                self._record(RecordKind.STATE, neighbour, peer=broker, event=str(entry.event.id), detail=HELD)
        bereaved = Bereaved(broker, marks, entries, self._hearsay.of(neighbour))
        self._perform(neighbour, OPERATOR, bereaved)
        if broker not in self._run.brokers:  # nobody is there to hear a testimony
            self._forget_links(broker)

    def _perform(self, node: Node, sender: Node, message: Message) -> None:
        broker, sim = self._run.brokers[node], self._run.sim
        assert isinstance(broker, Broker), "coloured networks mend otherwise"
        sim.perform(node, self.wrapped(broker).handle(sender, message, now=sim.now))

    def _bring_back(self, name: Node, client: ClientMachine) -> None:
        assert isinstance(client, ReturningClient)
        for event in client.unconfirmed:
            self._record(RecordKind.STATE, name, peer=client.broker, event=str(event), detail=HELD)
        self._run.sim.perform(name, client.peer_reset(client.broker))

    def _record(self, kind: RecordKind, node: Node, *, peer: Node = "", event: str = "", detail: str) -> None:
        self._run.recorder.add(kind, at=self._run.sim.now, node=node, peer=peer, event=event, detail=detail)


def _event_of(message: Forward | Marked) -> Event:
    return message.message.event if isinstance(message, Marked) else message.event


def _events_in(message: Message) -> list[EventId]:
    """The events of which a message is a copy."""
    match message:
        case Forward(event) | Deliver(event) | Publish(event) | Marked(message=Forward(event)):
            return [event.id]
        case Testimony(entries=entries):
            return [entry.event.id for entry in entries if isinstance(entry, Sent)]
        case Pooled(testimonies=testimonies):
            return [event for each in testimonies for event in _events_in(each)]
        case _:
            return []
