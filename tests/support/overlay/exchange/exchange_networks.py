"""Random networks in which one link is exchanged for another under load, and what came of it.

The networks are those of `changing_trees.py`: latencies of every pair that differ by 25 times, clients that answer,
filters of one client alone, subscriptions that come and go meanwhile. One exchange happens among that; when all is
quiet the publishers go on for a while. What the exchange itself may lose or double is counted; what is published
afterwards must reach everyone, once and in order, whatever the protocol.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import permutations
from random import Random

import msgspec

from pleach.core.overlay.plans import Topology
from pleach.lab.exchanges.workload import cycle_of, exchange_of
from pleach.scenario.model import Ordering, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import Crash, Cut, Drain, Exchange, Heal, Restart, Step
from pleach.trace import Record, RecordKind, Rule, Verdict
from support.contract.networks import COMBINATIONS, Combination, combined
from support.overlay.changing_trees import TreeStep, upheaval
from support.overlay.exchange.long_cycles import around_a_cycle
from support.overlay.judgement import Watched

PROTOCOLS = ("strawman", "deferred", "coordinated", "informed", "path", "advanced-coordinated")
FLAT = tuple(combination for combination in COMBINATIONS if not combination.hierarchical)
# Those whose tables are a function of what is wanted (S1 §4.4.2: simple, identity, covering). Filters that are merged
# may be merged otherwise when they come another way: one may be covered there before it is merged (seed 401).
COMPOSED = tuple(combination for combination in FLAT if combination.routing is not Routing.MERGING)

EXCHANGE_AT = 0.25
QUIET_AT = 2.0  # the load of `changing_trees.py` is over
AFTERWARDS = (2.1, 2.3)
SET_UP_AT, ALONE_AT = 0.2, 0.7  # where the exchange is alone: all that was asked for at first is in effect
ROUTING = ("Install", "Withdraw")
FAULTS = Crash | Restart | Cut | Heal


@dataclass
class Exchanged:
    """`flaws`: what no protocol may do. `broken`: what the exchange broke for events published before it was over."""

    flaws: list[str] = field(default_factory=list)
    broken: Counter[Rule] = field(default_factory=Counter)
    refusals: list[str] = field(default_factory=list)
    published_afterwards: int = 0


class Cycles(StrEnum):
    """Which exchanges are drawn."""

    ANY = "any"  # any link for any other, in networks of up to seven brokers: mostly short cycles
    LONG = "long"


def network(
    seed: int, combination: Combination, exchange: str, ordering: Ordering, cycles: Cycles = Cycles.ANY
) -> Scenario:
    """One exchange, drawn with the network: the same for all protocols."""
    drawn, step_of_exchange = _drawn(seed, cycles)
    base = combined(drawn, combination)
    steps = [step for step in base.steps if not isinstance(step, TreeStep | Drain | FAULTS) and step.at < QUIET_AT]
    return msgspec.structs.replace(
        base,
        ordering=ordering,
        exchange=exchange,
        duration=AFTERWARDS[1] + 0.1,
        clients=tuple(map(_and_afterwards, base.clients)),
        steps=_timeline([*steps, step_of_exchange, *_faults(seed, base), Drain(at=QUIET_AT)]),
    )


def _drawn(seed: int, cycles: Cycles) -> tuple[Scenario, Exchange]:
    match cycles:
        case Cycles.ANY:
            scenario = upheaval(seed)
            return scenario, drawn_exchange(seed, scenario)
        case Cycles.LONG:
            return around_a_cycle(seed, EXCHANGE_AT)


def drawn_exchange(seed: int, scenario: Scenario) -> Exchange:
    """Any link for any other that leaves a tree."""
    stream = Random(f"exchange/{seed}")
    linked = {frozenset(link) for link in scenario.links}
    added = stream.choice([pair for pair in permutations(scenario.brokers, 2) if frozenset(pair) not in linked])
    path = Topology.of(scenario.links, scenario.brokers).path(*added)
    cut = stream.randrange(len(path) - 1)
    return Exchange(at=EXCHANGE_AT, remove=(path[cut], path[cut + 1]), add=added)


def _and_afterwards(client: ScenarioClient) -> ScenarioClient:
    again = [msgspec.structs.replace(load, start=AFTERWARDS[0], until=AFTERWARDS[1]) for load in client.publish]
    return msgspec.structs.replace(client, publish=(*client.publish, *again))


def _faults(seed: int, scenario: Scenario) -> list[Step]:
    """In every third network a broker crashes, or a link is cut, during the exchange."""
    stream = Random(f"faults/{seed}")
    at = EXCHANGE_AT + stream.uniform(0.0, 0.4)
    until = at + stream.choice((0.005, 0.1, 0.4))
    broker, link = stream.choice(scenario.brokers), stream.choice(scenario.links)
    return {
        0: [Crash(at=at, broker=broker), Restart(at=until, broker=broker)],
        1: [Cut(at=at, link=link), Heal(at=until, link=link)],
    }.get(seed % 6, [])


def _timeline(steps: list[Step]) -> tuple[Step, ...]:
    return tuple(sorted(steps, key=lambda step: step.at))


# Judgement --------------------------------------------------------------------------------------------------


def exchanged(scenario: Scenario, seed: int) -> Exchanged:
    watched = WatchedExchange(scenario, seed)
    verdict = watched.finish()
    found = Exchanged(flaws=watched.flaws, refusals=[r.reason for r in watched.run.refusals if r.step == "exchange"])
    later = watched.published_after_quiet()
    found.published_afterwards = len(later)
    if verdict.unusable:
        found.flaws.append(f"unusable: {verdict.unusable}")
    for violation in verdict.violations:
        if violation.event in later or violation.rule is Rule.SPURIOUS:
            found.flaws.append(str(violation))
        else:
            found.broken[violation.rule] += 1
    return found


class WatchedExchange(Watched):
    """In the end, besides: the tree is that of the request."""

    def published_after_quiet(self) -> set[str]:
        records = self.run.recorder.records
        quiet = next((i for i, record in enumerate(records) if record.kind == RecordKind.DRAIN), len(records))
        return {record.event for record in records[quiet:] if record.kind == RecordKind.PUBLISH}

    def finish(self) -> Verdict:
        verdict = super().finish()
        if not self.run.refusals:
            self.flaws += self._wrong_links()
        return verdict

    def _wrong_links(self) -> list[str]:
        exchange = exchange_of(self.run.scenario)
        before = {frozenset(link) for link in self.run.scenario.links}
        wanted = before - {frozenset(exchange.remove)} | {frozenset(exchange.add)}
        routed = {frozenset((n, to)) for n, broker in self.run.brokers.items() for to in broker.router.neighbours}
        opened = {frozenset(pair) for pair in permutations(self.run.brokers, 2) if self.run.sim.has_link(*pair)}
        return [f"{what} links: {links}" for what, links in (("routed", routed), ("open", opened)) if links != wanted]


def steady(
    seed: int, combination: Combination, exchange: str, ordering: Ordering, cycles: Cycles = Cycles.ANY
) -> Scenario:
    """No (un)subscriptions, no faults, and all that was asked for at first is in effect: the exchange is alone."""
    scenario = network(seed, combination, exchange, ordering, cycles)
    alone = msgspec.structs.replace(exchange_of(scenario), at=ALONE_AT)
    return msgspec.structs.replace(scenario, steps=(Drain(at=SET_UP_AT), alone))


def entries_outside(scenario: Scenario, seed: int) -> list[Record]:
    """S2 §4.2, of a steady network: routing messages to or from a broker that is not on the cycle of the exchange."""
    cycle = set(cycle_of(scenario))
    watched = Watched(scenario, seed, kinds=frozenset(RecordKind))
    watched.finish()
    assert not watched.flaws, watched.flaws
    return [
        record
        for record in watched.run.recorder.records
        if record.kind == RecordKind.SEND
        and record.message in ROUTING
        and record.at >= ALONE_AT
        and not {record.node, record.peer} <= cycle
    ]
