"""Samples of a broker's recent events in place of caches of fixed size (S1 §5.8 leaves the size open), by flows.

A cache of fixed size reaches back as far as its events happen to: at five times the rate, a fifth as long. A sample
covers the time that ledgers cover. Where that is too many events, it keeps half of them, a quarter, …, by the level of
their ids (core/optimise/sightings.py), which is the same at every broker. Two samples are compared at the higher level.

With n events in a sample, the share of a broker's traffic that another one has too is known with a standard error of
√(s·(1-s)/n), at most 1 / (2·√n). SHARE_ERROR bounds it, and so the number of events that are enough.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import ceil

import numpy as np

from pleach.lab.improve.setting import TICKS_PER_SLOT, Floats, Ints
from pleach.lab.improve.traffic import Traffic

HORIZON = 5_000.0  # ticks that ledgers cover
SHARE_ERROR = 1 / 64
SAMPLE_MAX = ceil(1 / (2 * SHARE_ERROR) ** 2)  # 1,024 events: a filter of 12,288 bits
HORIZON_SLOTS = int(HORIZON) // TICKS_PER_SLOT


def level_for(events: float) -> int:
    """The lowest level at which a sample of so many events is small enough, on average."""
    return next(level for level in count() if events <= SAMPLE_MAX << level)


def levels_of(traffic: Traffic) -> Ints:
    """[broker, slot]: the level of each broker's sample, by its events within the horizon."""
    slots = np.arange(traffic.consumed.shape[1])
    lately = traffic.consumed - traffic.consumed[:, np.maximum(slots - HORIZON_SLOTS, 0)]
    levels: Ints = np.vectorize(level_for, otypes=[np.int64])(lately)
    return levels


def sampled(traffic: Traffic, seed: int) -> Traffic:
    """Traffic with the events of each job thinned to the highest level of its brokers."""
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
