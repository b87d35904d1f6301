"""Simulation of a self-improving tree in rounds: every broker broadcasts once per slot, others decide, links change.

A slot has `STEPS` steps of 50 ticks, about the duration of a broadcast, a request and an exchange (S1: up to 10 ticks
per hop and message). A fifth of the brokers broadcasts in each step. Receivers decide by the tree at that time;
requests are carried out one after the other, and dropped where the path no longer exists (S1 §5.5.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np

from pleach.core.optimise.cache import CACHE_SIZE, shape_for
from pleach.core.optimise.settling import EXCHANGE_PASSES
from pleach.lab.improve.caches import Caches, Common
from pleach.lab.improve.decisions import Ledgers
from pleach.lab.improve.policies import LEDGER_SLOTS, POLICIES, SELF_TUNING, Moment, Outlook, along
from pleach.lab.improve.sampling import SAMPLE_MAX, sampled, since_horizon
from pleach.lab.improve.setting import TICKS_PER_SLOT, Costs, Setting
from pleach.lab.improve.traffic import Flows, Traffic, traffic_of
from pleach.lab.improve.trees import Path, Tree, Wave, broadcast_cost, flow_costs, waves
from pleach.lab.waxman import random_tree

STEPS = 5
STATIC = "static"
BITS_PER_KB = 8_000
INTEREST_OF = {"lmst": 0, "lmit": 2}  # size of the broker sets whose common traffic a heuristic uses; the others: 3


@dataclass(frozen=True)
class Tuning:
    """Table 5.2, for a heuristic."""

    heuristic: str
    radius: int = 3
    cache_size: int = CACHE_SIZE
    starts: int = 1_000  # ticks; before that the tree does not change


class Spent(NamedTuple):
    """Costs of a time span by cause; numbers of exchanges and requests; size of filters."""

    forwarding: float = 0.0
    broadcasts: float = 0.0
    requests: float = 0.0
    exchanging: float = 0.0
    exchanges: float = 0.0
    asked: float = 0.0
    told: float = 0.0  # KB of filters sent, over all links

    def plus(self, other: Spent) -> Spent:
        return Spent(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Run:
    slots: tuple[Spent, ...]
    tree: Tree


class Agreed(NamedTuple):
    """An agreed exchange, sorted in the order of execution: nearer brokers receive a broadcast first."""

    broadcast: int
    hops: int
    number: int
    place: int
    price: float  # of one message along the path
    path: Path


def simulate(setting: Setting, seed: int, tuning: Tuning) -> Run:
    network = Improving(setting, seed, tuning)
    return Run(tuple(network.slot(slot) for slot in range(setting.slots)), network.tree)


def first_tree(setting: Setting, draw: Random) -> Tree:
    everyone = [str(i) for i in range(setting.brokers)]
    return Tree(setting.brokers, [(int(a), int(b)) for a, b in random_tree(draw, everyone)])


class Improving:
    """The network of one run. All heuristics get the same traffic, costs, first tree and order of broadcasts."""

    def __init__(self, setting: Setting, seed: int, tuning: Tuning) -> None:
        draw = Random(f"tree/{seed}")
        self.tree = first_tree(setting, draw)
        self._tuning = tuning
        self._traffic = traffic_of(setting, seed)
        self._caches, self._remembered = _remembered(self._traffic, seed, tuning)
        self._told_at = np.full(setting.brokers, tuning.starts // TICKS_PER_SLOT - 1)
        self._policy = POLICIES[tuning.heuristic](setting.brokers) if tuning.heuristic != STATIC else None
        phases = list(range(setting.brokers))
        draw.shuffle(phases)
        self._groups = [phases[step::STEPS] for step in range(STEPS)]

    def slot(self, slot: int) -> Spent:
        costs, flows = self._traffic.era(slot).costs, self._traffic.between(slot, slot + 1)
        forwarding = self._forwarding(flows, costs)
        if self._policy is None or slot * TICKS_PER_SLOT < self._tuning.starts:
            return Spent(forwarding=forwarding)
        lately = self._traffic.between(max(0, slot - LEDGER_SLOTS), slot)
        spent = Spent()
        for group in self._groups:
            if looks := self._policy.looks(group, Outlook(slot, self._tuning.radius, self.tree, costs, flows)):
                self._told_at[list(looks)] = slot
                moment = Moment(slot, costs, self._common(slot), Ledgers(self.tree.rooted, lately, costs))
                step = self._step(looks, moment)
                spent = spent.plus(step)
                forwarding = self._forwarding(flows, costs) if step.exchanges else forwarding
            spent = spent.plus(Spent(forwarding=forwarding / STEPS))
        return spent

    def _common(self, slot: int) -> Common:
        return self._caches.in_common(slot, self._told_at, up_to=INTEREST_OF.get(self._tuning.heuristic, 3))

    def _forwarding(self, flows: Flows, costs: Costs) -> float:
        return float(flow_costs(self.tree, flows, costs) @ flows.events)

    def _step(self, looks: Mapping[int, int], moment: Moment) -> Spent:
        reached = waves(self.tree, looks)
        return self._requested(reached[1:], moment)._replace(
            broadcasts=broadcast_cost(list(looks), reached, moment.costs),
            told=sum(len(wave.paths) for wave in reached) * shape_for(self._remembered).bits / BITS_PER_KB,
        )

    def _requested(self, reached: Sequence[Wave], moment: Moment) -> Spent:
        assert self._policy is not None
        agreed: list[Agreed] = []
        requests, asked = 0.0, 0
        for hops, (broadcast, paths) in enumerate(reached):
            answers = self._policy.answers(paths, moment)
            requests += float(along(paths[answers.asked], moment.costs).sum())
            asked += int(answers.asked.sum())
            yes = np.flatnonzero(answers.place >= 0)
            found = (broadcast[yes], yes, answers.place[yes], along(paths[yes], moment.costs))
            ways = map(tuple, paths[yes].tolist())
            agreed += (
                Agreed(origin, hops, *rest)
                for origin, *rest in zip(*(each.tolist() for each in found), ways, strict=True)
            )
        exchanging, exchanges = 0.0, 0
        for each in sorted(agreed):
            if self.tree.has(each.path):
                self.tree.exchange(each.path, each.place)
                self._policy.exchanged(moment.slot, each.path)
                exchanges += 1
                exchanging += EXCHANGE_PASSES * each.price
        return Spent(requests=requests, asked=asked, exchanging=exchanging, exchanges=exchanges)


def _remembered(traffic: Traffic, seed: int, tuning: Tuning) -> tuple[Caches, int]:
    """The caches of all brokers, and the number of events that their filters are sized for."""
    if tuning.heuristic == SELF_TUNING:
        return Caches(sampled(traffic, seed), since_horizon(traffic)), SAMPLE_MAX
    return Caches(traffic, traffic.remembered_since(tuning.cache_size)), tuning.cache_size
