"""The setting of S1 §5.6: 100 brokers in a network of 10,000 nodes, 50 jobs, costs and loads that may change.

A *job* is a kind of event: one publisher and nine subscribers, each at a different broker (S1 requires it of
subscribers only). A job moves to other brokers at random times; a *stay* is its time at one set of brokers. Time is
divided into *slots* of one broadcast interval; jobs, costs and loads change only between slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pleach.core.overlay.plans.topology import link
from pleach.lab.waxman import TABLE_A1, Waxman, brokers_of

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

TICKS_PER_SLOT = 250  # broadcastInterval of Table 5.2
NETWORKS_REMEMBERED = 64  # cached; a campaign reuses its seeds
CHANGES_AT = (25_000, 50_000)  # Experiment 5: t1, t2
DRIFT_TICKS, DRIFT_STEP = (25_000, 55_000), 1_000  # Experiment 6


class Change(StrEnum):
    NONE = "none"
    ABRUPT = "abrupt"  # Experiment 5: other costs and loads at t1 and t2
    SLOW = "slow"  # Experiment 6: gradually


@dataclass(frozen=True)
class Setting:
    """Table 5.1. The network depends on the seed, except in Experiments 5 and 6 (`eras_of`)."""

    brokers: int = 100
    jobs: int = 50
    subscribers: int = 9
    publication_interval: float = 5.0
    reassignment_interval: float = 2_500.0  # of each job, on average; 0: never
    processing_max: float = 10.0
    communication_max: float = 10.0
    load_min: float = 0.1  # 1: uniform placement of clients
    locality: float = 0.0
    ticks: int = 30_000
    change: Change = Change.NONE
    network: Waxman = TABLE_A1

    @property
    def slots(self) -> int:
        return self.ticks // TICKS_PER_SLOT


class Costs(NamedTuple):
    """As `optimise.cost.Costs`, by index: p of each broker, c between every two."""

    processing: Floats
    communication: Floats


class Era(NamedTuple):
    """Costs and loads from `slot` on."""

    slot: int
    costs: Costs
    load: Floats


@lru_cache(maxsize=NETWORKS_REMEMBERED)
def communication_of(seed: int, count: int, network: Waxman) -> Floats:
    """Link costs between all brokers: 0 to 1, by the length of the shortest path (scaled as in S1)."""
    found = brokers_of(seed, count, network)
    costs = np.zeros((count, count))
    for i, a in enumerate(found.names):
        for j in range(i):
            costs[i, j] = costs[j, i] = found.latency[link(a, found.names[j])]
    scaled: Floats = costs / costs.max()
    return scaled


def eras_of(setting: Setting, seed: int) -> list[Era]:
    """Experiments 5 and 6 use networks T0, T1, T2, the same for all seeds; all else depends on the seed."""
    draw = Random(f"eras/{seed}")
    match setting.change:
        case Change.NONE:
            return [_era(setting, draw, 0, seed)]
        case Change.ABRUPT:
            starts = (0, *(ticks // TICKS_PER_SLOT for ticks in CHANGES_AT))
            return [_era(setting, draw, slot, network) for network, slot in enumerate(starts)]
        case Change.SLOW:
            return _drifting(_era(setting, draw, 0, 0), _era(setting, draw, 0, len(CHANGES_AT)))


def _era(setting: Setting, draw: Random, slot: int, network: int) -> Era:
    processing = np.array([draw.uniform(0.0, setting.processing_max) for _ in range(setting.brokers)])
    load = np.array([draw.uniform(setting.load_min, 1.0) for _ in range(setting.brokers)])
    unit = communication_of(network, setting.brokers, setting.network)
    return Era(slot, Costs(processing, setting.communication_max * unit), load)


def _drifting(start: Era, end: Era) -> list[Era]:
    first, last = DRIFT_TICKS
    eras = [start]
    for ticks in range(first, last + 1, DRIFT_STEP):
        done = (ticks - first + DRIFT_STEP) / (last - first + DRIFT_STEP)
        costs = Costs(*(a + done * (b - a) for a, b in zip(start.costs, end.costs, strict=True)))
        eras.append(Era(ticks // TICKS_PER_SLOT, costs, start.load + done * (end.load - start.load)))
    return eras


# Jobs -----------------------------------------------------------------------------------------------------------


class Stay(NamedTuple):
    """A job at its brokers, the publisher's first, for the slots `start` … `end` - 1."""

    job: int
    start: int
    end: int
    members: tuple[int, ...]


def stays_of(setting: Setting, seed: int, eras: Sequence[Era]) -> list[Stay]:
    draw = Random(f"jobs/{seed}")
    stays = []
    for job in range(setting.jobs):
        starts = [*_moves(setting, draw), setting.slots]
        for start, end in pairwise(starts):
            era = max((era for era in eras if era.slot <= start), key=lambda era: era.slot)
            stays.append(Stay(job, start, end, _placed(setting, draw, era)))
    return stays


def _moves(setting: Setting, draw: Random) -> list[int]:
    """The slots at whose beginning a job moves; two moves within a slot count as one."""
    slots, at = {0: None}, 0.0
    while setting.reassignment_interval:
        at += draw.expovariate(1.0 / setting.reassignment_interval)
        if at >= setting.ticks - TICKS_PER_SLOT:
            break
        slots[int(at // TICKS_PER_SLOT) + 1] = None
    return list(slots)


def _placed(setting: Setting, draw: Random, era: Era) -> tuple[int, ...]:
    """(5.15), (5.16): by load, or close to the publisher. As printed, `locality` means the opposite."""
    everyone = range(setting.brokers)
    publisher = draw.choices(everyone, era.load.tolist())[0]
    weights = (1.0 - setting.locality) * era.load / era.load.sum()
    if setting.locality:
        apart = era.costs.communication[publisher].copy()
        apart[publisher] = np.inf
        near = apart**-2.0
        weights = weights + setting.locality * near / near.sum()
    weights[publisher] = 0.0
    chosen = {publisher: None}
    while len(chosen) < 1 + setting.subscribers:
        candidate = draw.choices(everyone, weights.tolist())[0]
        weights[candidate] = 0.0
        chosen[candidate] = None
    return tuple(chosen)


def events_of(setting: Setting, seed: int) -> list[list[float]]:
    """The publication times of each job, with exponential gaps."""
    draw = Random(f"events/{seed}")
    rate, found = 1.0 / setting.publication_interval, []
    for _ in range(setting.jobs):
        times, at = [], draw.expovariate(rate)
        while at < setting.ticks:
            times.append(at)
            at += draw.expovariate(rate)
        found.append(times)
    return found
