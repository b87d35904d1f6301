"""Traffic by flows: how much of it brokers have in common in their caches, without an event at a time.

A cache holds a broker's last events: those since some moment, the earlier the fewer it consumes. A broker compares its
own with what others told of theirs when they last broadcast, some in this slot, some in the one before. What all of
them have of a stay of a job are its events from the latest beginning to the earliest end. So a beginning and an end
per stay and member are enough for every pair and every three (`in_common`); tests compare with single events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple, cast

import numpy as np

from pleach.lab.improve.setting import TICKS_PER_SLOT, Era, Floats, Ints, Setting, eras_of, events_of, stays_of

TRAFFICS_REMEMBERED = 64  # a campaign's seeds come back with its next case; one takes less than a megabyte
NOTHING = np.zeros((0, 0))


class Common(NamedTuple):
    """I of every two brokers and of every three, as the first of them sees it."""

    pairs: Floats
    triples: Floats  # [viewer, number of the pair]

    def of_three(self, viewer: Ints, one: Ints, other: Ints) -> Floats:
        found: Floats = self.triples[viewer, numbers_of_pairs(len(self.pairs))[one, other]]
        return found


@dataclass(frozen=True)
class Flows:
    """Stays of jobs, with how many events of each there were: what is weighed, or what is paid for."""

    members: Ints  # one row per stay
    events: Floats


@dataclass(frozen=True)
class Traffic:
    """All that happens to a network in one run, but for its tree."""

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
        """[broker, slot]: since when its cache has everything, in slots and fractions of them."""
        slots = np.arange(self.consumed.shape[1], dtype=float)
        return np.stack([np.interp(total - cache_size, total, slots) for total in self.consumed])

    def in_common(self, slot: int, since: Floats, told_at: Ints, *, up_to: int = 3) -> Common:
        """`since`: by `remembered_since`; `told_at`: the slot before whose events each broker broadcast its cache;
        `up_to`: how many brokers together.
        """
        if not up_to:
            return Common(NOTHING, NOTHING)
        count = self.setting.brokers
        oldest = np.minimum(since[self.members, slot], since[self.members, told_at[self.members]]).min(axis=1)
        chosen = np.flatnonzero((self.start < slot) & (self.end > oldest))
        members = self.members[chosen]
        mine = self._told_before(chosen, since[members, slot])  # the first event of the stay in its own cache
        theirs = self._told_before(chosen, since[members, told_at[members]])
        ends = self._told_before(chosen, told_at[members].astype(float))
        both = _lengths(mine, theirs, ends) * ~np.eye(members.shape[1], dtype=bool)
        pairs = tallied(members[:, :, None] * count + members[:, None, :], both, (count, count))
        if up_to == 2:
            return Common(pairs, NOTHING)
        one, other = np.triu_indices(members.shape[1], 1)
        begun, ended = np.maximum(theirs[:, one], theirs[:, other]), np.minimum(ends[:, one], ends[:, other])
        all_three = _lengths(mine, begun, ended) * _beside(members.shape[1])
        beside = count * (count - 1) // 2
        where = members[:, :, None] * beside + numbers_of_pairs(count)[members[:, one], members[:, other]][:, None, :]
        return Common(pairs, tallied(where, all_three, (count, beside)))

    def _told_before(self, stays: Ints, moment: Floats) -> Floats:
        """Events of each stay's job before a moment within the stay; those of a slot come evenly."""
        job = self.job[stays][:, None]
        moment = np.clip(moment, self.start[stays][:, None], self.end[stays][:, None])
        whole = moment.astype(np.int64)
        last = self.told.shape[1] - 1
        before, after = self.told[job, whole], self.told[job, np.minimum(whole + 1, last)]
        told: Floats = before + (moment - whole) * (after - before)
        return told


def tallied(where: Ints, amounts: Floats, shape: tuple[int, ...]) -> Floats:
    """Amounts added up by place; places are numbered through the whole shape."""
    return cast("Floats", np.bincount(where.ravel(), amounts.ravel(), prod(shape)).reshape(shape))


@lru_cache(maxsize=8)
def numbers_of_pairs(count: int) -> Ints:
    """Every two brokers have a number, whichever comes first."""
    numbers = np.zeros((count, count), dtype=np.int64)
    first, second = np.triu_indices(count, 1)
    numbers[first, second] = numbers[second, first] = np.arange(len(first))
    return numbers


def _lengths(mine: Floats, begun: Floats, ended: Floats) -> Floats:
    """[stay, viewer, other]: how much there is from the later of two beginnings to the end."""
    found = np.maximum(mine[:, :, None], begun[:, None, :])
    np.subtract(ended[:, None, :], found, out=found)
    np.maximum(found, 0.0, out=found)
    return found


@lru_cache(maxsize=8)
def _beside(size: int) -> Floats:
    """[viewer, pair of members]: 1 if the viewer is neither of them."""
    pairs = np.stack(np.triu_indices(size, 1))
    neither: Floats = (pairs[None, :, :] != np.arange(size)[:, None, None]).all(axis=1).astype(float)
    return neither


@lru_cache(maxsize=TRAFFICS_REMEMBERED)
def traffic_of(setting: Setting, seed: int) -> Traffic:
    eras = eras_of(setting, seed)
    stays = stays_of(setting, seed, eras)
    told = _told(setting, events_of(setting, seed))
    per_slot = np.diff(told, axis=1)
    consumed = np.zeros((setting.brokers, setting.slots + 1))
    for stay in stays:
        slots = slice(stay.start, stay.end)
        consumed[list(stay.members), stay.start + 1 : stay.end + 1] += per_slot[stay.job, slots]
    job, start, end = (np.array([stay[i] for stay in stays], dtype=np.int64) for i in range(3))
    members = np.array([stay.members for stay in stays], dtype=np.int64)
    return Traffic(setting, tuple(eras), job, start, end, members, told, consumed.cumsum(axis=1))


def _told(setting: Setting, events: Sequence[Sequence[float]]) -> Floats:
    """[job, slot]: how many events before the slot."""
    bounds = np.arange(setting.slots + 1) * float(TICKS_PER_SLOT)
    return np.stack([np.searchsorted(np.array(times), bounds) for times in events]).astype(float)
