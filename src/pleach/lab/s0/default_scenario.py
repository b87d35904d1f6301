"""S0 §VI, the default scenario, and what its reconfigurations cost on the wire.

100 brokers in a random tree, half of them pure forwarders; 100 clients at the others; links of U(1,5) ms; each client
has 10 different subscriptions, each of which takes 0.1% of all events, and publishes every 750 ms. Events have five
attributes (0.76 KB), subscriptions five constraints (0.77 KB): attributes with long names make ours as large.

Each attribute has four values, so that there are 4⁵ = 1,024 kinds of events, 0.1% each; a subscription is for one kind.
None covers another but its equal: routing by identity has the tables that covering would have.

Where S0 lets every broker know all subscriptions, so that none has to travel in a reconfiguration, ours know none but
their clients' own and flood: none travels either, and no event is sent where it would not have gone anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random

from pleach.core.events.event import Event, EventId
from pleach.core.messages import (
    EVENT_TRAFFIC,
    Close,
    Lock,
    LockAck,
    Mark,
    Marked,
    Message,
    Node,
    Open,
    Swap,
    encode,
)
from pleach.core.overlay.plans import Topology
from pleach.lab.experiment import Case
from pleach.lab.rounds import Publisher
from pleach.lab.waxman import random_tree
from pleach.scenario import steps
from pleach.scenario.model import Ordering, PerLink, Routing, Scenario, ScenarioClient
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun

KB = 1024
LATENCY = Span(0.001, 0.005)
VALUES = 4
ATTRIBUTE_LENGTH = 149
ATTRIBUTES = tuple(f"attribute_{i}_".ljust(ATTRIBUTE_LENGTH, "x") for i in range(5))
KINDS = VALUES ** len(ATTRIBUTES)

PUBLISHED, CORRECTED = "published", "corrected"
PARTIAL, COMPLETE = "partial", "complete"
ROUTING = {PARTIAL: Routing.IDENTITY, COMPLETE: Routing.FLOODING}
EXCHANGE = {CORRECTED: "swaplink", PUBLISHED: "swaplink-published"}


def scenario_of(case: Case, seed: int) -> Scenario:
    """The same network and clients whatever is done with it."""
    count = int(case["brokers"])
    stream = Random(f"s0/{count}/{seed}")
    names = [f"b{i}" for i in range(count)]
    links = random_tree(stream, names)
    serving = stream.sample(names, max(1, count // 2))
    return Scenario(
        name=f"default {count} {seed}",
        routing=ROUTING[str(case["knowledge"])],
        ordering=Ordering.CAUSAL,
        exchange=EXCHANGE[str(case["variant"])],
        root=names[0],
        links=links,
        brokers=tuple(names),
        duration=1.0,
        latency=PerLink(LATENCY),
        clients=tuple(_client(i, stream.choice(serving), int(case["subscriptions"]), seed) for i in range(count)),
    )


def _client(index: int, broker: Node, subscriptions: int, seed: int) -> ScenarioClient:
    """Who has more subscriptions has those of who has fewer, too."""
    kinds = Random(f"s0/{seed}/kinds/{index}").sample(range(KINDS), KINDS)[:subscriptions]
    return ScenarioClient(id=f"c{index}", broker=broker, subscribe=tuple(map(wanted_text, kinds)))


def wanted_text(kind: int) -> str:
    return " AND ".join(f"{name} = {value}" for name, value in attributes_of(kind).items())


def attributes_of(kind: int) -> dict[str, int]:
    return {name: kind // VALUES**i % VALUES for i, name in enumerate(ATTRIBUTES)}


def publishers(case: Case, seed: int) -> list[Publisher]:
    return [_publisher(f"c{i}", float(case["gap_ms"]) / 1000.0, seed) for i in range(int(case["brokers"]))]


def _publisher(client: str, gap: float, seed: int) -> Publisher:
    stream = Random(f"s0/{seed}/{client}")
    return Publisher(client, partial(stream.uniform, 0.0, 2 * gap), lambda: attributes_of(stream.randrange(KINDS)))


# Reconfigurations -----------------------------------------------------------------------------------------------


def swap_of(stream: Random, tree: Topology) -> steps.Swap:
    b = stream.choice([broker for broker in tree.brokers if not tree.is_leaf(broker)])
    a, c = stream.sample(tree.neighbours(b), 2)
    return steps.Swap(at=0.0, brokers=(a, b, c))


def removal_of(stream: Random, tree: Topology) -> steps.RemoveBroker:
    return steps.RemoveBroker(at=0.0, broker=stream.choice([b for b in tree.brokers if tree.is_leaf(b)]))


def joining_of(stream: Random, tree: Topology, name: Node) -> steps.AddBroker:
    return steps.AddBroker(at=0.0, broker=name, to=stream.choice(tree.brokers))


# What they cost -------------------------------------------------------------------------------------------------

LABELS: Mapping[type[Message], str] = {
    Lock: "lock",
    LockAck: "lockAck",
    Swap: "swap",
    Open: "open",
    Close: "close",
}
OTHER = "other"  # our confirmations and differences of tables; the messages of joining and leaving
PUB = "pub"  # S0's name for events that are sent besides
TYPES = (*LABELS.values(), OTHER, PUB)
REMOVAL_KB, JOINING_MESSAGES, JOINING_ELSEWHERE = "KB of a removal", "messages of a joining", "messages elsewhere"


@dataclass
class WireTally:
    """What was sent and is no event, by S0's names; and the events that were sent besides."""

    messages: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    elsewhere: int = 0  # messages that do not concern the broker that joins
    additional: int = 0
    additional_bytes: int = 0


