"""Traffic by flows: the input of one run except the tree, without single events."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import cast

import numpy as np

from pleach.lab.improve.setting import TICKS_PER_SLOT, Era, Floats, Ints, Setting, eras_of, events_of, stays_of

TRAFFICS_REMEMBERED = 64  # cached; a campaign reuses its seeds; less than a megabyte each


@dataclass(frozen=True)
class Flows:
    """Stays of jobs with their numbers of events."""

    members: Ints  # one row per stay
    events: Floats


@dataclass(frozen=True)
class Traffic:
    setting: Setting
    eras: tuple[Era, ...]
    job: Ints  # of each stay
    start: Ints
    end: Ints
    members: Ints  # one row per stay, the publisher first
    told: Floats  # [job, slot]: events before the slot
    consumed: Floats  # [broker, slot]: events before the slot

    def era(self, slot: int) -> Era:
        return max((era for era in self.eras if era.slot <= slot), key=lambda era: era.slot)

    def between(self, first: int, last: int) -> Flows:
        """What was published in the slots `first` … `last` - 1."""
        until, since = np.minimum(self.end, last), np.maximum(self.start, first)
        chosen = np.flatnonzero(until > since)
        job = self.job[chosen]
        return Flows(self.members[chosen], self.told[job, until[chosen]] - self.told[job, since[chosen]])

    def remembered_since(self, cache_size: int) -> Floats:
        """[broker, slot]: the time since when its cache is complete, in slots."""
        slots = np.arange(self.consumed.shape[1], dtype=float)
        return np.stack([np.interp(total - cache_size, total, slots) for total in self.consumed])


def tallied(where: Ints, amounts: Floats, shape: tuple[int, ...]) -> Floats:
    """Sums of amounts by flat index of the shape."""
    return cast("Floats", np.bincount(where.ravel(), amounts.ravel(), prod(shape)).reshape(shape))


@lru_cache(maxsize=TRAFFICS_REMEMBERED)
def traffic_of(setting: Setting, seed: int) -> Traffic:
    eras = eras_of(setting, seed)
    stays = stays_of(setting, seed, eras)
    told = _told(
        Setting(jobs=setting.jobs, publication_interval=setting.publication_interval, ticks=setting.ticks), seed
    )
    per_slot = np.diff(told, axis=1)
    consumed = np.zeros((setting.brokers, setting.slots + 1))
    for stay in stays:
        slots = slice(stay.start, stay.end)
        consumed[list(stay.members), stay.start + 1 : stay.end + 1] += per_slot[stay.job, slots]
    job, start, end = (np.array([stay[i] for stay in stays], dtype=np.int64) for i in range(3))
    members = np.array([stay.members for stay in stays], dtype=np.int64)
    return Traffic(setting, tuple(eras), job, start, end, members, told, consumed.cumsum(axis=1))


@lru_cache(maxsize=TRAFFICS_REMEMBERED)
def _told(setting: Setting, seed: int) -> Floats:
    """[job, slot]: events before the slot. Independent of the brokers of jobs, so many settings share it."""
    bounds = np.arange(setting.slots + 1) * float(TICKS_PER_SLOT)
    return np.stack([np.searchsorted(np.array(times), bounds) for times in events_of(setting, seed)]).astype(float)
