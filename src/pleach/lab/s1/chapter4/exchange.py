"""S1 Fig. 4.14–4.16: advanced coordinated reconfiguration against the strawman, by the length of the cycle.

S1 §4.4.3: 100 brokers in a network of 10,000 nodes (`waxman.py`) form a random tree; 500 clients: 50 publishers, an
event every 50 ms on average each (exponential), and 9 subscribers of each; 100 links are exchanged one after the other,
for others that close a cycle of the given length. Clients are at the node of their broker, without latency.

Control messages are what S1 counts: (un)subscriptions and the protocol's own messages. Where an end of the old link
sends its table to the end of the new one, S1 sends each entry by itself, out-of-band; ours send one message, hop by hop
along the cycle, and both counts are taken. Our confirmations (decision 3) have no counterpart and are left out. Losses
and duplicates are those of the oracle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

from pleach.core.broker import Broker
from pleach.core.effects import Effect
from pleach.core.messages import EVENTS_BETWEEN_BROKERS, Forward, Marked, Message, Node, RelayTables
from pleach.lab.exchanges.witness import ControlTraffic
from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.rounds import Publisher, Rounds, exchange_on_cycle
from pleach.lab.waxman import TABLE_A1, Brokers, Waxman, brokers_of
from pleach.scenario.model import Ordering, PerLink, Routing, Scenario, ScenarioClient
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind, Rule, judge


class EventQueues:
    """Put this beside a run before it begins."""

    def __init__(self, run: ScenarioRun) -> None:
        self.waited: list[float] = []  # seconds, of each event that was held, in the order in which they went on
        for name, broker in run.brokers.items():
            if isinstance(broker, Broker):  # those of a coloured network hold without a seam
                run.sim.add(name, _Watched(broker, self.waited))


class _Watched:
    """A broker, and since when it holds what it holds."""

    def __init__(self, broker: Broker, waited: list[float]) -> None:
        self._broker = broker
        self._waited = waited
        self._count = 0
        self._since: dict[tuple[Node, str], float] = {}

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        effects = self._broker.handle(sender, message, now=now)
        self._look(now)
        return effects

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        effects = self._broker.handle_timer(name, now=now)
        self._look(now)
        return effects

    def _look(self, now: float) -> None:
        """What is held changes by one at a time, or all of it goes: the count tells whether to look."""
        count = self._broker.seam.held_count
        if count == self._count:
            return
        self._count = count
        held = self._broker.seam.held_events()
        present = {(link, _event_of(message)) for link, messages in held.items() for message in messages}
        gone = [key for key in self._since if key not in present]
        self._waited += [now - self._since.pop(key) for key in gone]
        for key in sorted(present - self._since.keys()):
            self._since[key] = now


def _event_of(message: Message) -> str:
    match message:
        case Forward(event) | Marked(message=Forward(event)):
            return str(event.id)
        case _:
            return ""


STRAWMAN, ADVANCED = "strawman", "advanced-coordinated"
COMPARED = ((STRAWMAN, Ordering.NONE), (ADVANCED, Ordering.FIFO), (ADVANCED, Ordering.CAUSAL))
SUBSCRIBERS_PER_PUBLISHER = 9
GAP_SECONDS = 0.05
CONTROL, MESSAGES = "control", "messages"
LOST, DUPLICATE, QUEUED, QUEUED_MS = "lost", "duplicate", "queued", "queued ms"
RECORDED = frozenset(RecordKind) - {RecordKind.SEND, RecordKind.STATE}

SMALL_NETWORK = Waxman(domains=10, nodes_per_domain=10)
SCALE: dict[Size, Case] = {
    Size.QUICK: {"brokers": 20, "publishers": 5, "exchanges": 1, "nodes": SMALL_NETWORK.nodes},
    Size.USUAL: {"brokers": 100, "publishers": 50, "exchanges": 5, "nodes": TABLE_A1.nodes},
    Size.FULL: {"brokers": 100, "publishers": 50, "exchanges": 100, "nodes": TABLE_A1.nodes},
}
CYCLES = {Size.QUICK: (3, 6), Size.USUAL: (3, 5, 8, 12, 16), Size.FULL: (3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20)}


def cases(size: Size) -> list[Case]:
    return [
        {"protocol": protocol, "ordering": ordering.value, "cycle": cycle, **SCALE[size]}
        for cycle in CYCLES[size]
        for protocol, ordering in COMPARED
    ]


def cost(case: Case) -> float:
    return float(case["publishers"]) * float(case["exchanges"]) * (5.0 + float(case["cycle"]))


# Measuring ------------------------------------------------------------------------------------------------------


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Per exchange."""
    scenario = scenario_of(case, seed)
    run = ScenarioRun(scenario, seed, RECORDED)
    queues, counted = EventQueues(run), ControlCount(run)
    rounds = Rounds(run)
    rounds.settle()
    before = (counted.control, counted.messages)
    stream = Random(f"s1/{case['cycle']}/{seed}/exchanges")
    rounds.publish([_publisher(i, seed) for i in range(int(case["publishers"]))])
    exchanges = int(case["exchanges"])
    for _ in range(exchanges):
        rounds.carry_out(exchange_on_cycle(stream, rounds.topology, int(case["cycle"])))
    yield Sample(CONTROL, (counted.control - before[0]) / exchanges)
    yield Sample(MESSAGES, (counted.messages - before[1]) / exchanges)
    verdict = judge(rounds.finish().records)
    for metric, rule in ((LOST, Rule.LOST), (DUPLICATE, Rule.DUPLICATE)):
        yield Sample(metric, sum(violation.rule is rule for violation in verdict.violations) / exchanges)
    yield Sample(QUEUED, len(queues.waited) / exchanges)
    if queues.waited:
        yield Sample(QUEUED_MS, 1000.0 * sum(queues.waited) / len(queues.waited))


