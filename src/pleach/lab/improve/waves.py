"""The broadcasts of a step on a tree: the brokers that they reach, hop by hop, with their paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pleach.lab.improve.setting import Costs, Ints
from pleach.lab.improve.trees import Neighbours, Tree


class Wave(NamedTuple):
    """The brokers that broadcasts reach with a number of hops; earlier broadcasts first."""

    broadcast: Ints  # its number, of each path
    paths: Ints  # one row each, from the reached broker back to the origin


def waves(tree: Tree, looks: Mapping[int, int]) -> list[Wave]:
    """`looks`: hops of each origin's broadcast, at least 1."""
    wave = Wave(np.arange(len(looks)), np.array(list(looks))[:, None])
    hops = np.array(list(looks.values()))
    found = [_further(wave, tree.neighbours)]
    while len(found[-1].broadcast):
        goes_on = hops[found[-1].broadcast] > len(found)
        found.append(_further(Wave(*(each[goes_on] for each in found[-1])), tree.neighbours))
    return found[:-1]


def _further(wave: Wave, around: Neighbours) -> Wave:
    """One hop further, except back to the sender."""
    here = wave.paths[:, 0]
    many = around.degree[here]
    path = np.repeat(np.arange(len(here)), many)
    place_of_first = np.repeat(many.cumsum() - many, many)
    there = around.everyone[around.first[here][path] + np.arange(len(path)) - place_of_first]
    if wave.paths.shape[1] > 1:
        is_new = there != wave.paths[path, 1]
        there, path = there[is_new], path[is_new]
    return Wave(wave.broadcast[path], np.concatenate([there[:, None], wave.paths[path]], axis=1))


def broadcast_cost(origins: Sequence[int], reached: Sequence[Wave], costs: Costs) -> float:
    """Summed in the order of broadcasts, nearer brokers first."""
    order = np.argsort(np.concatenate([wave.broadcast for wave in reached]), kind="stable")
    there, here = np.concatenate([wave.paths[:, :2] for wave in reached])[order].T
    links = costs.communication[there, here].sum()
    return float(costs.processing[list(origins)].sum() + costs.processing[there].sum() + links)
