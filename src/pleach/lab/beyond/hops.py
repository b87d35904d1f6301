"""What routing saves: messages per event, by routing policy and by how many brokers want it (S1 §3.3).

Random trees, one client per broker, events on as many topics as there are clients. A share of the clients wants a
topic, one event in `TOPICS` each; flooding takes every event everywhere, the others only where somebody wants it. What
they pay for it is messages that carry subscriptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from pleach.lab.experiment import Case, Experiment, Figure, Sample, Size, Summary, select
from pleach.lab.figure_style import curve
from pleach.lab.findings import Condition, Finding, judged
from pleach.scenario.model import PublishLoad, Routing, Scenario, ScenarioClient
from pleach.scenario.values import Choice, Span
from pleach.sim.run import run_scenario
from pleach.trace import RecordKind

BROKERS = {Size.QUICK: 8, Size.USUAL: 30, Size.FULL: 100}
SHARES = {Size.QUICK: (0.25, 1.0), Size.USUAL: (0.1, 0.25, 0.5, 1.0), Size.FULL: (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)}
TOPICS = 10
PUBLISHERS = 3
EVENTS_PER_PUBLISHER = 40
EVERY_SECONDS = 0.05
LOAD_STARTS = 1.0  # seconds: by then every subscription is everywhere

SUBSCRIPTION_MESSAGES = ("Install", "Withdraw")
HOPS, CONTROL = "hops per event", "subscription messages"


def cases(size: Size) -> list[Case]:
    return [
        {"routing": routing.value, "brokers": BROKERS[size], "share": share}
        for routing in Routing
        for share in SHARES[size]
    ]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    result = run_scenario(scenario_of(case, seed), seed, kinds=frozenset({RecordKind.SEND}))
    assert result.quiet
    sent = Counter(record.message for record in result.records)
    yield Sample(HOPS, sent["Forward"] / (PUBLISHERS * EVENTS_PER_PUBLISHER))
    yield Sample(CONTROL, sum(sent[kind] for kind in SUBSCRIPTION_MESSAGES))


def scenario_of(case: Case, seed: int) -> Scenario:
    """The same tree, clients and load for every routing policy: only what the case says differs."""
    count, share = int(case["brokers"]), float(case["share"])
    draw = Random(f"hops/{count}/{share}/{seed}")
    brokers = tuple(f"b{i}" for i in range(count))
    wanting = draw.sample(brokers, max(1, round(count * share)))
    readers = [
        ScenarioClient(id=f"reader-{broker}", broker=broker, subscribe=(f"topic = {draw.randrange(TOPICS)}",))
        for broker in wanting
    ]
    load = PublishLoad(
        every=Span(EVERY_SECONDS, EVERY_SECONDS),
        start=LOAD_STARTS,
        count=EVENTS_PER_PUBLISHER,
        attributes={"topic": Choice(tuple(range(TOPICS)))},
    )
    writers = [
        ScenarioClient(id=f"writer-{i}", broker=draw.choice(brokers), publish=(load,)) for i in range(PUBLISHERS)
    ]
    return Scenario(
        name="hops",
        routing=Routing(str(case["routing"])),
        links=tuple((brokers[draw.randrange(i)], brokers[i]) for i in range(1, count)),
        brokers=brokers,
        root=brokers[0],
        duration=LOAD_STARTS + (EVENTS_PER_PUBLISHER + 1) * EVERY_SECONDS,
        clients=(*readers, *writers),
    )


# The figure --------------------------------------------------------------------------------------------------


def draw(axes: Any, summaries: Sequence[Summary]) -> None:
    for axis, metric in zip(axes, (HOPS, CONTROL), strict=True):
        for routing in Routing:
            curve(axis, select(summaries, metric, routing=routing.value), "share", routing.value)
        axis.set_xlabel("share of brokers with a subscriber")
        axis.set_ylabel(metric)
        axis.set_ylim(bottom=0)
    axes[0].legend(title="routing")


def judge(summaries: Sequence[Summary]) -> Finding:
    flooded = {s.case["share"]: s.mean for s in select(summaries, HOPS, routing=Routing.FLOODING.value)}
    filtered = {s.case["share"]: s.mean for s in select(summaries, HOPS, routing=Routing.SIMPLE.value)}
    saved = {share: 1 - filtered[share] / flooded[share] for share in sorted(flooded)}
    fewest, most = min(saved), max(saved)
    measured = (
        f"Filtering saves {saved[fewest]:.0%} of the messages that carry events where {fewest:.0%} of the brokers have"
        f" a subscriber, and {saved[most]:.0%} where {most:.0%} have one."
    )
    fewer_with_more = saved[fewest] > saved[most] > 0
    return judged(measured, besides=[Condition("something is saved, less where more subscribe", fewer_with_more)])


HOPS_BY_POLICY = Experiment(
    name="hops",
    about="messages per event, by routing policy and by how many brokers want it",
    cases=cases,
    seeds={Size.QUICK: 3, Size.USUAL: 20, Size.FULL: 50},
    measure=measure,
    figures=(
        Figure(
            name="hops",
            paper="S1 §3.3",
            title="What routing saves",
            published=(
                "Filtering saves messages against flooding, the more the fewer want an event, and pays with messages"
                " that carry subscriptions (Fig. 3.2 shows the shape, for 121 brokers with leases)."
            ),
            draw=draw,
            judge=judge,
            panels=2,
        ),
    ),
    cost=lambda case: float(case["brokers"]),
)