class WireMeter:
    """Tallies what is sent, once it is told to `start`.

    An event that comes to one of the three goes to both others (S0 §IV-A, states 2 and 3; corrected, also from the one
    to the other). Of that, as many messages are *additional* as the tree a–b–c would not have needed.
    """

    def __init__(self, run: ScenarioRun) -> None:
        self.three: tuple[Node, Node, Node] = ("", "", "")  # of the swap that is next
        self.joining: Node = ""
        self._run = run
        self._tally: WireTally | None = None
        self._seen: dict[tuple[str, EventId], None] = {}  # by swap: an event may come across several
        run.sim.on_send = self._sent

    def start(self) -> WireTally:
        """From now on it is this one that is kept."""
        self._tally = WireTally()
        return self._tally

    def _sent(self, _at: float, sender: Node, to: Node, message: Message) -> None:
        tally = self._tally
        if tally is None:
            return
        if isinstance(message, Marked):
            self._marked(tally, message)
        elif type(message) not in EVENT_TRAFFIC:
            label = LABELS.get(type(message), OTHER)
            tally.messages[label] += 1
            tally.bytes[label] += len(encode(message))
            tally.elsewhere += self.joining not in (sender, to)

    def _marked(self, tally: WireTally, message: Marked) -> None:
        if message.mark is not Mark.FLOOD:
            return
        event = message.message.event
        additional = 1
        if (message.operation, event.id) not in self._seen:
            self._seen[message.operation, event.id] = None
            additional -= self._needed(event, self.three.index(message.origin))
        tally.additional += additional
        tally.additional_bytes += additional * len(encode(message))

    def _needed(self, event: Event, origin: int) -> int:
        """How many messages the event takes on a–b–c."""
        if self._run.scenario.routing is Routing.FLOODING:
            return 2
        wants = [self._wants(broker, event) for broker in self.three]
        wants[origin] = False
        return sum(wants) if origin == 1 else (wants[1] or wants[2 - origin]) + wants[2 - origin]

    def _wants(self, broker: Node, event: Event) -> bool:
        """Whether one of its clients wants it, or somebody behind a neighbour that is not of the three."""
        found = self._run.brokers[broker].router.destinations(event.attributes, "")
        return any(node not in self.three for node in found)
