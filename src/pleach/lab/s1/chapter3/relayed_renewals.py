"""Renewals as printed in S1 §3.3, in the setting of `class_filtering.py`: from clients through brokers to the root.

Clients renew every ρ after their arrival. All brokers tick together every π, which clears the flags of all entries. A
subscription or renewal sets the flag of its entry, and is forwarded to the parent if no other entry of its class has
the flag. So a broker sends a message whenever its first flag of a class is set, and the union of spans that gives the
times of entries also gives the times of flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pleach.lab.s1.chapter3.class_filtering import FilteringTree, Subscriptions, Window
from pleach.lab.s1.chapter3.spans import Spans, Whole, count_between, joined, moments, times_of, which


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
