"""The heuristics of `optimise.heuristics`, and the ledger, for many paths at once. Tests compare them one by one.

All paths of a call have the same length; a path leads from the broker that decides to the one that broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pleach.lab.improve.setting import Costs, Floats, Ints
from pleach.lab.improve.traffic import Common, Flows, tallied
from pleach.lab.improve.trees import Bools, Rooted, below


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
    share = 1.0 - np.divide(with_via, both, out=np.zeros_like(both), where=both > 0)
    further: Floats = share * (cost + known.costs.processing[via]) + known.costs.communication[via, there]
    return further


def cost_and_interest(paths: Ints, known: Known) -> Floats:
    """(5.13): what each cycle costs without each of its links, the new one last."""
    lines = paths[:, _lines(paths.shape[1])]
    return _one_way(lines, known) + _one_way(lines[:, :, ::-1], known)


@lru_cache(maxsize=32)
def _lines(length: int) -> Ints:
    """Row `removed`: the places of the path in the order of the line that is left (`indirect.opened`)."""
    return (np.arange(length)[None, :] + np.arange(length)[:, None] + 1) % length


def _one_way(lines: Ints, known: Known) -> Floats:
    """(5.12) of everyone on each line towards its end: all pairs at distance 1, then at distance 2, …"""
    start, there = lines[..., :-1], lines[..., 1:]
    cost = known.costs.communication[start, there]
    total: Floats = (known.common.pairs[start, there] * cost).sum(axis=-1)
    for hops in range(2, lines.shape[-1]):
        start, via, there = lines[..., :-hops], lines[..., hops - 1 : -1], lines[..., hops:]
        cost = _further(start, via, there, cost[..., :-1], known)
        total += (known.common.pairs[start, there] * cost).sum(axis=-1)
    return total


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


def ledger(paths: Ints, tree: Rooted, flows: Flows, costs: Costs) -> Saving:
    """Events that touch the same places of a path are counted together: there are 2^length kinds at most."""
    events = kinds_of_events(paths, tree, flows)
    brokers, links = _uses(paths.shape[1])
    communication = costs.communication[paths, np.roll(paths, -1, axis=1)]
    per_event = np.tensordot(costs.processing[paths], brokers, 1) + np.tensordot(communication, links, 1)
    saved = per_event[:, :, -1:] - per_event[:, :, :-1]  # [path, kind, removed link]
    gains = (events[:, :, None] * saved).sum(axis=1)
    place = np.argmax(gains, axis=1)
    each = np.arange(len(paths))
    variance = (events * saved[each, :, place] ** 2).sum(axis=1)
    return Saving(place, gains[each, place], np.sqrt(variance))


def kinds_of_events(paths: Ints, tree: Rooted, flows: Flows) -> Floats:
    """[path, kind]: how many events touch the places of the path that are the bits of `kind`."""
    beneath, size = below(tree, flows), flows.members.shape[1]
    behind = np.full((len(paths), len(flows.events)), size)
    kind = np.zeros_like(behind)
    for place in range(paths.shape[1] - 1):
        here, there = paths[:, place], paths[:, place + 1]
        is_below = (tree.parent[there] == here)[:, None]
        further = np.where(is_below, beneath[there], size - beneath[here])
        kind += (behind > further) << place
        behind = further
    kind += (behind > 0) << (paths.shape[1] - 1)
    kinds = 1 << paths.shape[1]
    where = kind + kinds * np.arange(len(paths))[:, None]
    return tallied(where, np.tile(flows.events, len(paths)), (len(paths), kinds))


class Uses(NamedTuple):
    """[place, kind, removed link]: whether events of a kind pass the broker, and the link behind it."""

    brokers: Floats
    links: Floats


@lru_cache(maxsize=16)
def _uses(length: int) -> Uses:
    kinds = 1 << length
    brokers, links = np.zeros((length, kinds, length)), np.zeros((length, kinds, length))
    for kind in range(1, kinds):
        for removed, line in enumerate(_lines(length).tolist()):
            where = [i for i, place in enumerate(line) if kind >> place & 1]
            used = line[where[0] : where[-1] + 1]
            brokers[used, kind, removed] = 1.0
            links[used[:-1], kind, removed] = 1.0
    return Uses(brokers, links)
