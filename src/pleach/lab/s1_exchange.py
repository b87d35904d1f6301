"""S1 Fig. 4.14–4.16: the advanced coordinated reconfiguration beside the strawman, by the length of the cycle.

S1 §4.4.3: 100 brokers in a network of 10,000 nodes (`waxman.py`) form a random tree; 500 clients: 50 publishers, an
event every 50 ms on average each (exponential), and 9 subscribers of each; 100 links are exchanged one after the other,
for others that close a cycle of the given length. Clients are where their broker is, and wait for nothing.

Control messages are what S1 counts: (un)subscriptions and the protocol's own messages. Where an end of the old link
sends its table to the end of the new one, S1 sends each entry by itself, out-of-band; ours send one message, hop by hop
along the cycle, and both counts are taken. Our confirmations (decision 3) have no counterpart and are left out. Lost
and doubled is what the oracle says of the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from pleach.lab.experiment import Case, Experiment, Figure, Sample, Size, Summary, select
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.look import curve
from pleach.lab.queues import Queues
from pleach.lab.rounds import Publisher, Rounds, exchange_on_cycle
from pleach.lab.scales import from_zero
from pleach.lab.trends import linear_growth, ordered, trend
from pleach.lab.waxman import TABLE_A1, Brokers, Waxman, brokers_of
from pleach.lab.witness import Traffic
from pleach.messages import EVENTS_BETWEEN_BROKERS, Message, Node, RelayTables
from pleach.scenario.model import Client, Ordering, PerLink, Routing, Scenario
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind, Rule, judge

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
    queues, counted = Queues(run), Counted(run)
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


class Counted:
    """What travels between brokers and is no event."""

    def __init__(self, run: ScenarioRun) -> None:
        self._brokers = run.brokers
        self._traffic = Traffic()
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


def _clients(stream: Random, brokers: Sequence[str], publishers: int) -> Iterator[Client]:
    for i in range(publishers):
        yield Client(id=f"p{i}", broker=stream.choice(brokers))
        for j in range(SUBSCRIBERS_PER_PUBLISHER):
            yield Client(id=f"s{i}-{j}", broker=stream.choice(brokers), subscribe=(f"of = {i}",))


def _publisher(index: int, seed: int) -> Publisher:
    stream = Random(f"s1/{seed}/p{index}")
    return Publisher(f"p{index}", partial(stream.expovariate, 1.0 / GAP_SECONDS), lambda: {"of": index})


# Figures --------------------------------------------------------------------------------------------------------


def _of(summaries: Sequence[Summary], metric: str, protocol: str, ordering: Ordering) -> list[Summary]:
    return ordered(select(summaries, metric, protocol=protocol, ordering=ordering.value), "cycle")


def draw_control(axes: Any, summaries: Sequence[Summary]) -> None:
    curves = {
        "strawman": _of(summaries, CONTROL, STRAWMAN, Ordering.NONE),
        "advanced coordinated, as S1 counts": _of(summaries, CONTROL, ADVANCED, Ordering.CAUSAL),
        "advanced coordinated, messages sent": _of(summaries, MESSAGES, ADVANCED, Ordering.CAUSAL),
    }
    _draw(axes, curves, "control messages per exchange")


def draw_broken(axes: Any, summaries: Sequence[Summary]) -> None:
    curves = {
        "lost (strawman)": _of(summaries, LOST, STRAWMAN, Ordering.NONE),
        "delivered twice (strawman)": _of(summaries, DUPLICATE, STRAWMAN, Ordering.NONE),
        "lost (advanced coordinated)": _of(summaries, LOST, ADVANCED, Ordering.CAUSAL),
        "delivered twice (advanced coordinated)": _of(summaries, DUPLICATE, ADVANCED, Ordering.CAUSAL),
    }
    _draw(axes, curves, "notifications per exchange")


def draw_delay(axes: Any, summaries: Sequence[Summary]) -> None:
    curves = {
        "causal order": _of(summaries, QUEUED_MS, ADVANCED, Ordering.CAUSAL),
        "FIFO order": _of(summaries, QUEUED_MS, ADVANCED, Ordering.FIFO),
    }
    _draw(axes, curves, "mean time in a queue (ms)")


def _draw(axes: Any, curves: Mapping[str, Sequence[Summary]], what: str) -> None:
    for name, points in curves.items():
        curve(axes, points, "cycle", name)
    from_zero(axes, [point for points in curves.values() for point in points])
    axes.set_xlabel("brokers on the cycle")
    axes.set_ylabel(what)
    axes.legend(loc="upper left")


def judge_control(summaries: Sequence[Summary]) -> Finding:
    strawman = _of(summaries, CONTROL, STRAWMAN, Ordering.NONE)
    advanced = _of(summaries, CONTROL, ADVANCED, Ordering.CAUSAL)
    sent = _of(summaries, MESSAGES, ADVANCED, Ordering.CAUSAL)
    shares = [ours.mean / theirs.mean for ours, theirs in zip(advanced, strawman, strict=True)]
    first, last = strawman[0].case["cycle"], strawman[-1].case["cycle"]
    measured = (
        f"From {first} to {last} brokers on the cycle: strawman {strawman[0].mean:,.0f} to {strawman[-1].mean:,.0f}"
        f" control messages per exchange, advanced coordinated {advanced[0].mean:,.0f} to {advanced[-1].mean:,.0f}"
        f" ({shares[0]:.0%} to {shares[-1]:.0%} of the strawman's); sent are {sent[0].mean:,.0f} to"
        f" {sent[-1].mean:,.0f}, since tables travel in one message."
    )
    grows = trend(strawman, "cycle").rises and trend(advanced, "cycle").rises
    return judged(
        measured,
        core=[Condition("fewer than the strawman on the shortest cycle", shares[0] < 1.0)],
        besides=[
            Condition("fewer than the strawman on every cycle", max(shares) < 1.0),
            Condition("above all on short ones", shares[0] == min(shares)),
            Condition("grows with the cycle for both", grows),
        ],
    )


def judge_broken(summaries: Sequence[Summary]) -> Finding:
    lost, doubled = (_of(summaries, metric, STRAWMAN, Ordering.NONE) for metric in (LOST, DUPLICATE))
    lines = [trend(points, "cycle") for points in (lost, doubled)]
    advanced = [s.maximum for m in (LOST, DUPLICATE) for s in select(summaries, m, protocol=ADVANCED)]
    first, last = lost[0].case["cycle"], lost[-1].case["cycle"]
    measured = (
        f"From {first} to {last} brokers on the cycle the strawman loses {lost[0].mean:,.1f} to {lost[-1].mean:,.1f}"
        f" notifications per exchange (correlation with the length {lines[0].fit:.2f}) and doubles"
        f" {doubled[0].mean:,.1f} to {doubled[-1].mean:,.1f} ({lines[1].fit:.2f}); advanced coordinated at most"
        f" {max(advanced):,.0f}."
    )
    growths = [linear_growth("losses", lost, "cycle"), linear_growth("duplicates", doubled, "cycle")]
    kept = Condition("advanced coordinated loses and doubles nothing", max(advanced) == 0)
    return judged(measured, core=[kept, *(each.grows for each in growths)], besides=[each.linear for each in growths])


def judge_delay(summaries: Sequence[Summary]) -> Finding:
    fifo, causal = (_of(summaries, QUEUED_MS, ADVANCED, ordering) for ordering in (Ordering.FIFO, Ordering.CAUSAL))
    waits = {"FIFO": fifo, "causal": causal}
    lines = [trend(points, "cycle") for points in waits.values()]
    longer = all(late.mean >= early.mean for early, late in zip(fifo, causal, strict=True))
    measured = (
        f"From {fifo[0].case['cycle']} to {fifo[-1].case['cycle']} brokers on the cycle, queued notifications wait"
        f" {fifo[0].mean:,.0f} to {fifo[-1].mean:,.0f} ms for FIFO order ({lines[0].slope:,.1f} ms per broker,"
        f" correlation {lines[0].fit:.2f}) and {causal[0].mean:,.0f} to {causal[-1].mean:,.0f} ms for causal order"
        f" ({lines[1].slope:,.1f} ms per broker, {lines[1].fit:.2f})."
    )
    growths = [linear_growth(f"waits for {name} order", points, "cycle") for name, points in waits.items()]
    return judged(
        measured,
        core=[growth.grows for growth in growths],
        besides=[Condition("causal order delays more than FIFO order", longer), *(each.linear for each in growths)],
    )


EXCHANGE_ON_A_CYCLE = Experiment(
    name="s1-exchange",
    about="advanced coordinated reconfiguration and strawman, by the length of the cycle",
    cases=cases,
    seeds={Size.QUICK: 3, Size.USUAL: 6, Size.FULL: 50},
    measure=measure,
    cost=cost,
    figures=(
        Figure(
            name="s1-fig4-14",
            paper="S1 Fig. 4.14",
            title="Control messages of an exchange",
            published=(
                "Grows with the cycle for both; the advanced coordinated reconfiguration clearly needs fewer than the"
                " strawman, above all on short cycles, and fewer on long ones, too. (No figures in the text.)"
            ),
            draw=draw_control,
            judge=judge_control,
        ),
        Figure(
            name="s1-fig4-15",
            paper="S1 Fig. 4.15",
            title="Notifications that the strawman loses and doubles",
            published="Both about linear in the number of brokers on the cycle; losses are far from negligible.",
            draw=draw_broken,
            judge=judge_broken,
        ),
        Figure(
            name="s1-fig4-16",
            paper="S1 Fig. 4.16",
            title="How long the order of notifications makes them wait",
            published="Linear in the length of the cycle; causal order delays more than FIFO order.",
            draw=draw_delay,
            judge=judge_delay,
        ),
    ),
)
