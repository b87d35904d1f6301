"""Policies: which brokers broadcast and request exchanges, and what is decided. S1's heuristics, and two of our own.

*Settling* requests like CI (5.11), and decides by the ledgers of the last 5,000 ticks (`optimise/settling.py`).
*Self-tuning* does the same, with broadcasts limited by a budget (`broadcast_budget.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from pleach.core.optimise.settling import DEVIATIONS, EXCHANGE_PASSES, INTERVAL_MAX, PATIENCE_MAX
from pleach.lab.improve.broadcast_budget import RADIUS_MAX, BroadcastBudget
from pleach.lab.improve.caches import Common
from pleach.lab.improve.decisions import (
    Known,
    Ledgers,
    cost_and_interest,
    decided,
    heaviest_goes,
    is_promising,
)
from pleach.lab.improve.setting import Bools, Costs, Floats, Ints
from pleach.lab.improve.traffic import Flows
from pleach.lab.improve.trees import Tree, broadcast_prices, costs_at

LEDGER_SLOTS = 20  # 5,000 ticks
SELF_TUNING = "self-tuning"


@dataclass(frozen=True)
class Moment:
    """The knowledge of brokers in one step of a slot."""

    slot: int
    costs: Costs
    common: Common
    ledgers: Ledgers  # of recent traffic

    @property
    def known(self) -> Known:
        return Known(self.costs, self.common)


@dataclass(frozen=True)
class Outlook:
    """The knowledge of brokers before they broadcast."""

    slot: int
    radius: int  # of Table 5.2
    tree: Tree
    costs: Costs
    flows: Flows  # of one slot


class Answers(NamedTuple):
    """For each path: whether its first broker requests, and the place of the link to remove; -1: refused."""

    asked: Bools
    place: Ints


class Policy(Protocol):
    def looks(self, brokers: Sequence[int], outlook: Outlook) -> dict[int, int]:
        """The brokers that broadcast in this slot, with their hops."""
        ...

    def answers(self, paths: Ints, moment: Moment) -> Answers: ...

    def exchanged(self, slot: int, cycle: Sequence[int]) -> None:
        """An exchange has been carried out."""
        ...


class Memoryless:
    """CI, ℓMST, ℓMIT as published."""

    def __init__(self, promising: Callable[[Ints, Known], Bools], totals: Callable[[Ints, Known], Floats]) -> None:
        self._promising, self._totals = promising, totals

    def looks(self, brokers: Sequence[int], outlook: Outlook) -> dict[int, int]:
        return dict.fromkeys(brokers, outlook.radius)

    def answers(self, paths: Ints, moment: Moment) -> Answers:
        asked = self._promising(paths, moment.known)
        place, gain = decided(self._totals(paths[asked], moment.known))
        return _answers(asked, place, gain > 0)

    def exchanged(self, slot: int, cycle: Sequence[int]) -> None:
        pass


def _answers(asked: Bools, place: Ints, agreed: Bools) -> Answers:
    answered = np.full(len(asked), -1)
    answered[asked] = np.where(agreed, place, -1)
    return Answers(asked, answered)


class Settling:
    def __init__(self, brokers: int) -> None:
        self._wait = np.ones((brokers, brokers), dtype=np.int64)  # slots, after the next refusal
        self._not_before = np.zeros((brokers, brokers), dtype=np.int64)
        self._interval = [1] * brokers
        self._broadcast_at = [0] * brokers

    def looks(self, brokers: Sequence[int], outlook: Outlook) -> dict[int, int]:
        return dict.fromkeys(self.broadcasting(outlook.slot, brokers), outlook.radius)

    def broadcasting(self, slot: int, brokers: Sequence[int]) -> list[int]:
        """The brokers that broadcast in this slot."""
        due = [broker for broker in brokers if self._broadcast_at[broker] <= slot]
        for broker in due:
            self._broadcast_at[broker] = slot + self._interval[broker]
            self._interval[broker] = min(2 * self._interval[broker], INTERVAL_MAX)
        return due

    def answers(self, paths: Ints, moment: Moment) -> Answers:
        asked = self._not_before[paths[:, 0], paths[:, -1]] <= moment.slot
        asked[asked] = is_promising(paths[asked], moment.known)
        chosen = paths[asked]
        found = moment.ledgers.saving(chosen)
        pays = found.gain > EXCHANGE_PASSES * along(chosen, moment.costs)
        agreed = pays & (found.gain > DEVIATIONS * found.chance)
        self._refuse(chosen[~agreed], moment.slot)
        return _answers(asked, found.place, agreed)

    def _refuse(self, paths: Ints, slot: int) -> None:
        ends = paths[:, 0], paths[:, -1]
        self._not_before[ends] = slot + self._wait[ends]
        self._wait[ends] = np.minimum(2 * self._wait[ends], PATIENCE_MAX)

    def exchanged(self, slot: int, cycle: Sequence[int]) -> None:
        """Reset the back-offs of its brokers, whose neighbourhood has changed."""
        for broker in cycle:
            self._wait[broker], self._not_before[broker] = 1, 0
            self._interval[broker] = 1
            self._broadcast_at[broker] = min(self._broadcast_at[broker], slot + 1)


class SelfTuning:
    def __init__(self, brokers: int) -> None:
        self._rule = Settling(brokers)
        self._budgets = [BroadcastBudget()] * brokers

    def looks(self, brokers: Sequence[int], outlook: Outlook) -> dict[int, int]:
        spent = costs_at(outlook.tree, outlook.flows, outlook.costs)
        found = {}
        for broker in brokers:
            prices = broadcast_prices(outlook.tree, broker, outlook.costs, RADIUS_MAX)
            budget = self._budgets[broker].earned(float(spent[broker]), prices)
            radius = budget.radius(prices)
            if radius is not None:
                found[broker], budget = radius, budget.broadcast(prices[radius])
            self._budgets[broker] = budget
        return found

    def answers(self, paths: Ints, moment: Moment) -> Answers:
        answers = self._rule.answers(paths, moment)
        asked = paths[answers.asked]
        for origin, price in zip(asked[:, -1].tolist(), along(asked, moment.costs).tolist(), strict=True):
            self._budgets[origin] = self._budgets[origin].requested(price)
        return answers

    def exchanged(self, slot: int, cycle: Sequence[int]) -> None:
        self._rule.exchanged(slot, cycle)
        for broker in cycle:
            self._budgets[broker] = self._budgets[broker].exchanged()


def along(paths: Ints, costs: Costs) -> Floats:
    """The cost of a message along each path."""
    total: Floats = costs.processing[paths].sum(axis=1) + costs.communication[paths[:, :-1], paths[:, 1:]].sum(axis=1)
    return total


def _is_cheaper_than_one(paths: Ints, known: Known) -> Bools:
    weights = known.costs.communication[paths, np.roll(paths, -1, axis=1)]
    found: Bools = weights[:, -1] < weights[:, :-1].max(axis=1)
    return found


def _has_traffic(paths: Ints, known: Known) -> Bools:
    found: Bools = known.common.pairs[paths[:, 0], paths[:, -1]] > 0
    return found


POLICIES: MappingProxyType[str, Callable[[int], Policy]] = MappingProxyType(
    {
        "ci": lambda _: Memoryless(is_promising, cost_and_interest),
        "lmst": lambda _: Memoryless(_is_cheaper_than_one, lambda ps, k: heaviest_goes(ps, k.costs.communication)),
        "lmit": lambda _: Memoryless(_has_traffic, lambda ps, k: heaviest_goes(ps, -k.common.pairs)),
        "settling": Settling,
        SELF_TUNING: SelfTuning,
    }
)
