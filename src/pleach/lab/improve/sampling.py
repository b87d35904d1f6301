"""What samples know instead of caches (`optimise.sample`), by flows: events are thinned as their level says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pleach.core.optimise.sample import HORIZON, level_for
from pleach.lab.improve.setting import TICKS_PER_SLOT, Floats, Ints
from pleach.lab.improve.traffic import Traffic

HORIZON_SLOTS = int(HORIZON) // TICKS_PER_SLOT


def levels_of(traffic: Traffic) -> Ints:
    """[broker, slot]: the level of each broker's sample, by what it has consumed in the time that it covers."""
    slots = np.arange(traffic.consumed.shape[1])
    lately = traffic.consumed - traffic.consumed[:, np.maximum(slots - HORIZON_SLOTS, 0)]
    levels: Ints = np.vectorize(level_for, otypes=[np.int64])(lately)
    return levels


def sampled(traffic: Traffic, seed: int) -> Traffic:
    """The events of a job at the highest level of its brokers: two of them may know more of each other than that."""
    levels, per_slot = levels_of(traffic), np.diff(traffic.told, axis=1)
    coarsest = np.zeros_like(per_slot, dtype=np.int64)
    for job, start, end, members in zip(traffic.job, traffic.start, traffic.end, traffic.members, strict=True):
        coarsest[job, start:end] = levels[members, start:end].max(axis=0)
    stands_for = 2.0**coarsest
    drawn = np.random.default_rng(seed).binomial(per_slot.astype(np.int64), 1.0 / stands_for) * stands_for
    return replace(traffic, told=np.concatenate([np.zeros((len(drawn), 1)), drawn.cumsum(axis=1)], axis=1))


def since_horizon(traffic: Traffic) -> Floats:
    """As `Traffic.remembered_since`."""
    brokers, slots = traffic.consumed.shape
    return np.tile(np.maximum(np.arange(slots, dtype=float) - HORIZON_SLOTS, 0.0), (brokers, 1))
