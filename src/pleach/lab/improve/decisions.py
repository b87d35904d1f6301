"""S1's heuristics and the ledgers of `optimise/ledger.py`, for many paths at once; tests compare with single paths.

All paths of a call have the same length; a path leads from the deciding broker to the one that broadcast.
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

ANYTHING = np.finfo(np.float64).tiny  # a divisor in place of 0


@dataclass(frozen=True)
class Known:
    """The knowledge of all brokers."""

    costs: Costs
    common: Common


class Decision(NamedTuple):
    """Per path: the place of the link to remove, and the gain."""

    place: Ints
    gain: Floats


# CI (S1 §5.5) -----------------------------------------------------------------------------------------------------


def is_promising(paths: Ints, known: Known) -> Bools:
    """(5.11)."""
    found: Bools = known.common.of_two(paths[:, 0], paths[:, -1]) > 0
    some = paths[found]
    found[found] = known.costs.communication[some[:, 0], some[:, -1]] < _cost_along(some.T, known)
    return found


def _cost_along(places: Ints, known: Known) -> Floats:
    """(5.12) from the first to the last of [place, path]."""
    start, common = places[0], known.common
    link = known.costs.communication[places[:-1], places[1:]]
    pair = common.pair(places[:-1], places[1:])
    cost: Floats = link[0]
    for via in range(1, len(places) - 1):
        share = _share_not_at(common.of_two_and(start, pair[via]), common.of_two(start, places[via + 1]))
        cost = share * (cost + known.costs.processing[places[via]]) + link[via]
    return cost


def _share_not_at(of_three: Floats, both: Floats) -> Floats:
    """Of the common traffic of two brokers, the share that the third does not have; 1 if there is none."""
    share: Floats = 1.0 - of_three / np.maximum(both, ANYTHING)
    return share


def cost_and_interest(paths: Ints, known: Known) -> Floats:
    """(5.13): what each cycle costs without each of its links, the new one last."""
    there, back = _lines_from(np.stack([paths.T, paths.T[::-1]]), known)
    total: Floats = np.concatenate([there[1:], there[:1]]) + back[::-1]  # without link i: lines from i + 1, and from i
    return total.T


def _lines_from(start: Ints, known: Known) -> Floats:
    """(5.12) for all brokers on the line that begins at each place of [direction, place, path] and goes once around.

    The cost of reaching one place from another is the same on all lines. So it is computed once for all pairs: at one
    hop, then at two, …; a line uses the first of each, one fewer with each hop.
    """
    length, common = start.shape[1], known.common
    around = np.concatenate([start, start], axis=1)
    link = known.costs.communication[around[:, :-1], around[:, 1:]]
    pair = common.pair(around[:, :-1], around[:, 1:])
    processing = known.costs.processing[around]
    cost = link[:, :length]
    total = _added_up(common.of_two(start, around[:, 1 : length + 1]) * cost, length - 1)
    for hops in range(2, length):
        via = slice(hops - 1, length + hops - 1)
        both = common.of_two(start, around[:, hops : length + hops])
        share = _share_not_at(common.of_two_and(start, pair[:, via]), both)
        cost = share * (cost + processing[:, via]) + link[:, via]
        total += _added_up(both * cost, length - hops)
    return total


def _added_up(amounts: Floats, count: int) -> Floats:
    """Sums of `count` consecutive amounts from each place on, around the cycle."""
    around, length = np.concatenate([amounts, amounts], axis=1), amounts.shape[1]
    found = amounts.copy()
    for step in range(1, count):
        found += around[:, step : length + step]
    return found


# ℓMST, ℓMIT -----------------------------------------------------------------------------------------------------


def heaviest_goes(paths: Ints, weight: Floats) -> Floats:
    """The weight of each cycle without each of its links."""
    weights = weight[paths, np.roll(paths, -1, axis=1)]
    total: Floats = weights.sum(axis=1, keepdims=True) - weights
    return total


def decided(totals: Floats) -> Decision:
    """(5.14)."""
    place = np.argmin(totals[:, :-1], axis=1)
    return Decision(place, totals[:, -1] - totals[np.arange(len(totals)), place])


# The ledger (`optimise.ledger`) -----------------------------------------------------------------------------------


class Saving(NamedTuple):
    """Per path: the best link to remove, its saving, and the standard deviation of the saving."""

    place: Ints
    gain: Floats
    chance: Floats  # the standard deviation of the gain, if each kind of event comes at random (Poisson)


@dataclass(frozen=True)
class Ledgers:
    """The ledgers of all brokers for some flows on one tree."""

    tree: Rooted
    flows: Flows
    costs: Costs

    @cached_property
    def _behind(self) -> Ints:
        """[broker, flow]: members in the subtree of a broker; then, in a second half, the others."""
        beneath = below(self.tree, self.flows)
        return np.concatenate([beneath, self.flows.members.shape[1] - beneath])

    def saving(self, paths: Ints) -> Saving:
        """Events are grouped by the places of a path that they touch: at most 2^length kinds."""
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
        """[path, kind]: events that touch the places of the path given by the bits of `kind`."""
        length, brokers = paths.shape[1], len(self.tree.parent)
        where = np.tile((np.arange(len(paths)) << length)[:, None], (1, len(self.flows.events)))
        behind = np.full(where.shape, self.flows.members.shape[1])
        for place in range(length - 1):
            here, there = paths[:, place], paths[:, place + 1]
            further = self._behind.take(np.where(self.tree.parent[there] == here, there, brokers + here), axis=0)
            where += (behind > further) << place
            behind = further
        where += (behind > 0) << (length - 1)
        return tallied(where, np.broadcast_to(self.flows.events, where.shape), (len(paths), 1 << length))


class Uses(NamedTuple):
    """[place, kind, removed link]: whether events of a kind use the broker, and the link behind it."""

    brokers: Floats
    links: Floats


@lru_cache(maxsize=16)
def _uses(length: int) -> Uses:
    kinds = 1 << length
    brokers, links = np.zeros((length, kinds, length)), np.zeros((length, kinds, length))
    for kind in range(1, kinds):
        for removed in range(length):
            line = [*range(removed + 1, length), *range(removed + 1)]  # the remaining line (`ledger.opened`)
            where = [i for i, place in enumerate(line) if kind >> place & 1]
            used = line[where[0] : where[-1] + 1]
            brokers[used, kind, removed] = 1.0
            links[used[:-1], kind, removed] = 1.0
    return Uses(brokers, links)
