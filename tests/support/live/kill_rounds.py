"""Rounds of `kill -9` under load, on real processes: nothing may be lost, doubled or out of order.

Nine brokers in a tree, clients that publish, answer and come and go. In every round a random broker is killed, leaves
and inner ones alike, in every third round two at once; they are restarted at once or late. The exit code is 1 if the
verdict is not clean.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from pleach.harness.run import LiveResult, run_live
from pleach.scenario.model import PerLink, PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import Crash, Restart, Step, SubscribeStep, UnsubscribeStep
from pleach.scenario.values import Span, Uniform
from pleach.trace import Verdict, judge

LINKS = (("a", "b"), ("b", "c"), ("c", "d"), ("b", "e"), ("c", "f"), ("f", "g"), ("a", "h"), ("d", "i"))
BROKERS = ("a", "b", "c", "d", "e", "f", "g", "h", "i")
PUBLISHERS = 6
SUBSCRIBERS = 12
EVENTS_PER_SECOND = 15  # of one publisher
WARM_UP = 2.0
DOWN_TIMES = (0.0, 0.0, 0.3, 1.2)  # seconds: at once, or late


def kill_scenario(rounds: int, seed: int, *, spacing: float) -> Scenario:
    rng = Random(seed)
    duration = WARM_UP + rounds * spacing + 2.0
    return Scenario(
        name=f"{rounds} rounds of kill -9",
        routing=rng.choice([Routing.COVERING, Routing.SIMPLE, Routing.MERGING]),
        root="a",
        links=LINKS,
        brokers=BROKERS,
        duration=duration,
        latency=PerLink(Span(0.0, 0.005)),
        clients=(*_publishers(rng, duration), *_subscribers(rng)),
        steps=tuple(sorted((*_kills(rng, rounds, spacing), *_churn(rng, duration)), key=lambda step: step.at)),
    )


def _publishers(rng: Random, duration: float) -> list[ScenarioClient]:
    every = Span(0.5 / EVENTS_PER_SECOND, 1.5 / EVENTS_PER_SECOND)
    return [
        ScenarioClient(
            id=f"p{i}",
            broker=rng.choice(BROKERS),
            publish=(PublishLoad(every=every, start=1.0, until=duration - 1, attributes=_event(i)),),
        )
        for i in range(PUBLISHERS)
    ]


def _event(topic: int) -> dict[str, str | int | float | bool | Uniform]:
    return {"topic": f"t{topic}", "price": Uniform(0, 99)}


def _subscribers(rng: Random) -> list[ScenarioClient]:
    """Disjoint filters by topic, so that a lost routing entry shows; every third answers what it sees."""
    clients = []
    for i in range(SUBSCRIBERS):
        topic = i % PUBLISHERS
        reply = Reply(to="price > 90", attributes={"answer": f"r{i}"}, delay=Span(0.0, 0.01))
        wanted = (f"topic = 't{topic}' AND price > {rng.randint(0, 40)}", f"answer = 'r{(i + 3) % SUBSCRIBERS}'")
        clients.append(
            ScenarioClient(
                id=f"s{i}", broker=rng.choice(BROKERS), subscribe=wanted, reply=(reply,) if i % 3 == 0 else ()
            )
        )
    return clients


def _kills(rng: Random, rounds: int, spacing: float) -> list[Step]:
    steps: list[Step] = []
    for number in range(rounds):
        at = WARM_UP + number * spacing
        down = rng.choice(DOWN_TIMES)
        for broker in rng.sample(BROKERS, 2 if number % 3 == 2 else 1):
            steps += [Crash(at=at, broker=broker), Restart(at=at + down, broker=broker)]
    return steps


def _churn(rng: Random, duration: float) -> list[Step]:
    """Wide subscriptions that come and go, and hide the narrow ones meanwhile."""
    steps: list[Step] = []
    for i in range(0, SUBSCRIBERS, 2):
        at = rng.uniform(WARM_UP, max(WARM_UP + 0.1, duration - 3))
        wide = f"topic = 't{i % PUBLISHERS}'"
        steps += [SubscribeStep(at=at, client=f"s{i}", filter=wide)]
        steps += [UnsubscribeStep(at=min(at + rng.uniform(1, 4), duration - 1), client=f"s{i}", filter=wide)]
    return steps


def run_rounds(rounds: int, seed: int, directory: Path, *, spacing: float) -> tuple[LiveResult, Verdict]:
    result = asyncio.run(run_live(kill_scenario(rounds, seed, spacing=spacing), directory, seed=seed))
    return result, judge(result.records)
