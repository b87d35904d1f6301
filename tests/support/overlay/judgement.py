"""One run of a network whose tree changes, and everything that must hold of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pleach.core.broker import Broker
from pleach.core.messages import Node
from pleach.scenario.model import Routing, Scenario
from pleach.scenario.steps import AddBroker, Exchange, RemoveBroker, Swap
from pleach.sim.run import ScenarioRun
from pleach.trace import Record, RecordKind, Rule, Verdict, judge
from support.contract.judgement import FLAWS_SHOWN_MAX, disagreements, told_anything
from support.liveness import open_at_brokers, unanswered_clients
from support.long_runs.output import explained, replay_command
from support.overlay.changing_trees import Manner, Setting, manner_of, setting_of, under, upheaval

QUIET_KINDS = frozenset(RecordKind) - {RecordKind.SEND}
NOT_ENDED = "it has not come to an end"


@dataclass
class Judgement:
    """What one run came to. `flaws` says in words what does not hold; empty means that all does."""

    seed: int
    setting: Setting
    exchange: str
    flaws: list[str] = field(default_factory=list)
    drains: int = 0
    operations: int = 0
    refusals: list[str] = field(default_factory=list)  # of operations
    published: int = 0
    deliveries: int = 0
    causal: int = 0  # deliveries out of causal order, promised or not


def judge_changing_tree(seed: int, setting: Setting | None = None, exchange: str = "swaplink") -> Judgement:
    """Run the network of this seed and judge it; with the published protocol, causal order is only counted."""
    setting = setting or setting_of(seed, exchange)
    scenario = under(upheaval(seed), setting, exchange)
    watched = Watched(scenario, seed)
    verdict = watched.finish()
    judgement = Judgement(seed, setting, exchange, flaws=watched.flaws, drains=watched.drains)
    judgement.operations = sum(isinstance(step, Swap | Exchange | AddBroker | RemoveBroker) for step in scenario.steps)
    judgement.refusals = watched.refused
    if manner_of(seed) is Manner.ONE_BY_ONE:
        judgement.flaws += [f"refused though nothing else was under way: {reason}" for reason in watched.refused]
    judgement.published, judgement.deliveries = verdict.counts.published, verdict.counts.deliveries
    judgement.causal = verdict.count(Rule.CAUSAL)
    judgement.flaws += violations(verdict, spared={Rule.CAUSAL} if exchange == "swaplink-published" else set())
    return judgement


class Watched:
    """A run whose brokers are looked into at every drain."""

    def __init__(self, scenario: Scenario, seed: int, kinds: frozenset[RecordKind] = QUIET_KINDS) -> None:
        self.run = ScenarioRun(scenario, seed, kinds, self._watch)
        self.flaws: list[str] = []
        self.drains = 0
        self._floods = scenario.routing is Routing.FLOODING
        self._asks_again = scenario.stabilise is not None
        self.denied: set[tuple[Node, str]] = set()  # subscriptions of clients that their rights have refused

    def _watch(self, brokers: dict[Node, Broker]) -> None:
        self.drains += 1
        broken = no_tree(brokers)
        self.flaws += broken
        if not broken:  # else there are links without a second end to compare with
            self.flaws += told_anything(brokers) if self._floods else disagreements(brokers)
        self.flaws += open_at_brokers(brokers)

    def finish(self) -> Verdict:
        result = self.run.finish()
        if not result.quiet:
            self.flaws.append("the run did not end quiet")
        self.flaws += [f"{r.step} at {r.at:g}: {r.reason}" for r in result.refusals if r.reason == NOT_ENDED]
        self.flaws += unanswered_clients(self.run.clients, self.denied)
        if not self._asks_again:
            self.flaws += confirmed_too_often(result.records)
        return judge(result.records)

    @property
    def refused(self) -> list[str]:
        tree_steps = ("swap", "exchange", "add_broker", "remove_broker")
        return [f"{r.step}: {r.reason}" for r in self.run.refusals if r.step in tree_steps]


def outcome(scenario: Scenario, seed: int = 1) -> tuple[Watched, Verdict, list[str]]:
    """One run of a scenario, its verdict, and everything that does not hold."""
    watched = Watched(scenario, seed)
    verdict = watched.finish()
    return watched, verdict, [*watched.flaws, *violations(verdict)]


def confirmed_too_often(records: Sequence[Record]) -> list[str]:
    """One confirmation for each time that a client has asked: one more could pass for that of its next request."""
    asked = Counter((r.client, r.subscription) for r in records if r.kind == RecordKind.SUBSCRIBE)
    confirmed = Counter((r.client, r.subscription) for r in records if r.kind == RecordKind.SUBSCRIBE_ACK)
    return [
        f"{client} asked {asked[client, name]} times for {name}, and it was confirmed {times} times"
        for (client, name), times in sorted(confirmed.items())
        if times > asked[client, name]
    ]


def violations(verdict: Verdict, spared: set[Rule] = frozenset()) -> list[str]:  # type: ignore[assignment]
    found = [str(v) for v in verdict.violations if v.rule not in spared]
    return [*([f"unusable: {verdict.unusable}"] if verdict.unusable else []), *found[:FLAWS_SHOWN_MAX]]


def no_tree(brokers: dict[Node, Broker]) -> list[str]:
    """S0 property 1: links of which both ends know, one less than brokers, and one can go everywhere.

    In hierarchical mode the ways to the root lead over neighbours and meet in one broker.
    """
    flaws = []
    neighbours = {name: broker.router.neighbours for name, broker in brokers.items()}
    for x in sorted(brokers):
        flaws += [
            f"{x} has {y} for a neighbour, not the reverse" for y in neighbours[x] if x not in neighbours.get(y, ())
        ]
    ends = sum(map(len, neighbours.values()))
    if ends != 2 * (len(brokers) - 1):
        flaws.append(f"{len(brokers)} brokers with {ends} ends of links")
    reached, waiting = Counter[Node](), [min(brokers)]
    while waiting:
        here = waiting.pop()
        if not reached[here]:
            waiting += [n for n in neighbours[here] if n in brokers]
        reached[here] += 1
    flaws += [f"{name} is not linked to {min(brokers)}" for name in sorted(brokers) if not reached[name]]
    return flaws + (_no_hierarchy(brokers) if any(b.router.config.hierarchical for b in brokers.values()) else [])


def _no_hierarchy(brokers: dict[Node, Broker]) -> list[str]:
    parents = {name: broker.router.parent for name, broker in brokers.items()}
    roots = [name for name in sorted(parents) if parents[name] is None]
    flaws = [] if len(roots) == 1 else [f"roots: {roots}"]
    for name in sorted(parents):
        parent = parents[name]
        if parent is not None and parent not in brokers[name].router.neighbours:
            flaws.append(f"the parent of {name}, {parent}, is no neighbour")
        elif parent is not None and parents.get(parent) == name:
            flaws.append(f"{name} and {parent} are each other's parents")
    return flaws


def replay(judgement: Judgement) -> str:
    seed, setting = judgement.seed, judgement.setting
    only = ["--only", setting.name] if setting != setting_of(seed, judgement.exchange) else []
    exchange = ["--exchange", judgement.exchange] if judgement.exchange != "swaplink" else []
    return explained(replay_command("overlay", seed, *only, *exchange), judgement.flaws, where=setting.name)
