"""The heuristics of `optimise.heuristics`, and the ledger, for many paths at once. Tests compare them one by one.

All paths of a call have the same length; a path leads from the broker that decides to the one that broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from pleach.lab.improve.caches import Common
from pleach.lab.improve.setting import Bools, Costs, Floats, Ints
from pleach.lab.improve.traffic import Flows, tallied
from pleach.lab.improve.trees import Rooted, below


@dataclass(frozen=True)
class Known:
    """What brokers know, all of them together."""

    costs: Costs
    common: Common


class Decision(NamedTuple):
    """Of each path: the place whose link goes, and what that gains."""

    place: Ints
    gain: Floats


# CI (S1 §5.5) -----------------------------------------------------------------------------------------------------


def is_promising(paths: Ints, known: Known) -> Bools:
    """(5.11)."""
    start, end = paths[:, 0], paths[:, -1]
    cost = known.costs.communication[start, paths[:, 1]]
    for place in range(2, paths.shape[1]):
        cost = _further(start, paths[:, place - 1], paths[:, place], cost, known)
    found: Bools = (known.common.pairs[start, end] > 0) & (known.costs.communication[start, end] < cost)
    return found


def _further(start: Ints, via: Ints, there: Ints, cost: Floats, known: Known) -> Floats:
    both = known.common.pairs[start, there]
    with_via = known.common.of_three(start, via, there)
    share = 1.0 - np.divide(with_via, both, out=np.zeros(both.shape), where=both > 0)
    further: Floats = share * (cost + known.costs.processing[via]) + known.costs.communication[via, there]
    return further


def cost_and_interest(paths: Ints, known: Known) -> Floats:
    """(5.13): what each cycle costs without each of its links, the new one last."""
    there, back = _lines_from(np.stack([paths.T, paths.T[::-1]]), known)
    return (np.roll(there, -1, axis=0) + back[::-1]).T  # without link i one line begins at place i + 1, one at i


def _lines_from(cycles: Ints, known: Known) -> Floats:
    """(5.12) of everyone on the line that begins at each place of [way, place, path] and goes once around.

    What it costs to reach a place from another is the same on all lines. So it is found for everyone once: all that
    are one hop away, then all at two, …; a line has the first of each, one fewer with each hop.
    """
    length = cycles.shape[1]
    around = np.concatenate([cycles, cycles], axis=1)
    there = around[:, 1 : length + 1]
    cost = known.costs.communication[cycles, there]
    total = _added_up(known.common.pairs[cycles, there] * cost, length - 1)
    for hops in range(2, length):
        via, there = there, around[:, hops : length + hops]
        cost = _further(cycles, via, there, cost, known)
        total += _added_up(known.common.pairs[cycles, there] * cost, length - hops)
    return total


def _added_up(amounts: Floats, count: int) -> Floats:
    """Of so many in a row, from each place on, around the cycle."""
    around, length = np.concatenate([amounts, amounts], axis=1), amounts.shape[1]
    found = amounts.copy()
    for step in range(1, count):
        found += around[:, step : length + step]
    return found


# ℓMST, ℓMIT -----------------------------------------------------------------------------------------------------


def heaviest_goes(paths: Ints, weight: Floats) -> Floats:
    """What each cycle weighs without each of its links."""
    weights = weight[paths, np.roll(paths, -1, axis=1)]
    total: Floats = weights.sum(axis=1, keepdims=True) - weights
    return total


def decided(totals: Floats) -> Decision:
    """(5.14)."""
    place = np.argmin(totals[:, :-1], axis=1)
    return Decision(place, totals[:, -1] - totals[np.arange(len(totals)), place])


# The ledger (`optimise.ledger`) -----------------------------------------------------------------------------------


class Saving(NamedTuple):
    """Of each path: the link that is best removed, what that saves of the events, and how far chance may take it."""

    place: Ints
    gain: Floats
    chance: Floats  # the standard deviation of the gain, if each kind of event comes at random (Poisson)


@dataclass(frozen=True)
class Ledgers:
    """What all brokers have noted of some flows, on one tree."""

    tree: Rooted
    flows: Flows
    costs: Costs

    @cached_property
    def _below(self) -> Ints:
        """Asked for by paths of every length."""
        return below(self.tree, self.flows)

    def saving(self, paths: Ints) -> Saving:
        """Events that touch the same places of a path are counted together: there are 2^length kinds at most."""
        events = self.kinds_of_events(paths)
        brokers, links = _uses(paths.shape[1])
        communication = self.costs.communication[paths, np.roll(paths, -1, axis=1)]
        per_event = np.tensordot(self.costs.processing[paths], brokers, 1) + np.tensordot(communication, links, 1)
        saved = per_event[:, :, -1:] - per_event[:, :, :-1]  # [path, kind, removed link]
        gains = (events[:, :, None] * saved).sum(axis=1)
        place = np.argmax(gains, axis=1)
        each = np.arange(len(paths))
        variance = (events * saved[each, :, place] ** 2).sum(axis=1)
        return Saving(place, gains[each, place], np.sqrt(variance))

    def kinds_of_events(self, paths: Ints) -> Floats:
        """[path, kind]: how many events touch the places of the path that are the bits of `kind`."""
        beneath, size = self._below, self.flows.members.shape[1]
        behind = np.full((len(paths), len(self.flows.events)), size)
        kind = np.zeros_like(behind)
        for place in range(paths.shape[1] - 1):
            here, there = paths[:, place], paths[:, place + 1]
            is_below = (self.tree.parent[there] == here)[:, None]
            further = np.where(is_below, beneath[there], size - beneath[here])
            kind += (behind > further) << place
            behind = further
        kind += (behind > 0) << (paths.shape[1] - 1)
        kinds = 1 << paths.shape[1]
        where = kind + kinds * np.arange(len(paths))[:, None]
        return tallied(where, np.tile(self.flows.events, len(paths)), (len(paths), kinds))


class Uses(NamedTuple):
    """[place, kind, removed link]: whether events of a kind pass the broker, and the link behind it."""

    brokers: Floats
    links: Floats


@lru_cache(maxsize=16)
def _uses(length: int) -> Uses:
    kinds = 1 << length
    brokers, links = np.zeros((length, kinds, length)), np.zeros((length, kinds, length))
    for kind in range(1, kinds):
        for removed in range(length):
            line = [*range(removed + 1, length), *range(removed + 1)]  # what is left (`indirect.opened`)
            where = [i for i, place in enumerate(line) if kind >> place & 1]
            used = line[where[0] : where[-1] + 1]
            brokers[used, kind, removed] = 1.0
            links[used[:-1], kind, removed] = 1.0
    return Uses(brokers, links)
