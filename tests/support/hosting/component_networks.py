"""Random networks with components that move under load, and what must hold of them, by brute force over the trace.

`lodging(seed)` takes a network of `travels(seed)`, in which clients move, links are swapped and brokers crash, and adds
components: two that add up what clients publish, and one that adds up what one of these says. They begin at random
brokers, and move as often as the clients. For each, what it has published must be the running sums of what was
delivered to it, in that order: one state behind, one event twice, or two at work at once would show in every later sum.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from random import Random

import msgspec

from pleach.core.events.language import parse_filter
from pleach.core.hosting.running_sum import SUMMED
from pleach.core.messages import OPERATOR, Node, RequestHost, RequestMove
from pleach.core.mobility.ways import way
from pleach.scenario.model import Scenario
from pleach.scenario.steps import MoveClient
from pleach.scenario.values import Uniform
from pleach.trace import RecordKind
from support.mobility.moving_clients import WatchedMoves, travels
from support.overlay.changing_trees import Manner, Setting, manner_of, setting_of, under
from support.overlay.judgement import QUIET_KINDS, violations

BEGIN_AT = 0.05
AMOUNT_MAX = 9
MOVES = 6
KIND = "running-sum"
COMPONENTS = {"k0": "EXISTS amount", "k1": "amount > 4", "k2": "sums = 'k0'"}
SAYS = "EXISTS sums"


def lodging(seed: int, setting: Setting | None = None) -> Scenario:
    """Everybody's events have an amount; the first client hears all sums."""
    scenario = under(travels(seed), setting or setting_of(seed))
    return msgspec.structs.replace(with_amounts(scenario), name=f"lodging {seed}")


def with_amounts(scenario: Scenario) -> Scenario:
    clients = []
    for client in scenario.clients:
        publish = tuple(
            msgspec.structs.replace(load, attributes={**load.attributes, SUMMED: Uniform(0, AMOUNT_MAX)})
            for load in client.publish
        )
        subscribe = (*client.subscribe, SAYS) if client is scenario.clients[0] else client.subscribe
        clients.append(msgspec.structs.replace(client, publish=publish, subscribe=subscribe))
    return msgspec.structs.replace(scenario, clients=tuple(clients))


@dataclass
class Judgement:
    seed: int
    flaws: list[str] = field(default_factory=list)
    moved: int = 0
    said: int = 0


class WatchedLodging(WatchedMoves):
    """A run with components: each is at one broker whenever all is quiet, at work, and a client of that one."""

    components = COMPONENTS

    def _watch(self, brokers):
        super()._watch(brokers)
        for component in self.components:
            at = places(brokers, component)
            known = [name for name in sorted(brokers) if component in brokers[name].sessions]
            if len(at) != 1 or known != at:
                self.flaws.append(f"{component} lives at {at}, and is known to {known}")
            elif (resident := brokers[at[0]].hosting.here[component]).has_failed or resident.client.is_halted:
                self.flaws.append(f"{component} does not work: {resident.complaint or 'halted'}")

    # What an operator does -------------------------------------------------------------------------------------

    def host(self, component: Node, broker: Node) -> None:
        wanted = [parse_filter(self.components[component])]
        self._ask(broker, RequestHost(f"host {component}", component, KIND, wanted, [parse_filter(SAYS)]))

    def move(self, component: Node, to: Node, number: int, delay_ms_max: int = 0) -> None:
        """Wherever it is; nothing happens where that cannot be known."""
        run = self.run
        up = {name: broker for name, broker in run.brokers.items() if name not in run.disks}
        at = places(up, component)
        path = way(lambda name: run.brokers[name].router.neighbours, at[0], to) if at and to in run.brokers else []
        if len(path) > 1:
            self._ask(at[0], RequestMove(f"{component}/{number}", component, path, delay_ms_max))

    def _ask(self, broker: Node, request: RequestHost | RequestMove) -> None:
        run = self.run
        run.sim.perform(broker, run.brokers[broker].handle(OPERATOR, request, now=run.sim.now))


def places(brokers, component) -> list[Node]:
    return [name for name in sorted(brokers) if component in brokers[name].hosting.here]


def judge_lodging(seed: int, setting: Setting | None = None) -> Judgement:
    scenario = lodging(seed, setting)
    watched = WatchedLodging(scenario, seed, QUIET_KINDS | {RecordKind.MOVE})
    stream = Random(f"lodging/{seed}")
    lasting = [b for b in scenario.brokers if not any(getattr(s, "broker", "") == b for s in scenario.steps)]
    for component in COMPONENTS:
        home = stream.choice(lasting or scenario.brokers)
        watched.run.sim.at(BEGIN_AT, partial(watched.host, component, home))
    moments = [step.at for step in scenario.steps if isinstance(step, MoveClient)] or [0.3]
    delay_ms_max = 0 if manner_of(seed) is Manner.AMONG_FAULTS else stream.choice((0, 1_000))
    for number in range(MOVES):
        at = stream.choice(moments) + 0.2 * stream.random()
        component, to = stream.choice(list(COMPONENTS)), stream.choice(scenario.brokers)
        watched.run.sim.at(at, partial(watched.move, component, to, number, delay_ms_max))
    verdict = watched.finish()
    records = watched.run.recorder.records
    judgement = Judgement(seed, [*watched.flaws, *violations(verdict)])
    for component in COMPONENTS:
        flaws, said = wrong_sums(records, component)
        judgement.flaws += flaws
        judgement.said += said
    judgement.moved = sum(r.kind is RecordKind.MOVE and r.node in COMPONENTS for r in records)
    return judgement


def wrong_sums(records, component: Node) -> tuple[list[str], int]:
    """What a component has published that is not the running sum of what was delivered to it; and how much it was."""
    got = [r for r in records if r.node == component and r.kind is RecordKind.DELIVER]
    said = [json.loads(r.attributes) for r in records if r.node == component and r.kind is RecordKind.PUBLISH]
    expected, total = [], 0
    for count, record in enumerate(got, start=1):
        total += json.loads(record.attributes).get(SUMMED, 0)
        expected.append({"sums": component, "count": count, "total": total, "of": record.event})
    if said == expected:
        return [], len(said)
    first = next((n for n, pair in enumerate(zip(said, expected, strict=False)) if pair[0] != pair[1]), len(said))
    return [f"{component} said {said[first : first + 1]} where {expected[first : first + 1]} was right"], len(said)
