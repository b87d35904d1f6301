"""Common events of brokers' caches, by flows.

A cache holds a broker's latest events, since a time that depends on its rate. A broker compares its own cache with
those that others broadcast last, in this slot or the one before. The common events of a stay of a job are those from
the latest beginning to the earliest end. So a beginning and an end per stay and member suffice for all pairs and
triples of brokers (`in_common`); tests compare with single events.

Few triples of a hundred brokers have a stay in common: only those are stored (`Stays.triple_places`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from pleach.lab.improve.setting import Bools, Floats, Ints
from pleach.lab.improve.traffic import Traffic, tallied

SLOTS_AHEAD = 8  # slots for which stays are selected and places numbered at once
NO_PLACE = 0  # of triples without common events
NOTHING = np.zeros((0, 0))
NOWHERE = np.zeros((0, 0), dtype=np.int64)


class Common(NamedTuple):
    """I of all pairs and triples of brokers, as the first of them sees it."""

    pairs: Floats
    triples: Floats  # [place]
    places: Ints  # [viewer, number of the pair]

    def of_two(self, viewer: Ints, other: Ints) -> Floats:
        found: Floats = self.pairs.take(viewer * len(self.pairs) + other)
        return found

    def pair(self, one: Ints, other: Ints) -> Ints:
        """Its number."""
        found: Ints = numbers_of_pairs(len(self.pairs)).take(one * len(self.pairs) + other)
        return found

    def of_two_and(self, viewer: Ints, pair: Ints) -> Floats:
        found: Floats = self.triples.take(self.places.take(viewer * self.places.shape[1] + pair))
        return found


class Caches:
    """The caches of all brokers in one run; slots and `told_at` only grow."""

    def __init__(self, traffic: Traffic, since: Floats) -> None:
        """`since`: by `Traffic.remembered_since`."""
        self._traffic, self._since = traffic, since
        self._lengths = Lengths(Stays(traffic, np.arange(0)))
        self._chosen_until = 0

    def in_common(self, slot: int, told_at: Ints, *, up_to: int = 3) -> Common:
        """`told_at`: the slot in which each broker broadcast its cache last; `up_to`: size of broker sets."""
        if not up_to:
            return Common(NOTHING, NOTHING, NOWHERE)
        if slot >= self._chosen_until:
            self._chosen_until = slot + SLOTS_AHEAD
            self._lengths = Lengths(self._remembered(told_at))
        stays = self._lengths.stays
        self._lengths.renew(self._kept(stays, slot, told_at), up_to)
        pairs = tallied(stays.pair_places, self._lengths.of_pairs, (self._traffic.setting.brokers,) * 2)
        np.fill_diagonal(pairs, 0.0)
        if up_to == 2:
            return Common(pairs, NOTHING, NOWHERE)
        of_stays, of_brokers, in_all = stays.triple_places
        triples = tallied(of_stays, self._lengths.of_threes, (in_all,))
        triples[NO_PLACE] = 0.0
        return Common(pairs, triples, of_brokers)

    def _remembered(self, told_at: Ints) -> Stays:
        """The stays that two brokers may have in common until the next selection."""
        traffic = self._traffic
        second = np.sort(self._since[traffic.members, told_at[traffic.members]], axis=1)[:, :2].max(axis=1)
        return Stays(traffic, np.flatnonzero((traffic.start < self._chosen_until) & (traffic.end > second)))

    def _kept(self, stays: Stays, slot: int, told_at: Ints) -> Kept:
        told = told_at[stays.members]
        return Kept(
            stays.told_before(self._since[stays.members, slot]),
            stays.told_before(self._since[stays.members, told]),
            stays.told_before_slot(told),
        )


class Kept(NamedTuple):
    """[stay, member]: events of a job before the first, and up to the last, in a cache."""

    mine: Floats  # before the first in its own cache, now
    begun: Floats  # before the first of the broadcast cache
    ended: Floats  # up to the last of the broadcast cache


class Lengths:
    """Common events of each stay per pair and triple of members; recomputed only where they change."""

    def __init__(self, stays: Stays) -> None:
        self.stays = stays
        count, size = stays.members.shape
        self.of_pairs = np.empty((count, size, size))  # [stay, viewer, other]
        self.of_threes = np.empty((count, size, size * (size - 1) // 2))  # [stay, viewer, two others]
        self._kept = Kept(*np.full((3, count, size), np.nan))

    def renew(self, kept: Kept, up_to: int) -> None:
        changed = np.any([(now != then).any(axis=1) for now, then in zip(kept, self._kept, strict=True)], axis=0)
        mine, begun, ended = (each[changed] for each in kept)
        self.of_pairs[changed] = _lengths(mine, begun, ended)
        if up_to > 2:
            one, other = _pairs(begun.shape[1])
            begun, ended = np.maximum(begun[:, one], begun[:, other]), np.minimum(ended[:, one], ended[:, other])
            self.of_threes[changed] = _lengths(mine, begun, ended)
        self._kept = kept


class Places(NamedTuple):
    """Indexes of triples of brokers that have a stay in common."""

    of_stays: Ints  # [stay, viewer, pair of members]
    of_brokers: Ints  # [viewer, number of the pair]
    in_all: int


@dataclass(frozen=True)
class Stays:
    """Some stays of a run."""

    traffic: Traffic
    numbers: Ints

    @cached_property
    def members(self) -> Ints:
        found: Ints = self.traffic.members[self.numbers]
        return found

    @cached_property
    def pair_places(self) -> Ints:
        """[stay, viewer, other]."""
        found: Ints = self.members[:, :, None] * self.traffic.setting.brokers + self.members[:, None, :]
        return found

    @cached_property
    def triple_places(self) -> Places:
        count, size = self.traffic.setting.brokers, self.members.shape[1]
        one, other = _pairs(size)
        pairs = numbers_of_pairs(count)[self.members[:, one], self.members[:, other]]
        beside = count * (count - 1) // 2
        where = self.members[:, :, None] * beside + pairs[:, None, :]
        places = np.zeros(count * beside, dtype=np.int64)
        places[where[:, _is_beside(size)]] = 1
        taken = np.flatnonzero(places)
        places[taken] = np.arange(NO_PLACE + 1, NO_PLACE + 1 + len(taken))
        return Places(places[where], places.reshape(count, beside), NO_PLACE + 1 + len(taken))

    @cached_property
    def _columns(self) -> tuple[Ints, Ints, Ints]:
        """Job, start and end of each."""
        job, start, end = (
            each[self.numbers][:, None] for each in (self.traffic.job, self.traffic.start, self.traffic.end)
        )
        return job, start, end

    def told_before_slot(self, slot: Ints) -> Floats:
        """Events of each stay's job before a slot within the stay."""
        job, start, end = self._columns
        found: Floats = self.traffic.told[job, np.clip(slot, start, end)]
        return found

    def told_before(self, moment: Floats) -> Floats:
        """The same for a time within a slot, by linear interpolation."""
        told, (job, start, end) = self.traffic.told, self._columns
        moment = np.clip(moment, start, end)
        whole = moment.astype(np.int64)
        before, after = told[job, whole], told[job, np.minimum(whole + 1, told.shape[1] - 1)]
        found: Floats = before + (moment - whole) * (after - before)
        return found


@lru_cache(maxsize=8)
def numbers_of_pairs(count: int) -> Ints:
    """A number for each unordered pair of brokers."""
    numbers = np.zeros((count, count), dtype=np.int64)
    first, second = np.triu_indices(count, 1)
    numbers[first, second] = numbers[second, first] = np.arange(len(first))
    return numbers


def _lengths(mine: Floats, begun: Floats, ended: Floats) -> Floats:
    """[stay, viewer, other]: events from the later of two beginnings to the end."""
    found = np.maximum(mine[:, :, None], begun[:, None, :])
    np.subtract(ended[:, None, :], found, out=found)
    np.maximum(found, 0.0, out=found)
    return found


@lru_cache(maxsize=8)
def _pairs(size: int) -> tuple[Ints, Ints]:
    """All pairs of members."""
    one, other = np.triu_indices(size, 1)
    return one, other


@lru_cache(maxsize=8)
def _is_beside(size: int) -> Bools:
    """[viewer, pair of members]: whether the viewer is neither of them."""
    pairs = np.stack(_pairs(size))
    neither: Bools = (pairs[None, :, :] != np.arange(size)[:, None, None]).all(axis=1)
    return neither
