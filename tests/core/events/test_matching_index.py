"""The matching index answers what a loop over `Filter.matches` answers, after every history of changes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.core.events.constraint import ABSENT, ANY, Conjunction, Constraint, Pattern, PatternShape, TypeConstraint
from pleach.core.events.filter import Filter
from pleach.core.events.index import MatchingIndex, clusters, column, grid, placement
from pleach.core.events.index.predicates import Predicate, holds, predicates_of
from pleach.core.events.ranges import NOTHING, above, below, complement, point, union
from support.events.random_filters import random_conjunction, random_event, random_filter
from support.thorough import FACTOR

TRUE = Filter([Conjunction({})])
FALSE = Filter([])


def equals(name: str, value: Any, kind: TypeConstraint = TypeConstraint.NUMBER) -> Filter:
    return Filter([Conjunction({name: Constraint(kind, point(value))})])


class Checked:
    """An index beside a dictionary of what it should hold."""

    def __init__(self) -> None:
        self.index = MatchingIndex()
        self.filters: dict[int, tuple[Filter, str]] = {}

    def add(self, key: int, wanted: Filter, destination: str) -> None:
        self.index.add(key, wanted, destination)
        self.filters[key] = (wanted, destination)

    def remove(self, key: int) -> None:
        self.index.remove(key)
        self.filters.pop(key, None)

    def check(self, event: dict[str, Any]) -> None:
        wanted = {destination for filter_, destination in self.filters.values() if filter_.matches(event)}
        assert self.index.match(event) == wanted, event
        assert len(self.index) == len(self.filters)


@pytest.fixture(params=["limits as they are", "small limits"])
def limits(request, monkeypatch):
    """With small limits every form of cluster, rebuild and forgotten memo comes up within a few entries."""
    if request.param == "small limits":
        monkeypatch.setattr(clusters, "SCAN_MAX", 3)
        monkeypatch.setattr(clusters, "FIELD_MIN", 2)
        monkeypatch.setattr(grid, "GRID_ENTRIES_MAX", 6)
        monkeypatch.setattr(grid, "GRID_SLOTS_MIN", 4)
        monkeypatch.setattr(column, "BUCKETS_MAX", 3)
        monkeypatch.setattr(column, "PATTERN_MEMO_MAX", 2)
        monkeypatch.setattr(placement, "PLACES_MAX", 2)


@pytest.mark.parametrize("seed", range(6 * FACTOR))
def test_equals_a_naive_matcher_through_churn(limits, seed):
    random = Random(seed)
    checked = Checked()
    for _ in range(400):
        for _ in range(random.randrange(4)):
            key = random.randrange(150)
            if random.random() < 0.6:
                checked.add(key, random_filter(random), random.choice("uvwxyz"))
            else:
                checked.remove(key)
        checked.check(random_event(random))


@pytest.mark.parametrize("seed", range(3 * FACTOR))
def test_equals_a_naive_matcher_with_a_destination_for_each_filter(limits, seed):
    """No filter hides behind another of its destination: each has to be found by itself."""
    random = Random(seed)
    checked = Checked()
    for key in range(300):
        checked.add(key, random_filter(random), f"d{key}")
    for _ in range(100):
        checked.check(random_event(random))
    for key in random.sample(range(300), 250):
        checked.remove(key)
        checked.check(random_event(random))


@settings(max_examples=200 * FACTOR, deadline=None)
@given(st.integers(0, 2**32))
def test_a_flat_conjunction_holds_when_it_matches(seed):
    random = Random(seed)
    conjunction = random_conjunction(random)
    event = random_event(random)
    assert holds(predicates_of(conjunction.constraints.items()), event.get) == conjunction.matches(event)


def test_nothing_is_left_when_all_is_removed():
    random = Random(1)
    index = MatchingIndex()
    for key in range(300):
        index.add(key, random_filter(random), "d")
    for key in range(300):
        index.remove(key)
    assert len(index) == 0
    assert not index._nodes
    assert index._root.is_idle
    assert not index._popularity._counts
    assert not index._destinations


@pytest.mark.parametrize("value", [True, 1, 1.0, False, 0, 0.0])
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("number 1", equals("x", 1)),
        ("number 0", equals("x", 0.0)),
        ("true", equals("x", True, TypeConstraint.BOOLEAN)),
        ("false", equals("x", False, TypeConstraint.BOOLEAN)),
    ],
)
def test_booleans_are_not_numbers(name, wanted, value):
    index = MatchingIndex()
    index.add("k", wanted, "d")
    assert bool(index.match({"x": value})) == wanted.matches({"x": value})


def test_true_and_one_live_side_by_side():
    index = MatchingIndex()
    index.add(1, equals("x", 1), "number")
    index.add(2, equals("x", True, TypeConstraint.BOOLEAN), "boolean")
    assert index.match({"x": 1.0}) == {"number"}
    assert index.match({"x": True}) == {"boolean"}
    index.remove(1)
    assert index.match({"x": 1}) == set()
    assert index.match({"x": True}) == {"boolean"}


def test_integers_and_floats_compare_by_value():
    index = MatchingIndex()
    index.add("k", equals("x", 5), "d")
    assert index.match({"x": 5.0}) == {"d"}
    assert index.match({"x": 5.5}) == set()


def test_strings_and_bytes_differ():
    index = MatchingIndex()
    index.add("k", equals("x", b"a", TypeConstraint.BYTES), "d")
    assert index.match({"x": "a"}) == set()
    assert index.match({"x": b"a"}) == {"d"}


def test_the_empty_conjunction_matches_everything_and_the_empty_filter_nothing():
    index = MatchingIndex()
    index.add("all", TRUE, "all")
    index.add("none", FALSE, "none")
    index.add("void", Filter([Conjunction({"x": Constraint(TypeConstraint.NUMBER, NOTHING)})]), "none")
    assert index.match({}) == {"all"}
    assert index.match({"x": 1}) == {"all"}
    assert len(index) == 3


def test_absent_and_any():
    index = MatchingIndex()
    index.add(1, Filter([Conjunction({"x": ABSENT})]), "absent")
    index.add(2, Filter([Conjunction({"x": ANY})]), "any")
    assert index.match({"y": 1}) == {"absent"}
    assert index.match({"x": b""}) == {"any"}


@pytest.mark.parametrize("count", [2, placement.POINTS_MAX, placement.POINTS_MAX + 1, 40])
def test_in_with_many_points(count):
    ranges = point(0)
    for value in range(1, count):
        ranges = union(ranges, point(value))
    wanted = Conjunction(
        {"x": Constraint(TypeConstraint.NUMBER, ranges), "y": Constraint(TypeConstraint.NUMBER, ranges)}
    )
    index = MatchingIndex()
    index.add("k", Filter([wanted]), "d")
    assert all(index.match({"x": v, "y": w}) == {"d"} for v in range(count) for w in range(count))
    assert index.match({"x": count, "y": 0}) == set()
    assert index.match({"x": True, "y": 0}) == set()
    index.remove("k")
    assert index.match({"x": 0, "y": 0}) == set()


def test_adding_under_a_present_key_replaces():
    index = MatchingIndex()
    index.add("k", equals("x", 1), "d")
    index.add("k", equals("x", 2), "e")
    assert index.match({"x": 1}) == set()
    assert index.match({"x": 2}) == {"e"}
    assert len(index) == 1


def test_removing_an_unknown_key_changes_nothing():
    index = MatchingIndex()
    index.add("k", TRUE, "d")
    index.remove("other")
    assert index.match({}) == {"d"}


def test_equal_filters_under_several_keys_are_removed_one_by_one():
    index = MatchingIndex()
    for key in range(30):
        index.add(key, equals("x", 7), "d" if key < 29 else "last")
    for key in range(29):
        index.remove(key)
    assert index.match({"x": 7}) == {"last"}


# What makes it fast -----------------------------------------------------------------------------------------------


def test_the_patterns_of_a_column_are_exact_whenever_they_came():
    """Of those that came with the column, those added since, and for strings that were asked about before."""
    patterns = [Pattern(PatternShape.CONTAINS, text) for text in ("a", "b", "ab", "ba")]
    wanted = [("s", Constraint(TypeConstraint.STRING, patterns=(pattern,))) for pattern in patterns]
    items = [(1 << bit, *predicates_of([each])) for bit, each in enumerate(wanted)]
    found = column.Column(items[:2])
    values = ["", "a", "b", "ab", "ba", "aba"]

    def failing(value: str, count: int) -> int:
        return sum(1 << bit for bit, pattern in enumerate(patterns[:count]) if not pattern.matches(value))

    for count in range(2, len(items) + 1):
        for bit, predicate in items[max(count - 1, 2) : count]:
            found.add(bit, predicate)
        assert [found.failing_patterns(value) for value in values] == [failing(value, count) for value in values]


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        (Constraint(TypeConstraint.NUMBER, point(3)), (3,)),
        (Constraint(TypeConstraint.STRING, point("a")), ("a",)),
        (Constraint(TypeConstraint.NUMBER, union(point(1), point(3))), (1, 3)),
        (Constraint(TypeConstraint.NUMBER, NOTHING), ()),
        (Constraint(TypeConstraint.NUMBER, above(3, inclusive=True)), None),
        (Constraint(TypeConstraint.NUMBER, complement(point(3))), None),
        (ANY, None),
        (ABSENT, None),
    ],
    ids=str,
)
def test_equalities_are_found_by_their_value(constraint, values):
    """An event then visits the conjunctions that ask for its value, and not all."""
    assert placement.choices(Conjunction({"x": constraint})) == ([] if values is None else [("x", values)])


def test_fresh_values_leave_no_memory_behind():
    """Floats hardly ever repeat, and strings may not either: what is remembered is bounded."""
    index = MatchingIndex()
    contains = Constraint(TypeConstraint.STRING, patterns=(Pattern(PatternShape.CONTAINS, "x"),))
    for key in range(50):
        above_key = Constraint(TypeConstraint.NUMBER, above(float(key), inclusive=False))
        index.add(key, Filter([Conjunction({"f": above_key, "s": contains})]), "d")
    for i in range(column.PATTERN_MEMO_MAX * 3):
        index.match({"f": i / 7, "s": f"{i}"})
    (only,) = index._root.cluster.grids
    assert len(only.columns["s"]._memo) <= column.MEMO_VALUES_PER_PATTERN  # there is one pattern
    assert len(only.columns["f"].kinds[TypeConstraint.NUMBER][1]) <= column.BUCKETS_MAX + 1


def test_not_equal_excludes_its_point_only():
    wanted = Filter([Conjunction({"x": Constraint(TypeConstraint.NUMBER, complement(point(3)))})])
    index = MatchingIndex()
    for key in range(40):
        index.add(key, wanted, "d")
    assert index.match({"x": 3.0}) == set()
    assert index.match({"x": 3.1}) == {"d"}
    assert index.match({"x": "3"}) == set()


@pytest.mark.parametrize("value", [2**53, 2**53 + 1, 2**53 + 2, float(2**53), -(2**53) - 1])
@pytest.mark.parametrize("bound", [2**53, 2**53 + 1, -(2**53) - 2, 2**60])
def test_bounds_beyond_the_integers_that_floats_can_tell_apart(bound, value):
    for ranges in (above(bound, inclusive=False), below(bound, inclusive=False)):
        wanted = Filter([Conjunction({"x": Constraint(TypeConstraint.NUMBER, ranges)})])
        index = MatchingIndex()
        index.add("k", wanted, "d")
        assert bool(index.match({"x": value})) == wanted.matches({"x": value})


@pytest.mark.parametrize("value", [0.0, 5e-324, -5e-324, 50, 50.00000000000001, 49.99999999999999])
def test_bounds_next_to_a_value(value):
    for bound in (0, 50):
        for ranges in (above(bound, inclusive=False), below(bound, inclusive=False)):
            wanted = Filter([Conjunction({"x": Constraint(TypeConstraint.NUMBER, ranges)})])
            index = MatchingIndex()
            index.add("k", wanted, "d")
            assert bool(index.match({"x": value})) == wanted.matches({"x": value})


def test_remembered_patterns_learn_of_new_ones():
    def contains(text: str) -> Predicate:
        (predicate,) = predicates_of(
            [("s", Constraint(TypeConstraint.STRING, patterns=(Pattern(PatternShape.CONTAINS, text),)))]
        )
        return predicate

    tested = column.Column([(1, contains("x"))])
    assert tested.failing_patterns("xy") == 0
    tested.add(2, contains("z"))
    tested.add(4, contains("y"))
    assert tested.failing_patterns("xy") == 2
