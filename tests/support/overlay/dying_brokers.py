"""Random networks under load in which up to a third of the brokers crash: some come back, some are dead for good.

`plague(seed)` is a function of the seed alone; `afflicted` adds a way to route and an order to keep. Faults come in
bursts, so that neighbours are dead or down together, and stand-ins wait for some who come back later. In half of the
networks clients change their minds meanwhile. `Worse` may come on top: with relapses some stand-ins die as well, and
with reweaving the tree changes where brokers are about to die.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from random import Random

import msgspec

from pleach.scenario.model import HealTable, Ordering, PerLink, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import AddBroker, Crash, RemoveBroker, Restart, Step, Swap
from pleach.scenario.values import Span
from support.contract.networks import COMBINATIONS, changes_of_mind, combined
from support.overlay.changing_trees import Setting, clients_of, latencies_of

BROKERS_MIN, BROKERS_MAX = 3, 9
DURATION = 2.5  # seconds
FAULTS_FROM, FAULTS_UNTIL = 0.3, 1.2
LOAD_UNTIL = 1.8
AFTER = 0.3  # from a death to the stand-in: longer than what is under way takes to arrive
GRACE = 2.0

SETTINGS = tuple(Setting(c, ordering) for c in COMBINATIONS for ordering in (Ordering.FIFO, Ordering.CAUSAL))
BY_NAME = {setting.name: setting for setting in SETTINGS}


def setting_of(seed: int) -> Setting:
    return SETTINGS[seed % len(SETTINGS)]


class Worse(StrEnum):
    RELAPSES = "relapses"
    REWEAVING = "reweaving"


def afflicted(seed: int, setting: Setting, worse: Sequence[Worse] = ()) -> Scenario:
    scenario = msgspec.structs.replace(combined(plague(seed), setting.combination), ordering=setting.ordering)
    steps = list(scenario.steps)
    if Worse.RELAPSES in worse:
        steps += _relapses(seed, scenario.steps)
    if Worse.REWEAVING in worse:
        steps += _reweaving(seed, scenario)
    return msgspec.structs.replace(scenario, steps=tuple(sorted(steps, key=lambda step: step.at)))


def _reweaving(seed: int, scenario: Scenario) -> list[Step]:
    """One or two operations just before each death, each of which the dead broker takes part in."""
    stream = Random(f"reweaving/{seed}")
    found: list[Step] = []
    for index, step in enumerate(scenario.steps):
        if isinstance(step, Crash) and step.for_good:
            for attempt in range(stream.randint(1, 2)):
                at = round(step.at - stream.choice((0.005, 0.02, 0.06)) * stream.random(), 4)
                found += _operation(stream, scenario, step.broker, at, f"new{index}.{attempt}")
    return found


def _operation(stream: Random, scenario: Scenario, doomed: str, at: float, newcomer: str) -> list[Step]:
    near = _beside(scenario, doomed)
    kind = stream.random()
    if kind < 0.15:
        ends = stream.choice(((newcomer, doomed), (newcomer, stream.choice(near))))
        return [AddBroker(at=at, broker=ends[0], to=ends[1])]
    if kind < 0.3:
        return [RemoveBroker(at=at, broker=stream.choice((doomed, *near)))]
    triples = [
        (a, b, c)
        for b in scenario.brokers
        for a in _beside(scenario, b)
        for c in _beside(scenario, b)
        if a != c and doomed in (a, b, c)
    ]
    return [Swap(at=at, brokers=stream.choice(triples))] if triples else []


def _beside(scenario: Scenario, broker: str) -> list[str]:
    return [b if a == broker else a for a, b in scenario.links if broker in (a, b)]


def _relapses(seed: int, steps: Sequence[Step]) -> list[Step]:
    """One stand-in in three dies while it gathers, or not long after."""
    stream = Random(f"relapse/{seed}")
    dead = [step for step in steps if isinstance(step, Crash) and step.for_good and stream.random() < 1 / 3]
    moments = [round(step.at + AFTER + stream.uniform(0.001, 0.7), 4) for step in dead]
    return [Crash(at=at, broker=step.broker, for_good=True) for at, step in zip(moments, dead, strict=True)]


def plague(seed: int) -> Scenario:
    stream = Random(f"plague/{seed}")
    brokers = tuple(f"b{i}" for i in range(stream.randint(BROKERS_MIN, BROKERS_MAX)))
    is_chain = stream.random() < 0.4
    links = tuple((brokers[i - 1 if is_chain else stream.randrange(i)], brokers[i]) for i in range(1, len(brokers)))
    clients = clients_of(stream, brokers, LOAD_UNTIL)
    return Scenario(
        name=f"plague {seed}",
        routing=Routing.SIMPLE,
        root=stream.choice(brokers),
        links=links,
        brokers=brokers,
        duration=DURATION,
        latency=PerLink(Span(0.001, 0.001), latencies_of(stream, brokers, clients)),
        heal=HealTable(after=AFTER, grace=GRACE),
        clients=tuple(clients),
        steps=tuple(sorted([*_faults(stream, links, brokers), *_unrest(stream, clients)], key=lambda step: step.at)),
    )


def _faults(stream: Random, links: Sequence[tuple[str, str]], brokers: Sequence[str]) -> list[Step]:
    steps: list[Step] = []
    burst = stream.uniform(FAULTS_FROM, FAULTS_UNTIL)
    for broker in _struck(stream, links, brokers):
        at = round(burst + stream.choice((0.0, 0.01, 0.3)) * stream.random(), 4)
        if stream.random() < 0.6:
            steps.append(Crash(at=at, broker=broker, for_good=True))
        else:
            steps += [Crash(at=at, broker=broker), Restart(at=at + _outage(stream), broker=broker)]
        if stream.random() < 0.3:
            burst = stream.uniform(FAULTS_FROM, FAULTS_UNTIL)
    return steps


def _unrest(stream: Random, clients: Sequence[ScenarioClient]) -> list[Step]:
    steps: list[Step] = []
    is_restless = stream.random() < 0.5
    for index, client in enumerate(clients if is_restless else ()):
        moments = sorted(round(stream.uniform(0.2, LOAD_UNTIL), 4) for _ in range(stream.randint(0, 4)))
        steps += changes_of_mind(stream, client, index, moments)
    return steps


def _struck(stream: Random, links: Sequence[tuple[str, str]], brokers: Sequence[str]) -> list[str]:
    """Up to a third, one at least; often such that are neighbours."""
    count = stream.randint(1, max(1, len(brokers) // 3))
    struck = [stream.choice(brokers)]
    while len(struck) < count:
        near = [b if a in struck else a for a, b in links if (a in struck) != (b in struck)]
        others = [broker for broker in brokers if broker not in struck]
        struck.append(stream.choice(near if stream.random() < 0.7 else others))
    return struck


def _outage(stream: Random) -> float:
    return round(stream.choice((0.005, 0.2, 0.8)) * stream.uniform(0.5, 1.0), 4)
