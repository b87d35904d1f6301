"""Real brokers and clients on FIFO links, of which one loses its memory after any number of messages.

Links have no delays: messages are handed over one by one, in the order in which links have something. What was under
way to or from a node that loses its memory is gone with it, and whoever has met it is told, as sessions do. A client
that was sent to a broker meets it with its greeting, and if another life answers it is told then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import CancelTimer, Concluded, Effect, LinkDown, LinkUp, Observe, Observed, Send, SetTimer
from pleach.core.events.language import parse_filter
from pleach.core.messages import OPERATOR, Message, Node, OperatorRequest, RequestAbandon
from pleach.core.mobility.machine import Mobility
from pleach.core.overlay.registry import machines
from pleach.core.routing.router import RoutingConfig
from pleach.errors import ProtocolError
from pleach.trace import Recorder, RecordKind

STEPS_MAX = 5_000
NEW_LIFE = "a new life answers"
ANSWERS = frozenset((RecordKind.PUBLISH_ACK, RecordKind.PUBLISH_FAIL, RecordKind.STATE))


@dataclass(frozen=True)
class Greeting:
    """The first that a client has for a broker that it was sent to. `life`: the one that it was sent to."""

    life: int


class World:
    """`links`: of brokers. `homes`: clients, each with its broker; each wants what is for it (`to = name`)."""

    def __init__(
        self, links: Sequence[tuple[Node, Node]], homes: dict[Node, Node], stream: Random | None = None
    ) -> None:
        """`stream`: decides which link is next; else it is the first one."""
        self.links = links
        self._stream = stream
        self.away: set[Node] = set()  # brokers that nothing reaches, and from which nothing comes
        self.is_slow_to_meet = False  # new links know nothing of each other until something has come over them
        self.now = 0.0
        self.queues: dict[tuple[Node, Node], deque[Message | Greeting]] = {}
        self.life_of: dict[Node, int] = {}  # of each broker
        self.met: dict[Node, dict[Node, None]] = {}
        self.timers: dict[tuple[Node, str], float] = {}
        self.asked: dict[str, Node] = {}  # who was asked for each operation, and alone says how it ended
        self.ends: list[Concluded] = []
        self.errors: list[str] = []
        self.recorder = Recorder("rebirths")
        self.handled = 0
        self.lives = 0
        self.brokers = {name: self.make_broker(name) for name in sorted({node for link in links for node in link})}
        self.clients: dict[Node, ClientMachine] = {}
        for name, home in homes.items():
            self.begin(name, home)
        self.drain()

    def make_broker(self, name: Node) -> Broker:
        near = [b if a == name else a for a, b in self.links if name in (a, b)]
        for other in near:
            self.meet(name, other)
        broker = Broker(name, RoutingConfig("simple"), neighbours=near, machines=[*machines("causal"), Mobility])
        self.life_of[name] = self.life_of.get(name, 0) + 1
        broker.listens_at("", "", self.life_of[name])
        return broker

    def begin(self, name: Node, home: Node, topic: str = "") -> ClientMachine:
        self.lives += 1
        client = self.clients[name] = ClientMachine(name, home, incarnation=self.lives)
        self.perform(name, client.attach())
        self.perform(name, client.subscribe("s", parse_filter(f"to = '{topic or name}'")))
        return client

    def meet(self, one: Node, other: Node) -> None:
        self.met.setdefault(one, {})[other] = None
        self.met.setdefault(other, {})[one] = None

    # Time ----------------------------------------------------------------------------------------------------

    def perform(self, node: Node, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    self.queues.setdefault((node, to), deque()).append(message)
                case LinkUp(to, life=life) if life:
                    self.queues.setdefault((node, to), deque()).append(Greeting(life))
                case LinkUp(to, is_client=False):
                    if not self.is_slow_to_meet:
                        self.meet(node, to)
                case SetTimer(name, after):
                    self.timers[node, name] = self.now + after
                case CancelTimer(name):
                    self.timers.pop((node, name), None)
                case Concluded(operation):
                    assert node == self.asked[operation], f"{node} was not asked for {operation}"
                    self.ends.append(effect)
                case Observe():
                    self.recorder.observe(self.now, node, effect)
                case LinkUp() | LinkDown():
                    pass

    def step(self) -> bool:
        """Hand over one message; whether there was one."""
        open_ends = [ends for ends, queue in self.queues.items() if queue and self.away.isdisjoint(ends)]
        waiting = sorted(ends for ends in open_ends if not self._is_awaited(*ends))
        if not waiting:
            return False
        self.hand_over(*(self._stream.choice(waiting) if self._stream else waiting[0]))
        return True

    def _is_awaited(self, broker: Node, client: Node) -> bool:
        """A client that was sent to a broker hears nothing of it before it has greeted it."""
        said = self.queues.get((client, broker))
        return bool(said) and isinstance(said[0], Greeting)

    def hand_over(self, sender: Node, to: Node) -> None:
        """The next message of this link."""
        message = self.queues[sender, to].popleft()
        if to not in self.clients or self.clients[to].broker == sender:
            self.meet(sender, to)
        self.handled += 1
        self.now += 0.001
        if isinstance(message, Greeting):
            self._greet(sender, to, message)
            return
        machine = self.brokers.get(to) or self.clients[to]
        try:
            self.perform(to, machine.handle(sender, message, now=self.now))
        except ProtocolError as error:
            self.errors.append(str(error))

    def _greet(self, client: Node, broker: Node, greeting: Greeting) -> None:
        """What the client had for the life that it was sent to is void if another one answers."""
        if greeting.life != self.life_of[broker]:
            self.queues[client, broker].clear()
            self.tell(client, broker)

    def advance(self) -> bool:
        """Hand over one message, or let a timer be due; whether there was one."""
        if self.step():
            return True
        if not self.timers:
            return False
        (node, name), due = min(self.timers.items(), key=lambda each: (each[0][0] in self.away, each[1], each[0]))
        if node in self.away:
            return False
        del self.timers[node, name]
        self.now = max(self.now, due)
        if node in self.brokers:
            self.perform(node, self.brokers[node].handle_timer(name, now=self.now))
        return True

    def drain(self) -> None:
        for _ in range(STEPS_MAX):
            if not self.advance():
                return
        raise AssertionError("it does not become quiet")

    # Rebirths ------------------------------------------------------------------------------------------------

    def forget(self, node: Node) -> None:
        """All that was under way to or from it is void, and everyone who knew it hears of its new life."""
        for ends, queue in self.queues.items():
            if node in ends:
                greetings = [each for each in queue if isinstance(each, Greeting) and ends[1] == node]
                queue.clear()
                queue.extend(greetings)  # they come, whoever is there by then
        self.timers = {key: due for key, due in self.timers.items() if key[0] != node}
        for peer in sorted(self.met.get(node, {})):
            self.tell(peer, node)

    def tell(self, peer: Node, reborn: Node) -> None:
        machine = self.brokers.get(peer) or self.clients.get(peer)
        if isinstance(machine, ClientMachine) and machine.broker == reborn:
            self.recorder.observe(self.now, peer, Observe(Observed.STATE, detail=NEW_LIFE))
        if machine is not None:
            self.perform(peer, machine.peer_reset(reborn))

    def reborn_broker(self, node: Node) -> None:
        former = self.met.pop(node)
        for peer in former:
            self.met[peer].pop(node, None)
        self.met[node] = former  # only for the news
        self.brokers[node] = self.make_broker(node)
        self.forget(node)

    def reborn_client(self, name: Node, home: Node, topic: str) -> None:
        self.forget(name)
        self.begin(name, home, topic)

    # What holds at the end -----------------------------------------------------------------------------------

    @property
    def locked(self) -> dict[Node, str]:
        return {name: broker.operation for name, broker in self.brokers.items() if broker.operation}

    def ask(self, broker: Node, request: OperatorRequest | RequestAbandon) -> None:
        self.asked[request.operation] = broker
        self.perform(broker, self.brokers[broker].handle(OPERATOR, request, now=self.now))

    def heard(self, topic: str) -> list[Node]:
        """Who gets an event that one of the clients publishes for a topic."""
        before = len(self.recorder.records)
        publisher = min(self.clients)
        self.perform(publisher, self.clients[publisher].publish({"to": topic}))
        self.drain()
        return [r.node for r in self.recorder.records[before:] if r.kind == RecordKind.DELIVER]

    def deliveries(self) -> list[tuple[Node, str]]:
        return [(r.node, r.event) for r in self.recorder.records if r.kind == RecordKind.DELIVER]

    def unheard(self) -> list[str]:
        """Events whose publisher neither knows what became of them, nor that this cannot be known any more."""
        unanswered: dict[Node, dict[str, None]] = {}
        for record in self.recorder.records:
            under_way = unanswered.setdefault(record.node, {})
            if record.kind == RecordKind.PUBLISH:
                under_way[record.event] = None
            elif record.kind in ANSWERS:
                under_way.pop(record.event, None)
            if record.detail == NEW_LIFE:
                under_way.clear()
        return [event for under_way in unanswered.values() for event in under_way]
