"""Canonical texts, as people see them in traces and tools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events import predicates as p
from pleach.core.events.language import parse_filter, parse_internal
from pleach.core.events.spelling import spell_name, spell_value
from support.events.algebra_domain import examples
from support.events.filters import filter_of

SPELLED = [
    ("price>50 and topic='t1'", "price > 50 AND topic = 't1'"),
    ("x >= 1 AND x <= 5", "x BETWEEN 1 AND 5"),
    ("x >= 1 AND x < 5", "x >= 1 AND x < 5"),
    ("x = 2 OR x = 1", "x IN (1, 2)"),
    ("NOT x = 5", "x <> 5"),
    ("x NOT IN (2, 1) AND x > 0", "x > 0 AND x NOT IN (1, 2)"),
    ("x BETWEEN 0 AND 9 AND x <> 5", "x BETWEEN 0 AND 9 AND x <> 5"),
    ("x < 1 OR x > 5", "(x < 1 OR x > 5)"),
    ("x < 1 OR x > 5 OR x = 3", "(x < 1 OR x > 5 OR x = 3)"),
    ("x < 1 AND y = 1 OR x > 5 AND y = 1", "(x < 1 OR x > 5) AND y = 1"),
    ("x NOT BETWEEN 1 AND 5", "(x < 1 OR x > 5)"),
    ("x = 0.5 OR x = 1e300", "x IN (0.5, 1e+300)"),
    ("s LIKE 'it''s 100\\%%'", "s LIKE 'it''s 100\\%%'"),
    (
        "s LIKE '%a\\_b' AND s NOT LIKE '%\\\\%' AND s LIKE 'c%'",
        "s LIKE 'c%' AND s LIKE '%a\\_b' AND s NOT LIKE '%\\\\%'",
    ),
    ("s < 'b' AND s LIKE '%a' OR s > 'c' AND s LIKE '%a'", "(s < 'b' OR s > 'c') AND s LIKE '%a'"),
    ("b <> FALSE", "b = TRUE"),
    ("b <> FALSE OR b = FALSE", "b IN (FALSE, TRUE)"),
    ("x < 5 OR x >= 5", "(x < 0 OR x >= 0)"),
    ("s >= ''", "s LIKE '%'"),
    ("d >= x''", "d >= X''"),
    ("d = X'0AFF'", "d = X'0aff'"),
    ("x is null", "NOT EXISTS x"),
    ("x is not null or y is null", "EXISTS x OR NOT EXISTS y"),
    ('"and" = 1 and "größe" > 2 and "a""b" = 3', '"a""b" = 3 AND "and" = 1 AND "größe" > 2'),
    ("true", "TRUE"),
    ("NOT true", "FALSE"),
]


@pytest.mark.parametrize(("written", "canonical"), SPELLED)
def test_spelling(written, canonical):
    made = parse_filter(written)
    assert made.text == canonical
    assert parse_internal(canonical) == made


@examples(300)
@given(st.text(max_size=6), st.text(min_size=1, max_size=6))
def test_all_texts_and_names_survive(text, name):
    for constraint in [
        p.equals(text),
        p.differs(text),
        p.greater(text),
        p.at_most(text),
        p.prefix(text),
        p.suffix(text),
        p.contains(text),
        p.opposite(p.prefix(text or "a")),
    ]:
        made = filter_of({name: constraint})
        assert parse_internal(made.text) == made


@examples(300)
@given(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.binary(max_size=8))
def test_all_numbers_and_bytes_survive(value):
    for constraint in [p.equals(value), p.less(value), p.at_least(value), p.differs(value)]:
        made = filter_of({"x": constraint})
        assert parse_internal(made.text) == made
        assert made.matches({"x": value}) == constraint.admits(value)


def test_names_and_values():
    assert spell_name("a.b_C1") == "a.b_C1"
    assert spell_name("1a") == '"1a"'
    assert spell_name("Like") == '"Like"'
    assert spell_value(True) == "TRUE"
    assert spell_value(1) == "1"
