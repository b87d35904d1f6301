"""The contract of all routing policies (S1 §2.2.3, decision 2).

A policy stands twice: as `reduce`, a pure function of a set of entries, and as a row of stages that follow changes of
the set. The two must agree after any history, and what is left must match the same events as what came in.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.core.events.language import parse_filter
from pleach.core.routing.entries import Change, Entry
from pleach.core.routing.policies import POLICIES
from support.thorough import FACTOR

EXAMPLES = 40 * FACTOR
PRICES = 12
OWNERS = ("ann", "bob", "cy", "dee")
BOUNDS = (0.0, 0.3)
EXACT = [name for name, policy in POLICIES.items() if not policy.floods]
ROUTED = [(name, 0.0) for name in EXACT] + [("merging", 0.3), ("merging", 0.9)]

# Every event of a domain small enough to be listed: None stands for an attribute that is not there.
EVENTS = [
    {name: value for name, value in (("price", price), ("topic", topic), ("lot", lot)) if value is not None}
    for price, topic, lot in product(
        (None, *(n / 2 for n in range(-1, 2 * PRICES + 2))), (None, "ab", "abc", "b", "z"), (None, 1, 2)
    )
]


@st.composite
def price_ranges(draw):
    low = draw(st.integers(0, PRICES - 1))
    high = draw(st.integers(low, PRICES))
    return draw(
        st.sampled_from(
            (
                f"price BETWEEN {low} AND {high}",
                f"price >= {low} AND price < {high + 1}",
                f"price > {low}",
                f"price <= {high}",
                f"price IN ({low}, {high})",
                f"NOT price = {low}",
                "EXISTS price",
            )
        )
    )


TOPICS = st.sampled_from(
    ("topic = 'ab'", "topic = 'b'", "topic IN ('ab', 'b')", "topic LIKE 'ab%'", "topic LIKE '%b%'", "EXISTS topic")
)
LOTS = st.sampled_from(("lot = 1", "lot = 2", "lot <= 2", "NOT EXISTS lot"))


@st.composite
def conjunctions(draw):
    parts = draw(st.lists(st.one_of(price_ranges(), price_ranges(), TOPICS, LOTS), min_size=1, max_size=3))
    return " AND ".join(f"({part})" for part in parts)


FILTERS = st.one_of(
    price_ranges(), conjunctions(), conjunctions(), st.builds("{} OR {}".format, conjunctions(), conjunctions())
).map(parse_filter)
ENTRIES = st.builds(Entry, st.sampled_from(OWNERS), FILTERS)
SETS = st.frozensets(ENTRIES, max_size=10)


@st.composite
def histories(draw):
    """Sets of entries, one after the other; neighbours in the row differ by a few entries of one pool.

    A pool makes entries leave and come again, and gives equal filters to several owners.
    """
    filters = draw(st.lists(FILTERS, min_size=1, max_size=7))
    pool = [Entry(owner, wanted) for wanted in filters for owner in OWNERS[: draw(st.integers(1, len(OWNERS)))]]
    toggles = draw(st.lists(st.frozensets(st.sampled_from(pool), min_size=1, max_size=4), max_size=12))
    row = [frozenset()]
    for toggled in toggles:
        row.append(row[-1] ^ toggled)
    return row


class Incremental:
    """A row of stages, with its output kept as a set and every change checked on the way."""

    def __init__(self, name: str, bound: float) -> None:
        self._stages = POLICIES[name].stages(bound)
        self.output: frozenset[Entry] = frozenset()

    def follow(self, before: frozenset[Entry], after: frozenset[Entry]) -> None:
        change = Change(tuple(sorted(after - before)), tuple(sorted(before - after)))
        for stage in self._stages:
            change = stage.apply(change)
        added, removed = frozenset(change.added), frozenset(change.removed)
        assert len(added) == len(change.added), "added twice"
        assert len(removed) == len(change.removed), "removed twice"
        assert not added & removed, "added and removed in one change"
        assert not added & self.output, "added what was there"
        assert removed <= self.output, "removed what was not there"
        self.output = self.output - removed | added


def matched(entries: Iterable[Entry]) -> set[int]:
    """The numbers of the events that any of the entries matches."""
    filters = {entry.filter for entry in entries}
    return {i for i, event in enumerate(EVENTS) if any(wanted.matches(event) for wanted in filters)}


@pytest.mark.parametrize(("name", "bound"), ROUTED)
@settings(max_examples=EXAMPLES, deadline=None)
@given(row=histories())
def test_the_stages_equal_the_pure_function_after_every_change(name, bound, row):
    """Decision 2: a change of the table turns into the difference between two exports."""
    incremental = Incremental(name, bound)
    for before, after in pairwise(row):
        incremental.follow(before, after)
        assert incremental.output == POLICIES[name].reduce(after, bound)


@pytest.mark.parametrize(("name", "bound"), ROUTED)
@settings(max_examples=EXAMPLES, deadline=None)
@given(entries=SETS, data=st.data())
def test_the_order_of_arrival_does_not_matter(name, bound, entries, data):
    """One by one in any order, or all at once, or by way of a larger set: the same set gives the same export."""
    whole, one_by_one, detour = (Incremental(name, bound) for _ in range(3))
    whole.follow(frozenset(), entries)
    known: frozenset[Entry] = frozenset()
    for entry in data.draw(st.permutations(sorted(entries))):
        one_by_one.follow(known, known | {entry})
        known |= {entry}
    larger = entries | data.draw(SETS)
    detour.follow(frozenset(), larger)
    detour.follow(larger, entries)
    assert whole.output == one_by_one.output == detour.output == POLICIES[name].reduce(sorted(entries), bound)


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=EXAMPLES, deadline=None)
@given(entries=SETS)
def test_nothing_is_lost_and_nothing_is_added(name, entries):
    """S1 §2.2.3: advanced routing leaves out entries, never events; perfect merging matches exactly the union."""
    assert matched(POLICIES[name].reduce(entries, 0.0)) == matched(entries)


@pytest.mark.parametrize("bound", [0.3, 0.9])
@settings(max_examples=EXAMPLES, deadline=None)
@given(entries=SETS)
def test_imperfect_merging_matches_a_superset(bound, entries):
    """S1 §2.2.3: "… or it covers a superset of those notifications (imperfect merging)"."""
    assert matched(POLICIES["merging"].reduce(entries, bound)) >= matched(entries)


@settings(max_examples=EXAMPLES, deadline=None)
@given(entries=SETS)
def test_each_policy_leaves_at_most_as_much_as_the_simpler_one(entries):
    sizes = [len(POLICIES[name].reduce(entries, 0.0)) for name in ("merging", "covering", "identity", "simple")]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=EXAMPLES, deadline=None)
@given(entries=SETS)
def test_what_is_reduced_is_not_reduced_further(name, entries):
    """What comes over a link is reduced already: passing it on alone changes nothing.

    Not so for imperfect merging: closing a gap makes room for closing more of them.
    """
    once = POLICIES[name].reduce(entries, 0.0)
    assert POLICIES[name].reduce(once, 0.0) == once


def test_simple_keeps_owners_and_identity_does_not():
    wanted = parse_filter("price > 3")
    entries = {Entry("ann", wanted), Entry("bob", wanted)}
    assert POLICIES["simple"].reduce(entries, 0.0) == entries
    assert POLICIES["identity"].reduce(entries, 0.0) == {Entry("", wanted)}


def test_identity_knows_filters_by_meaning():
    """S1 §2.2.3: f1 and f2 are identical if N(f1) = N(f2); spelling does not count."""
    spellings = ("price >= 3 AND price <= 7", "price BETWEEN 3 AND 7", "NOT (price < 3 OR price > 7)")
    entries = [Entry(f"owner{i}", parse_filter(text)) for i, text in enumerate(spellings)]
    assert len(POLICIES["identity"].reduce(entries, 0.0)) == 1


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_merger_comes_apart_again(bound):
    """Three ranges become one filter; without the middle one, two are told again what they are."""
    low, middle, high = (Entry(t, parse_filter(f"price BETWEEN {t}")) for t in ("0 AND 2", "2 AND 8", "8 AND 9"))
    incremental = Incremental("merging", bound)
    incremental.follow(frozenset(), frozenset({low, middle, high}))
    assert incremental.output == {Entry("", parse_filter("price BETWEEN 0 AND 9"))}
    incremental.follow(frozenset({low, middle, high}), frozenset({low, high}))
    assert matched(incremental.output) == matched({low, high})


def test_flooding_tells_nothing():
    assert POLICIES["flooding"].reduce([Entry("ann", parse_filter("price > 3"))], 0.0) == frozenset()
    assert [name for name, policy in POLICIES.items() if policy.floods] == ["flooding"]