class ControlCount:
    """What travels between brokers and is no event."""

    def __init__(self, run: ScenarioRun) -> None:
        self._brokers = run.brokers
        self._traffic = ControlTraffic()
        self._relays: list[RelayTables] = []
        run.sim.on_send = self._sent

    def _sent(self, _at: float, sender: Node, to: Node, message: Message) -> None:
        if type(message) in EVENTS_BETWEEN_BROKERS or sender not in self._brokers or to not in self._brokers:
            return
        self._traffic.add(message)
        if isinstance(message, RelayTables) and message not in self._relays:
            self._relays.append(message)

    @property
    def messages(self) -> int:
        """All but confirmations, hop by hop."""
        return self._traffic.entries + self._traffic.protocol

    @property
    def control(self) -> int:
        """As S1 counts: what is relayed goes from one broker straight to another, entry by entry."""
        relayed = sum(len(told.entries) for relay in self._relays for told in relay.received)
        return self.messages - self._traffic.messages[RelayTables] + relayed


def scenario_of(case: Case, seed: int) -> Scenario:
    """The same for all protocols."""
    stream = Random(f"s1/{seed}")
    brokers = _brokers(case, seed)
    latencies = tuple((a, b, Span(seconds, seconds)) for (a, b), seconds in brokers.latency.items())
    return Scenario(
        name=f"exchange on a cycle {seed}",
        routing=Routing.IDENTITY,
        ordering=Ordering(str(case["ordering"])),
        exchange=str(case["protocol"]),
        root=brokers.names[0],
        links=brokers.links,
        brokers=brokers.names,
        duration=1.0,
        latency=PerLink(Span(0.0, 0.0), latencies),
        clients=tuple(_clients(stream, brokers.names, int(case["publishers"]))),
    )


def _brokers(case: Case, seed: int) -> Brokers:
    parameters = TABLE_A1 if case["nodes"] == TABLE_A1.nodes else SMALL_NETWORK
    return brokers_of(seed, int(case["brokers"]), parameters)


def _clients(stream: Random, brokers: Sequence[str], publishers: int) -> Iterator[ScenarioClient]:
    for i in range(publishers):
        yield ScenarioClient(id=f"p{i}", broker=stream.choice(brokers))
        for j in range(SUBSCRIBERS_PER_PUBLISHER):
            yield ScenarioClient(id=f"s{i}-{j}", broker=stream.choice(brokers), subscribe=(f"of = {i}",))


def _publisher(index: int, seed: int) -> Publisher:
    stream = Random(f"s1/{seed}/p{index}")
    return Publisher(f"p{index}", partial(stream.expovariate, 1.0 / GAP_SECONDS), lambda: {"of": index})
