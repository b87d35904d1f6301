"""The speed of the reference oracle: deliveries per second on traces of the simulator."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import perf_counter

from pleach.bench.measurement import Measurement
from pleach.scenario.model import PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import Step, SubscribeStep, UnsubscribeStep
from pleach.scenario.values import Span, Uniform
from pleach.sim.run import run_scenario
from pleach.trace import RecordKind, judge

BAR = 50_000.0  # deliveries/s
PUBLISHERS = 4
SUBSCRIBERS = 12
REPEATS = 3
DECIDING = frozenset(RecordKind) - {RecordKind.SEND, RecordKind.STATE}


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:
    for events in (500, 2_000) if quick else (1_000, 10_000):
        records = run_scenario(busy_scenario(events), seed, kinds=DECIDING).records
        rates = []
        for _ in range(REPEATS):
            gc.collect()
            start = perf_counter()
            verdict = judge(records)
            rates.append(verdict.counts.deliveries / (perf_counter() - start))
            assert verdict.clean, verdict.violations[:1]
        rate = sorted(rates)[REPEATS // 2]
        case = f"{verdict.counts.deliveries:,} deliveries, {PUBLISHERS} publishers, churn and replies"
        yield Measurement("oracle", case, rate, "deliveries/s", "the bar", rate / BAR, 1.0, rate >= BAR)


def busy_scenario(events_per_publisher: int) -> Scenario:
    """A star of brokers; subscribers come and go, and one in four replies."""
    brokers = ("hub", *(f"b{i}" for i in range(4)))
    every = 0.01
    duration = 1 + events_per_publisher * every
    load = PublishLoad(every=Span(every, every), start=0.5, attributes={"price": Uniform(0, 99)})
    publishers = [ScenarioClient(id=f"p{i}", broker=brokers[1 + i], publish=(load,)) for i in range(PUBLISHERS)]
    answer = Reply(to="price > 95", attributes={"answer": True})
    subscribers = [
        ScenarioClient(
            id=f"s{i}",
            broker=brokers[1 + i % 4],
            subscribe=("price >= 10", "answer = TRUE"),
            reply=(answer,) if i % 4 == 0 else (),
        )
        for i in range(SUBSCRIBERS)
    ]
    return Scenario(
        name="bench oracle",
        routing=Routing.COVERING,
        root="hub",
        brokers=brokers,
        links=tuple(("hub", broker) for broker in brokers[1:]),
        duration=duration,
        clients=(*publishers, *subscribers),
        steps=_churn(duration),
    )


def _churn(duration: float) -> tuple[Step, ...]:
    steps: list[Step] = []
    for i in range(SUBSCRIBERS):
        away = 1.0 + i * (duration - 2.0) / SUBSCRIBERS
        steps.append(UnsubscribeStep(at=away, client=f"s{i}", filter="price >= 10"))
        steps.append(SubscribeStep(at=away + 0.5, client=f"s{i}", filter="price >= 10"))
    return tuple(steps)
