"""Covers and overlaps, against all values of small worlds and against witnesses."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events import text_automaton
from pleach.core.events.algebra import (
    conjunction_covers,
    conjunctions_overlap,
    constraint_covers,
    constraints_overlap,
    covers,
    intersect,
    is_satisfiable,
    overlaps,
)
from pleach.core.events.constraint import ANY, Conjunction, Constraint, Pattern, PatternShape, TypeConstraint
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter as f
from pleach.core.events.ranges import NOTHING
from support.events.algebra_domain import (
    FEW_VALUES,
    VALUES,
    WORDS,
    conjunctions,
    constraints,
    examples,
    string_constraints,
)
from support.events.witness import counterexample, member, separator


def admitted(constraint):
    return [value for value in VALUES if constraint.admits(value)]


def check_covers(a, b):
    """Sound by trial, complete by witness: where covers says no, a value shows why."""
    if constraint_covers(a, b):
        assert all(a.admits(value) for value in admitted(b))
    else:
        found = separator(a, b)
        assert found is not None
        assert b.admits(found[0])
        assert not a.admits(found[0])


@examples(600)
@given(constraints, constraints)
def test_constraint_covers_is_sound_and_complete(a, b):
    check_covers(a, b)
    check_covers(b, a)


@examples(800)
@given(string_constraints, string_constraints)
def test_constraint_covers_on_strings_is_sound_and_complete(a, b):
    check_covers(a, b)


@examples(500)
@given(constraints, constraints)
def test_constraints_overlap_exactly_if_they_share_a_value(a, b):
    shared = [value for value in admitted(a) if b.admits(value)]
    if shared:
        assert constraints_overlap(a, b)
    assert constraints_overlap(a, b) == constraints_overlap(b, a)
    if a.kind is b.kind and constraints_overlap(a, b):
        both = member(intersect(a, b))
        assert both is not None
        assert a.admits(both[0])
        assert b.admits(both[0])


@examples(300)
@given(conjunctions, conjunctions)
def test_conjunction_covers_is_sound_and_complete(a, b):
    attributes = counterexample(a, b)
    if conjunction_covers(a, b):
        assert attributes is None
    else:
        assert attributes is not None
        assert b.matches(attributes)
        assert not a.matches(attributes)


@examples(150)
@given(conjunctions, st.dictionaries(st.sampled_from("xyz"), constraints, max_size=2))
def test_a_narrower_conjunction_is_covered(a, more):
    narrower = {name: c for name, c in more.items() if name not in a.constraints}
    b = Conjunction({**a.constraints, **narrower})
    assert conjunction_covers(a, b)
    assert covers(Filter([a]), Filter([b]))


@examples(120)
@given(st.data())
def test_covers_and_overlaps_of_disjunctions_are_sound(data):
    few = st.dictionaries(st.sampled_from("xy"), constraints, max_size=2).map(Conjunction)
    a, b = (Filter(data.draw(st.lists(few, max_size=3))) for _ in range(2))
    a_covers_b, overlapping = covers(a, b), overlaps(a, b)
    for x, y in product(FEW_VALUES, repeat=2):
        attributes = {name: value for name, value in (("x", x), ("y", y)) if value is not None}
        if b.matches(attributes):
            assert a.matches(attributes) or not a_covers_b
            assert overlapping or not a.matches(attributes)


@examples(120)
@given(conjunctions, conjunctions, conjunctions)
def test_overlaps_is_monotone(narrow, wide, other):
    joined = Filter([narrow, wide])  # covers both
    for inner in (Filter([narrow]), Filter([wide])):
        assert covers(joined, inner)
        if overlaps(inner, Filter([other])):
            assert overlaps(joined, Filter([other]))
    if conjunction_covers(wide, narrow) and conjunctions_overlap(narrow, other):
        assert conjunctions_overlap(wide, other)


@examples(100)
@given(conjunctions, conjunctions)
def test_conjunctions_that_overlap_nothing_are_unsatisfiable(a, b):
    everything = Conjunction({})
    assert conjunctions_overlap(a, everything) == is_satisfiable(a)
    if not is_satisfiable(a):
        assert conjunction_covers(b, a)
        assert not conjunctions_overlap(a, b)


COVERS = [
    ("x > 0", "x > 5 AND x < 10", True),
    ("x > 50", "x >= 51", True),
    ("x >= 51", "x > 50", False),  # 50.5
    ("s <= 'abz'", "s LIKE 'ab%'", False),  # 'abzz'
    ("s < 'ac'", "s LIKE 'ab%'", True),
    ("s LIKE 'a%'", "s LIKE 'ab%'", True),
    ("s LIKE '%b%'", "s LIKE 'ab%'", True),
    ("s LIKE '%ab%'", "s LIKE '%cab'", True),
    ("s LIKE '%b'", "s LIKE '%ab%'", False),
    ("s LIKE '%a%'", "s BETWEEN 'a' AND 'b'", False),  # 'b'
    ("s LIKE '%a%'", "s LIKE 'a%'", True),
    ("s NOT LIKE '%b'", "s LIKE '%a'", True),
    ("s NOT LIKE '%bc%'", "s NOT LIKE '%c%'", True),
    ("s NOT LIKE '%a%'", "s LIKE 'b%'", False),
    ("s <> 'xyz'", "s LIKE '%a'", True),
    ("s LIKE '%\U0010ffff'", "s = '\U0010ffff'", True),
    ("s >= '\U0010ffff'", "s LIKE '\U0010ffff%'", True),
    ("s LIKE '\U0010ffff%'", "s >= '\U0010ffff'", True),
    ("s < '\ue000'", "s LIKE '\ud7ff%'", True),  # the surrogates between are no strings
    ("s <= '\ud7ff'", "s LIKE '\ud7ff%'", False),
    ("s > ''", "s >= '\0'", True),
    ("s >= '\0'", "s > ''", True),
    ("s >= '\0'", "s LIKE '%'", False),
    ("EXISTS x", "x = 5", True),
    ("EXISTS x", "x LIKE '%a'", True),
    ("EXISTS x", "NOT EXISTS x", False),
    ("x <> 5", "x <> 'five'", False),
    ("x = 1", "x = TRUE", False),
    ("x = 5", "x = 5.0", True),
    ("x = 0", "x = -0.0", True),
    ("TRUE", "x = 5", True),
    ("TRUE", "NOT EXISTS x", True),
    ("x = 5", "TRUE", False),
    ("x = 5", "FALSE", True),
    ("x = 5", "y < 1 AND y > 2", True),  # what matches nothing is covered by everything
    ("x < 5 OR x >= 5", "x = 7", True),
    ("t = 'a' AND x < 5 OR t IN ('a', 'b') AND x >= 5", "t = 'a' AND x BETWEEN 0 AND 9", True),
    ("t = 'a' AND x < 5 OR t IN ('a', 'b') AND x > 5", "t = 'a' AND x BETWEEN 0 AND 9", False),
    ("x = TRUE OR x = FALSE", "x <> TRUE", True),
    ("t = 1 AND s LIKE '%a' OR t IN (1, 2) AND s < 'b'", "t = 1 AND s LIKE '%'", False),  # 'cb'
    ("t = 1 AND s >= 'b' OR t IN (1, 2) AND s < 'b'", "t = 1 AND s LIKE '%a'", True),
]


@pytest.mark.parametrize(("a", "b", "expected"), COVERS)
def test_covers(a, b, expected):
    assert covers(f(a), f(b)) is expected


def test_real_numbers_lie_between_integers():
    assert not covers(f("x >= 51"), f("x > 50"))
    assert f("x > 50").matches({"x": 50.5})
    assert not f("x >= 51").matches({"x": 50.5})
    one, other = f("x > 50 AND x <> 51"), f("x > 50 AND x < 51 OR x > 51")
    assert covers(one, other)
    assert covers(other, one)


OVERLAPS = [
    # An advertisement with more attributes than the subscription, and the other way round.
    ("topic = 't' AND price > 0 AND venue = 'X'", "topic = 't'", True),
    ("topic = 't'", "topic = 't' AND price > 5 AND EXISTS venue", True),
    ("topic = 't'", "topic = 'u' AND price > 5", False),
    ("topic = 't' AND NOT EXISTS price", "price > 5", False),
    ("topic = 't' AND EXISTS price", "price > 5", True),
    ("NOT EXISTS x", "NOT EXISTS x", True),
    ("NOT EXISTS x", "EXISTS x", False),
    ("x > 5", "x < 5", False),
    ("x >= 5", "x <= 5", True),
    ("x > 5", "x < 5.5", True),
    ("x = 1", "x = TRUE", False),
    ("s LIKE 'a%'", "s LIKE '%b'", True),
    ("s LIKE 'a%' AND s < 'ab'", "s LIKE '%b'", True),  # 'aab'
    ("s LIKE '%a'", "s LIKE '%b'", False),
    ("s LIKE '%ab%'", "s NOT LIKE '%b%'", False),
    ("s IN ('ab', 'cd')", "s LIKE '%d'", True),
    ("s IN ('ab', 'cd')", "s LIKE '%e'", False),
    ("FALSE", "TRUE", False),
    ("TRUE", "TRUE", True),
]


@pytest.mark.parametrize(("a", "b", "expected"), OVERLAPS)
def test_overlaps(a, b, expected):
    assert overlaps(f(a), f(b)) is expected
    assert overlaps(f(b), f(a)) is expected


def test_beyond_the_bound_the_answers_are_the_safe_ones(monkeypatch):
    holding, begun, without = f("s LIKE '%a%'"), f("s LIKE 'ba%'"), f("s NOT LIKE '%a%'")
    assert covers(holding, begun)
    assert not overlaps(begun, without)
    text_automaton.remembered_search.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(text_automaton, "STEPS_MAX", 1)
        assert not covers(holding, begun)
        assert overlaps(begun, without)
    text_automaton.remembered_search.cache_clear()


PATTERNS = [
    Pattern(shape, text, negated)
    for shape in PatternShape
    for text in ["a", "b", "aa", "ab", "ba", "bb", "aba"]
    for negated in (False, True)
]


def test_a_pattern_that_implies_another_fits_fewer_strings():
    for a, b in product(PATTERNS, repeat=2):
        if a.implies(b):
            assert all(b.matches(word) for word in WORDS if a.matches(word)), (a, b)
    assert Pattern(PatternShape.SUFFIX, "ab").implies(Pattern(PatternShape.CONTAINS, "b"))


def test_what_admits_nothing_overlaps_nothing():
    nothing = Constraint(TypeConstraint.NUMBER, NOTHING)
    assert not constraints_overlap(ANY, nothing)
    assert not constraints_overlap(nothing, nothing)
    assert constraints_overlap(ANY, Constraint(TypeConstraint.NUMBER))
