"""A gap is a time in which something is owed and nothing comes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.demo.verdict import NO_GAP, Gap, gaps, longest, longest_of_all, spoken
from pleach.trace import Record, RecordKind


def trace(*told):
    """Rows of (at, kind, client, event), as p and d."""
    kinds = {"p": RecordKind.PUBLISH, "d": RecordKind.DELIVER}
    return [Record("r", at, client, n, kinds[kind], event) for n, (at, kind, client, event) in enumerate(told)]


def test_silence_is_no_gap_where_nothing_was_published():
    found = gaps(trace((1.0, "p", "x", "e1"), (1.1, "d", "s", "e1"), (9.0, "p", "x", "e2"), (9.2, "d", "s", "e2")))
    assert [gap.seconds for gap in found] == pytest.approx([0.1, 0.2])


def test_whoever_gets_something_else_meanwhile_has_a_shorter_gap():
    waited = [(1.0, "p", "x", "e1"), (5.0, "d", "s", "e1")]
    assert longest_of_all(gaps(trace(*waited))) == Gap(1.0, 5.0, "s")
    other = [(1.0, "p", "x", "e1"), (2.0, "p", "y", "e2"), (3.0, "d", "s", "e2"), (5.0, "d", "s", "e1")]
    assert gaps(trace(*other)) == [Gap(1.0, 3.0, "s"), Gap(3.0, 5.0, "s")]


def test_everybody_waits_for_themselves():
    found = gaps(trace((0.0, "p", "x", "e"), (1.0, "d", "t", "e"), (4.0, "d", "s", "e")))
    assert found == [Gap(0.0, 4.0, "s"), Gap(0.0, 1.0, "t")]


def test_a_gap_belongs_where_most_of_it_lies():
    long, short = Gap(0.9, 3.0, "s"), Gap(0.2, 0.4, "t")
    assert longest([long, short], [(0.0, 1.0), (1.0, 4.0)]) == [short, long]
    assert longest([long], [(5.0, 6.0)]) == [NO_GAP]
    assert longest_of_all([]) == NO_GAP


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), max_size=20))
def test_the_gaps_of_one_client_do_not_overlap_and_cover_every_wait(events):
    """Whatever is published and not delivered yet, somebody waits for."""
    spans = [(start, start + length) for start, length in events]
    told = [(at, "p", "x", f"e{i}") for i, (at, _) in enumerate(spans)]
    told += [(at, "d", "s", f"e{i}") for i, (_, at) in enumerate(spans)]
    found = gaps(trace(*sorted(told, key=lambda row: (row[0], row[1] == "d"))))
    assert all(a.ended_at <= b.began_at for a, b in pairwise(found))
    for start, end in spans:
        assert start == end or any(gap.began_at <= start < gap.ended_at for gap in found)


def test_short_times_are_told_in_milliseconds():
    assert (spoken(0.0804), spoken(5.491)) == ("80 ms", "5.49 s")
