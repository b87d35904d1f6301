"""What one exchange of a link under load came to, as samples: what it broke, delayed, cost, locked and changed.

Delays are measured against what the same event would have taken in the tree before and in the tree after, whichever is
longer (S0, minimal delay): latencies are constant, so that both are known. An exchange that is done by swaps goes
through other trees in between; what these take longer counts as delay, too. What is later than in any of the trees is
*held back*: S0 promises it of no swap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from pleach.core.messages import Node
from pleach.core.overlay.plans import Topology, exchange
from pleach.core.overlay.plans.steps import apply
from pleach.core.overlay.registry import SWAPS
from pleach.lab.exchanges.witness import RunWitness
from pleach.lab.exchanges.workload import cycle_of, exchange_of
from pleach.lab.experiment import Sample
from pleach.scenario.model import Scenario
from pleach.sim.run import ScenarioRun
from pleach.trace import Record, RecordKind, Rule, Verdict, Violation, judge

RECORDED = frozenset(RecordKind) - {RecordKind.SEND}
ROUNDING = 1e-9  # seconds: sums of latencies in another order
MS = 1000.0


@dataclass(frozen=True)
class ExchangeRun:
    """A run that is over, with what was seen of it."""

    scenario: Scenario
    records: Sequence[Record]
    verdict: Verdict
    witness: RunWitness
    refusals: tuple[str, ...]
    is_quiet: bool

    @cached_property
    def done_at(self) -> float:
        """When the last broker that was asked had said that it is done, and nobody was locked any more.

        With advanced coordinated reconfiguration u says so when its own side is done.
        """
        ends = [r.at for r in self.records if r.kind == RecordKind.STATE and _is_end(r.detail)]
        return max(*ends, self.witness.unlocked_at) if ends else float("inf")

    @cached_property
    def afterwards(self) -> frozenset[str]:
        """The events that were published when all was quiet again."""
        quiet = next((i for i, record in enumerate(self.records) if record.kind == RecordKind.DRAIN), len(self.records))
        return frozenset(record.event for record in self.records[quiet:] if record.kind == RecordKind.PUBLISH)

    @property
    def is_complete(self) -> bool:
        """It has come to its end, and nobody waits for anything."""
        return self.is_quiet and self.done_at < float("inf") and not self.witness.is_anyone_locked

    def broken(self, rule: Rule) -> int:
        """By events of the time before that, whether the network promises the rule or not."""
        return sum(v.rule is rule and v.event not in self.afterwards for v in self._violations)

    @property
    def broken_afterwards(self) -> int:
        return sum(v.event in self.afterwards for v in self._violations)

    @property
    def _violations(self) -> tuple[Violation, ...]:
        return (*self.verdict.violations, *self.verdict.tolerated)


def run_exchange(scenario: Scenario, seed: int) -> ExchangeRun:
    run = ScenarioRun(scenario, seed, RECORDED)
    witness = RunWitness(run, since=exchange_of(scenario).at, cycle=cycle_of(scenario))
    result = witness.finish()
    refusals = tuple(refusal.reason for refusal in result.refusals)
    return ExchangeRun(scenario, result.records, judge(result.records), witness, refusals, result.quiet)


def _is_end(detail: str) -> bool:
    return detail.startswith("operation ") and detail.endswith(": done")


# Samples ------------------------------------------------------------------------------------------------------


def guarantees(exchanged: ExchangeRun) -> Iterator[Sample]:
    """What was broken. `broken afterwards` must be 0, whatever the protocol."""
    for rule in Rule:
        yield Sample(rule.value, exchanged.broken(rule))
    yield Sample("broken_afterwards", exchanged.broken_afterwards)
    yield Sample("refused", len(exchanged.refusals))


def times(exchanged: ExchangeRun) -> Iterator[Sample]:
    """How long it took, and how long it kept others waiting: brokers that are locked, events under way meanwhile."""
    start = exchange_of(exchanged.scenario).at
    yield Sample("completion_ms", (exchanged.done_at - start) * MS)
    yield Sample("locked_brokers", len(exchanged.witness.locked_brokers))
    yield Sample("locked_broker_ms", exchanged.witness.locked_seconds * MS)
    delays = extra_delays(exchanged)
    extra = [delay.extra for delay in delays]
    yield Sample("extra_ms", MS * sum(extra) / len(extra) if extra else 0.0)
    yield Sample("extra_ms_max", MS * max(extra, default=0.0))
    yield Sample("held_back_ms_max", MS * max((delay.held_back for delay in delays), default=0.0))
    yield Sample("delayed_share", sum(each > 0.0 for each in extra) / len(extra) if extra else 0.0)


def costs(exchanged: ExchangeRun) -> Iterator[Sample]:
    """Of a steady workload: all of it is due to the exchange."""
    witness = exchanged.witness
    traffic, misrouted = witness.traffic, witness.misrouted
    yield Sample("control", traffic.control)
    yield Sample("control_bytes", traffic.control_bytes)
    yield Sample("entries", traffic.entries)
    yield Sample("confirmations", traffic.confirmations)
    yield Sample("protocol_messages", traffic.protocol)
    yield Sample("dead_ends", misrouted.dead_ends)
    yield Sample("second_copies", misrouted.second_copies)
    yield Sample("misrouted", misrouted.hops)
    yield Sample("overhead", witness.overhead)
    yield Sample("outside", witness.outside)


# Delays -------------------------------------------------------------------------------------------------------


class Delay(NamedTuple):
    """Seconds that an event came later than it would have: in the tree before or after, and in all on the way, too."""

    extra: float
    held_back: float


def extra_delays(exchanged: ExchangeRun) -> list[Delay]:
    """Of each first delivery of an event that was under way during the exchange."""
    paths = _Paths(exchanged.scenario)
    start = exchange_of(exchanged.scenario).at
    published: dict[str, Record] = {}
    found: dict[tuple[str, str], Delay] = {}
    for record in exchanged.records:
        if record.kind == RecordKind.PUBLISH:
            published[record.event] = record
        elif record.kind == RecordKind.DELIVER and record.at >= start:
            origin = published[record.event]
            if origin.at <= exchanged.done_at and (record.node, record.event) not in found:
                found[record.node, record.event] = paths.delay(origin.node, record.node, record.at - origin.at)
    return list(found.values())


def trees_on_the_way(scenario: Scenario) -> list[Topology]:
    """From the tree before to the tree after: these two, and where it is done by swaps, one after each of them."""
    before = Topology.of(scenario.links, scenario.brokers)
    step = exchange_of(scenario)
    plan = exchange(before, remove=step.remove, add=step.add)
    if scenario.exchange not in SWAPS:
        return [before, plan.result]
    return list(accumulate(plan.steps, apply, initial=before))


class _Paths:
    """Seconds from client to client, in each tree on the way."""

    def __init__(self, scenario: Scenario) -> None:
        self._latency = {frozenset((a, b)): span.low for a, b, span in scenario.latency.links}
        self._home = {client.id: client.broker for client in scenario.clients}
        self._trees = trees_on_the_way(scenario)
        self._known: dict[tuple[int, Node], dict[Node, float]] = {}

    def delay(self, publisher: Node, subscriber: Node, seconds: float) -> Delay:
        first, last = self._home[publisher], self._home[subscriber]
        ends = self._latency[frozenset((publisher, first))] + self._latency[frozenset((subscriber, last))]
        took = [ends + self._from(tree, first)[last] for tree in range(len(self._trees))]
        return Delay(_beyond(seconds, max(took[0], took[-1])), _beyond(seconds, max(took)))

    def _from(self, tree: int, start: Node) -> dict[Node, float]:
        if (tree, start) not in self._known:
            self._known[tree, start] = self._walk(self._trees[tree], start)
        return self._known[tree, start]

    def _walk(self, tree: Topology, start: Node) -> dict[Node, float]:
        found, waiting = {start: 0.0}, deque([start])
        while waiting:
            here = waiting.popleft()
            for there in tree.neighbours(here):
                if there not in found:
                    found[there] = found[here] + self._latency[frozenset((here, there))]
                    waiting.append(there)
        return found


def _beyond(seconds: float, allowed: float) -> float:
    return seconds - allowed if seconds - allowed > ROUNDING else 0.0
