"""One run of a random network, and everything that must hold of it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from pleach.core.broker import Broker
from pleach.core.events.algebra import overlaps
from pleach.core.messages import Layer, Node
from pleach.core.routing.entries import Entry
from pleach.core.routing.policies import POLICIES
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind, judge
from support.contract.networks import Combination, combined, random_scenario
from support.liveness import unfinished
from support.long_runs.output import explained, replay_command

COUNTED = ("Install", "Withdraw", "Forward")
FLAWS_SHOWN_MAX = 5


@dataclass
class Judgement:
    """What one run came to. `flaws` says in words what does not hold; empty means that all does."""

    combination: Combination
    seed: int
    flaws: list[str] = field(default_factory=list)
    drains: int = 0
    remote_entries: list[int] = field(default_factory=list)  # over all brokers, at each drain
    messages: Counter[str] = field(default_factory=Counter)
    published: int = 0
    deliveries: int = 0


def judge_network(combination: Combination, seed: int, *, count_messages: bool = False) -> Judgement:
    """Run the network of this seed, let the oracle judge it, and look into the brokers at every drain."""
    judgement = Judgement(combination, seed)

    def watch(brokers: dict[Node, Broker]) -> None:
        judgement.drains += 1
        judgement.flaws += disagreements(brokers) if combination.routing != "flooding" else told_anything(brokers)
        judgement.remote_entries.append(sum(broker.router.remote_entries() for broker in brokers.values()))

    kinds = frozenset(RecordKind) if count_messages else frozenset(RecordKind) - {RecordKind.SEND}
    run = ScenarioRun(combined(random_scenario(seed), combination), seed, kinds, watch)
    result = run.finish()
    verdict = judge(result.records)
    if not result.quiet:
        judgement.flaws.append("the run did not end quiet")
    judgement.flaws += unfinished(run.brokers, run.clients)
    if verdict.unusable:
        judgement.flaws.append(f"unusable: {verdict.unusable}")
    judgement.flaws += [f"refused step: {refusal}" for refusal in result.refusals]
    judgement.flaws += [str(violation) for violation in verdict.violations[:FLAWS_SHOWN_MAX]]
    judgement.published = verdict.counts.published
    judgement.deliveries = verdict.counts.deliveries
    if count_messages:
        sent = Counter(record.message for record in result.records if record.kind == RecordKind.SEND)
        judgement.messages = Counter({kind: sent[kind] for kind in COUNTED})
    return judgement


# What must hold at a drain ------------------------------------------------------------------------------------


def disagreements(brokers: dict[Node, Broker]) -> list[str]:
    """Links whose two ends do not agree, and exports that are not the reduction of what stands behind them."""
    found = []
    for x, y in _directions(brokers):
        for layer in Layer:
            told = brokers[x].router.told(layer, y)
            if told != frozenset(brokers[y].router.received_from(layer, x)):
                found.append(f"{x} told {y} other {layer.name.lower()} than {y} received")
            if told != expected_export(brokers[x], y, layer):
                found.append(f"{x} told {y} other {layer.name.lower()} than follow from what {x} knows")
    return found


def told_anything(brokers: dict[Node, Broker]) -> list[str]:
    """Flooding tells nobody anything (S1 §2.2.3: brokers match against their local subscriptions)."""
    return [
        f"{x} told {y} something under flooding"
        for x, y in _directions(brokers)
        for layer in Layer
        if brokers[x].router.told(layer, y) or brokers[y].router.received_from(layer, x)
    ]


def expected_export(broker: Broker, to: Node, layer: Layer) -> frozenset[Entry]:
    """Decision 2, from scratch: reduce(⋃ filters of every destination but `to`), as far as the mode sends them."""
    router, config = broker.router, broker.router.config
    sources = [s for s in (*router.neighbours, *broker.sessions.clients) if s != to]
    entries = frozenset(entry for source in sources for entry in router.received_from(layer, source))
    if layer is Layer.ADVERTISEMENTS:
        return _reduced(config.policy, entries, config.merge_bound) if config.advertisements else frozenset()
    if config.hierarchical and router.parent != to:
        return frozenset()
    if config.advertisements:
        advertised = router.received_from(Layer.ADVERTISEMENTS, to)
        entries = frozenset(e for e in entries if any(overlaps(a.filter, e.filter) for a in advertised))
    return _reduced(config.policy, entries, config.merge_bound)


@lru_cache(maxsize=10_000)  # neighbouring brokers know much the same
def _reduced(policy: str, entries: frozenset[Entry], bound: float) -> frozenset[Entry]:
    return POLICIES[policy].reduce(entries, bound)


def _directions(brokers: dict[Node, Broker]) -> Iterator[tuple[Node, Node]]:
    return ((x, y) for x in sorted(brokers) for y in brokers[x].router.neighbours)


# Policies against each other ------------------------------------------------------------------------------------

BY_SIZE = ("merging", "covering", "identity", "simple")  # at every quiet moment, none holds more than the next


def out_of_order(sizes: Mapping[str, Sequence[int]]) -> list[str]:
    """Where a policy holds more remote entries than the next one does, on the same seed. `sizes`: per drain."""
    found = []
    for smaller, larger in itertools.pairwise(BY_SIZE):
        for drain, (one, other) in enumerate(_same_moments(sizes[smaller], sizes[larger])):
            if one > other:
                found.append(f"drain {drain}: {smaller} holds {one} remote entries, {larger} {other}")
    return found


def _same_moments(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """Drains during a cut succeed only where nothing waits at it, which differs by policy: then compare the ends."""
    if len(one) != len(other):
        return [(one[-1], other[-1])]
    return list(zip(one, other, strict=True))


def replay(judgement: Judgement) -> str:
    command = replay_command("contract", judgement.seed, "--only", judgement.combination.name)
    return explained(command, judgement.flaws)
