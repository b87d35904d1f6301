"""Spans of time at many places, in two sorted arrays: quick to join, to look up and to count.

A moment is a place and a time in one integer, place · 2⁴⁴ + nanoseconds. So moments of one place lie beside each other
in order of time, and sorting and bisecting whole arrays does for all places at once what a loop would do for each.
Times are whole nanoseconds: nothing is rounded, and ties are ties.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

TIME_BITS = 44  # nearly five hours in nanoseconds
PLACES_MAX = 1 << (63 - TIME_BITS)
TIME = (1 << TIME_BITS) - 1
SECOND = 1_000_000_000

Whole: TypeAlias = NDArray[np.int64]  # places, times or moments
Yes: TypeAlias = NDArray[np.bool_]


class Spans(NamedTuple):
    """From the start, up to but without the end. Sorted; those of one place do not touch."""

    starts: Whole  # moments
    ends: Whole  # moments of the same places


def moments(places: Whole, times: Whole) -> Whole:
    return (places << TIME_BITS) + times


def times_of(at: Whole) -> Whole:
    return at & TIME


def places_of(at: Whole) -> Whole:
    return at >> TIME_BITS


def joined(starts: Whole, ends: Whole) -> Spans:
    """What these spans cover together: where one begins before another ends, both are one.

    The i-th to begin stands apart from all before it if by then i of them have ended, whichever these are: so starts
    and ends are sorted each by themselves, and which belong together need not be known.
    """
    if not starts.size:
        return Spans(starts, ends)
    starts, ends = np.sort(starts), np.sort(ends)
    apart = starts[1:] > ends[:-1]
    return Spans(starts[np.concatenate(([True], apart))], ends[np.concatenate((apart, [True]))])


def which(spans: Spans, at: Whole) -> Whole:
    """The number of the last span that begins by then; -1 where there is none. It may have ended, or lie elsewhere."""
    return np.searchsorted(spans.starts, at, side="right") - 1


def is_within(spans: Spans, at: Whole) -> Yes:
    if not spans.starts.size:
        return np.zeros(at.shape, dtype=np.bool_)
    last = which(spans, at)
    return np.asarray((last >= 0) & (spans.ends[last] > at))


def count_between(at: Whole, low: int, high: int) -> int:
    """How many of these moments are in the window from `low` up to `high`, times of every place."""
    times = times_of(at)
    return int(np.count_nonzero((times >= low) & (times < high)))


def seconds_within(spans: Spans, low: int, high: int) -> float:
    """How long they last within the window, all together."""
    starts, ends = clipped(spans, low, high)
    return float(np.sum(ends - starts)) / SECOND


def clipped(spans: Spans, low: int, high: int) -> tuple[Whole, Whole]:
    """Times within the window; a span that lies outside is empty."""
    return np.clip(times_of(spans.starts), low, high), np.clip(times_of(spans.ends), low, high)
