"""`pleach bench fill`: its figures, and one fill through processes."""

from __future__ import annotations

import asyncio
import os

from pleach.bench import BENCHES, fill
from pleach.bench.fill import Confirmed, FillSize, ProcessMemory, Span, longest_gap

EVENTS = [Confirmed(0.0, 0.5), Confirmed(1.0, 1.25), Confirmed(2.0, 5.0), Confirmed(9.0, 9.5)]


def test_a_span_counts_confirmations_and_the_waits_of_events_that_were_due_in_it():
    assert Span.between(0.0, 4.0, EVENTS) == Span(rate=0.5, p99=3.0)
    assert Span.between(3.0, 4.0, EVENTS) == Span(rate=0.0, p99=0.0)


def test_the_longest_gap_includes_the_ends():
    assert longest_gap(0.0, 10.0, EVENTS) == 4.5
    assert longest_gap(5.5, 8.5, EVENTS) == 3.0
    assert longest_gap(1.0, 3.0, EVENTS) == 1.75


def test_the_memory_of_a_process_has_a_peak_that_can_be_forgotten():
    memory = ProcessMemory(os.getpid())
    assert 0 < memory.now <= memory.peak
    memory.forget_peak()
    assert memory.peak >= memory.now // 2


def test_a_machine_is_destroyed_and_another_one_filled_while_events_flow():
    (story,) = asyncio.run(fill._stories(2, (200,), FillSize(1, 0.5)))
    assert story.seconds > 0
    assert story.size > 1_000_000
    assert story.stall > fill.AFTER_SECONDS / 2  # with two copies nothing is confirmed meanwhile
    rows = list(story.measurements("here"))
    assert len({row.case for row in rows}) == len(rows)
    assert all(row.value > 0 for row in rows if "meanwhile" not in row.case)


def test_it_is_registered():
    assert "fill" in BENCHES
