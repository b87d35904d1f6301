"""A simulation of filtering with leases in a complete tree, by classes: 500,000 subscriptions in a second (S1 §3.3.3).

Clients at the leaves subscribe to one of z classes that exclude each other, and leave again. Routing is hierarchical
and identity-based. So the state of a broker is the times at which its parent has an entry of a class:

    subscriptions at a leaf     ├────┤    ├──────┤            ├─┤
                                   ├────────┤
    told by the leaf            ├────────────────┤            ├─┤
    told by its sibling              ├──────────────────┤
    told by their parent         ├──────────────────────┤      ├─┤     the union, one hop later

The spans of a broker follow from those of its children or clients, level by level up to the root, with the delay of a
hop each time; each begin and each end of a span is a message. Nothing is computed from probabilities or taken from
`pleach.model`, with which the results are compared. tests/lab/test_filtering.py runs the same subscriptions in the
simulator with real brokers: the messages are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pleach.errors import InvalidInputError
from pleach.lab.s1.chapter3.spans import (
    PLACES_MAX,
    SECOND,
    TIME,
    Spans,
    Whole,
    clipped,
    count_between,
    is_within,
    joined,
    moments,
    places_of,
    seconds_within,
    times_of,
    which,
)
from pleach.model.complete import CompleteTree

HOP = 25_000_000  # δ, ns: S1 §3.3.3


@dataclass(frozen=True)
class FilteringTree(CompleteTree):
    """With classes. Brokers are numbered level by level, the root is 0; a place is a broker and a class."""

    fanout: int = 3
    levels: int = 5
    classes: int = 1000

    def __post_init__(self) -> None:
        if min(self.fanout, self.levels - 1, self.classes) < 1:
            raise InvalidInputError(f"{self}: two levels at least, and 1 or more of the others")
        if self.brokers * self.classes >= PLACES_MAX:
            raise InvalidInputError(f"{self}: more than {PLACES_MAX:,} pairs of a broker and a class")

    @property
    def first_leaf(self) -> int:
        return self.brokers - self.leaves

    def parent(self, brokers: Whole) -> Whole:
        return (brokers - 1) // self.fanout

    def children(self, brokers: Whole) -> Whole:
        """A row for each."""
        return brokers[:, None] * self.fanout + 1 + np.arange(self.fanout)

    def places(self, brokers: Whole, classes: Whole) -> Whole:
        return brokers * self.classes + classes

    def heard(self, sent: Whole) -> Whole:
        """Moments at which brokers send, as moments at which their parents receive: one level up, one hop later."""
        brokers, classes = np.divmod(places_of(sent), self.classes)
        return moments(self.places(self.parent(brokers), classes), times_of(sent) + HOP)


class Window(NamedTuple):
    """What is counted, in nanoseconds from the start of a run."""

    low: int
    high: int

    @property
    def seconds(self) -> float:
        return (self.high - self.low) / SECOND


# The load -------------------------------------------------------------------------------------------------------


class Subscriptions(NamedTuple):
    """One in each row. `since`: when it arrived, maybe long before the run; `begins` is 0 then. All ends are known."""

    leaf: Whole
    wanted: Whole  # class
    since: Whole  # ns
    begins: Whole
    ends: Whole


class Publications(NamedTuple):
    leaf: Whole
    about: Whole  # class
    at: Whole  # ns


def draw_subscriptions(
    draw: np.random.Generator, setting: FilteringTree, active: int, lifetime: float, until: int
) -> Subscriptions:
    """So many are there at the start, others come and go, all memoryless: an equilibrium from the first moment on.

    S1 §3.3.3: arrivals are exponential, leaf and class of each are drawn, its lifetime is exponential.
    """
    assert 0 < until <= TIME
    arriving = draw.poisson(active / lifetime * until / SECOND)
    count = active + arriving
    since = np.concatenate(
        (-_nanoseconds(draw.exponential(lifetime, active)), np.sort(draw.integers(0, until, arriving)))
    )
    begins = np.maximum(since, 0)
    ends = np.minimum(begins + _nanoseconds(draw.exponential(lifetime, count)) + 1, until)
    leaf = setting.first_leaf + draw.integers(0, setting.leaves, count)
    return Subscriptions(leaf, draw.integers(0, setting.classes, count), since, begins, ends)


def draw_publications(draw: np.random.Generator, setting: FilteringTree, rate: float, window: Window) -> Publications:
    count = draw.poisson(rate * window.seconds)
    leaf = setting.first_leaf + draw.integers(0, setting.leaves, count)
    return Publications(leaf, draw.integers(0, setting.classes, count), draw.integers(window.low, window.high, count))


def _nanoseconds(seconds: NDArray[np.float64]) -> Whole:
    return (seconds * SECOND).astype(np.int64)


# What brokers tell ----------------------------------------------------------------------------------------------


def told(setting: FilteringTree, subscriptions: Subscriptions) -> list[Spans]:
    """By the brokers of each level but the root, leaves first: when each is one that wants a class."""
    places = setting.places(subscriptions.leaf, subscriptions.wanted)
    levels = [joined(moments(places, subscriptions.begins), moments(places, subscriptions.ends))]
    while len(levels) < setting.levels - 1:
        below = levels[-1]
        levels.append(joined(setting.heard(below.starts), setting.heard(below.ends)))
    return levels


def changes(spans: Spans, window: Window) -> int:
    """Subscriptions and unsubscriptions that these brokers send to their parents."""
    return count_between(spans.starts, *window) + count_between(spans.ends, *window)


def entries(levels: Sequence[Spans], window: Window) -> float:
    """Remote routing entries, on average over the window."""
    return sum(seconds_within(spans, *window) for spans in levels) / window.seconds


def renewals(setting: FilteringTree, levels: Sequence[Spans], phases: Whole, refresh: int, window: Window) -> int:
    """Each broker tells its parent again all that it has told, every `refresh`; `phases`: when first, by broker."""
    total = 0
    for spans in levels:
        phase = phases[places_of(spans.starts) // setting.classes]
        starts, ends = clipped(spans, *window)
        total += int(np.sum((ends - 1 - phase) // refresh - (starts - 1 - phase) // refresh))
    return total


def crowds(setting: FilteringTree, subscriptions: Subscriptions, at: int) -> Whole:
    """How many leaves and classes have 0, 1, 2 … subscriptions at a time."""
    active = (subscriptions.begins <= at) & (subscriptions.ends > at)
    places = setting.places(subscriptions.leaf[active] - setting.first_leaf, subscriptions.wanted[active])
    return np.bincount(np.bincount(places, minlength=setting.leaves * setting.classes))


# Where events go ------------------------------------------------------------------------------------------------


class EventTraffic(NamedTuple):
    """Messages of all events together. `detour`: over links to a parent that has no entry for the child."""

    hops: int
    detour: int


class _Copies(NamedTuple):
    """Events at brokers: each has come to `broker` at a time, from `came_from` (0, the root, means none)."""

    broker: Whole
    about: Whole
    at: Whole
    came_from: Whole


def carried(setting: FilteringTree, levels: Sequence[Spans], published: Publications) -> EventTraffic:
    """Every event goes up to the root; each broker on the way, and below, sends it to the children that want it."""
    by_all = _of_all_brokers(levels)
    order = np.argsort(
        setting.places(published.leaf, published.about)
    )  # those that look beside each other do so in turn
    leaf, about, at = (column[order] for column in published)
    climbing = _Copies(leaf, about, at, np.zeros_like(leaf))
    hops = detour = 0
    for height in range(setting.levels):
        hops += _sent_down(setting, by_all, climbing)
        if height == setting.levels - 1:
            break
        here = setting.places(climbing.broker, climbing.about)
        hops += here.size
        detour += here.size - int(np.count_nonzero(is_within(by_all, moments(here, climbing.at))))
        above = setting.parent(climbing.broker)
        climbing = _Copies(above, climbing.about, climbing.at + HOP, climbing.broker)
    return EventTraffic(hops, detour)


def _of_all_brokers(levels: Sequence[Spans]) -> Spans:
    """Higher brokers have lower numbers: the levels stand in order already."""
    top_down = levels[::-1]
    return Spans(*(np.concatenate([spans[end] for spans in top_down], dtype=np.int64) for end in (0, 1)))


def _sent_down(setting: FilteringTree, told_by_all: Spans, copies: _Copies) -> int:
    """Messages to children, and to their children, without the one that an event came from."""
    hops = 0
    while copies.broker.size and copies.broker[0] < setting.first_leaf:  # all are of one level
        children = setting.children(copies.broker)
        places = setting.places(children, copies.about[:, None])
        wanted = is_within(told_by_all, moments(places, copies.at[:, None] - HOP))
        wanted &= children != copies.came_from[:, None]
        hops += int(np.count_nonzero(wanted))
        row = np.nonzero(wanted)[0]
        copies = _Copies(children[wanted], copies.about[row], copies.at[row] + HOP, np.zeros_like(row))
    return hops


# Renewals as printed in S1 §3.3, from clients through brokers to the root ---------------------------------------------
#
# Clients renew every ρ after their arrival. All brokers tick together every π, which clears the flags of all entries. A
# subscription or renewal sets the flag of its entry, and is forwarded to the parent if no other entry of its class has
# the flag. So a broker sends a message whenever its first flag of a class is set, and the union of spans that gives the
# times of entries also gives the times of flags.


class RenewalPeriods(NamedTuple):
    """In nanoseconds."""

    refresh: int  # ρ
    period: int  # π
    tick: int  # one of those at which all brokers tick

    def next_tick(self, at: Whole) -> Whole:
        """The moment of the next tick at that place; a tick comes before what happens at the same time."""
        since = (times_of(at) - self.tick) % self.period
        return at - since + self.period


def relayed(
    setting: FilteringTree, subscriptions: Subscriptions, levels: Sequence[Spans], lease: RenewalPeriods, seen: Window
) -> int:
    """Renewals that brokers send on. `levels`: what they have told. At the start of the run all flags are set."""
    flags = _flags_at_leaves(setting, subscriptions, lease, seen.high)
    total = 0
    for place, spans in enumerate(levels):
        if not flags.starts.size:
            break
        entry = which(spans, flags.starts)
        again = flags.starts[spans.starts[entry] < flags.starts]  # else it is the first time, and no renewal
        total += count_between(again, *seen)
        if place < len(levels) - 1:  # the flag goes with the entry
            flags = _flagged(setting.heard(flags.starts), setting.heard(spans.ends[entry]), lease)
    return total


def _flagged(set_at: Whole, entry_ends: Whole, lease: RenewalPeriods) -> Spans:
    """When any entry of a class has its flag, by broker and class."""
    return joined(set_at, np.minimum(entry_ends, lease.next_tick(set_at)))


def _flags_at_leaves(setting: FilteringTree, subscriptions: Subscriptions, lease: RenewalPeriods, until: int) -> Spans:
    """Each subscription is an entry of its own at its leaf: it sets its flag when it begins and when it is renewed."""
    places = setting.places(subscriptions.leaf, subscriptions.wanted)
    whose, renewed_at = _renewed_at(subscriptions, lease.refresh, until)
    set_at = np.concatenate((moments(places, subscriptions.begins), moments(places[whose], renewed_at)))
    ends = moments(places, subscriptions.ends)
    return _flagged(set_at, np.concatenate((ends, ends[whose])), lease)


def _renewed_at(subscriptions: Subscriptions, refresh: int, until: int) -> tuple[Whole, Whole]:
    """Whose renewals, and when: every `refresh` since it came, while it is there."""
    since = subscriptions.since
    first = (subscriptions.begins - since) // refresh + 1
    count = np.maximum((np.minimum(subscriptions.ends, until) - 1 - since) // refresh + 1 - first, 0)
    whose = np.repeat(np.arange(since.size), count)
    number = np.arange(whose.size) - np.repeat(np.cumsum(count) - count, count)
    return whose, since[whose] + (first[whose] + number) * refresh
