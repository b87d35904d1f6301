"""Normal forms: they keep the meaning, do not depend on how a filter was written, and are fixed points.

Random texts come with their meaning in plain Python, written independently of the code under test: a pair of
functions, for where the text holds and for where NOT (text) holds. Neither holds where a type does not fit.
"""

from __future__ import annotations

import operator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events import predicates as p
from pleach.core.events.constraint import Constraint, Pattern, PatternShape, TypeConstraint
from pleach.core.events.expression import And, Or, Predicate
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter, parse_internal
from pleach.core.events.normalise import canonical, normalise
from pleach.core.events.ranges import EVERYTHING, NOTHING
from pleach.core.events.spelling import spell_value
from pleach.errors import FilterError
from support.events.algebra_domain import FEW_VALUES, TEXTS, VALUES, constraints, examples
from support.events.filters import filter_of

OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def same_kind(value, literal):
    if isinstance(value, bool) or isinstance(literal, bool):
        return isinstance(value, bool) and isinstance(literal, bool)
    if isinstance(literal, (int, float)):
        return isinstance(value, (int, float))
    return isinstance(value, type(literal))


def typed(name, literal, test):
    """The two functions of a predicate that asks for the literal's type."""

    def holds(event, wanted):
        value = event.get(name)
        return value is not None and same_kind(value, literal) and test(value) == wanted

    return (lambda event: holds(event, True)), (lambda event: holds(event, False))


literals = st.sampled_from([0, 1, 2, 1.5, 1.0, -0.0, "", "a", "ab", "b", "ba", "a'b", "b\0", b"", b"a", b"b\0"])


@st.composite
def predicates(draw):
    name = draw(st.sampled_from("xy"))
    literal = draw(literals | st.booleans())
    written = spell_value(literal)
    match draw(st.integers(0, 5)):
        case 0:
            return f"EXISTS {name}", lambda e: name in e, lambda e: name not in e
        case 1:
            low, high = sorted([draw(literals.filter(lambda v: same_kind(v, 0))) for _ in range(2)])
            text = f"{name} BETWEEN {spell_value(low)} AND {spell_value(high)}"
            return text, *typed(name, low, lambda v: low <= v <= high)
        case 2:
            others = draw(st.lists(literals.filter(lambda v: same_kind(v, literal)), max_size=2))
            listed = ", ".join(map(spell_value, [literal, *others]))
            return f"{name} IN ({listed})", *typed(name, literal, lambda v: v in [literal, *others])
        case 3:
            text = draw(st.sampled_from(TEXTS))
            like, test = draw(
                st.sampled_from(
                    [
                        (f"'{text}%'", lambda v: v.startswith(text)),
                        (f"'%{text}'", lambda v: v.endswith(text)),
                        (f"'%{text}%'", lambda v: text in v),
                        (f"'{text}'", lambda v: v == text),
                    ]
                )
            )
            return f"{name} LIKE {like}", *typed(name, "", test)
        case _:
            allowed = ["=", "<>"] if isinstance(literal, bool) else list(OPERATORS)
            sign = draw(st.sampled_from(allowed))
            return f"{name} {sign} {written}", *typed(name, literal, lambda v: OPERATORS[sign](v, literal))


def combined(parts):
    def joined(word, pair):
        (left, left_holds, left_fails), (right, right_holds, right_fails) = pair
        text = f"({left}) {word} ({right})"
        if word == "AND":
            return text, lambda e: left_holds(e) and right_holds(e), lambda e: left_fails(e) or right_fails(e)
        return text, lambda e: left_holds(e) or right_holds(e), lambda e: left_fails(e) and right_fails(e)

    pairs = st.tuples(parts, parts)
    return st.one_of(
        st.builds(joined, st.sampled_from(["AND", "OR"]), pairs),
        parts.map(lambda part: (f"NOT ({part[0]})", part[2], part[1])),
    )


texts_with_meaning = st.recursive(predicates(), combined, max_leaves=6)
EVENTS = [
    {name: value for name, value in zip("xy", pair, strict=True) if value is not None}
    for pair in product(FEW_VALUES, repeat=2)
]


@examples(350)
@given(texts_with_meaning)
def test_filters_mean_what_their_text_says(written):
    text, holds, fails = written
    made, negation = parse_filter(text), parse_filter(f"NOT ({text})")
    for event in EVENTS:
        assert made.matches(event) == holds(event), (text, event)
        assert negation.matches(event) == fails(event), (text, event)


@examples(350)
@given(texts_with_meaning)
def test_the_canonical_text_reads_back_as_the_same_filter(written):
    made = parse_filter(written[0])
    again = parse_internal(made.text)
    assert again == made
    assert again.text == made.text


@examples(250)
@given(st.lists(st.dictionaries(st.sampled_from("xyz"), constraints, max_size=2), max_size=4), st.randoms())
def test_neither_order_nor_repetition_matters(conjunctions, random):
    made = filter_of(*conjunctions)
    shuffled = conjunctions + conjunctions[:1]
    random.shuffle(shuffled)
    assert filter_of(*shuffled) == made
    assert parse_internal(made.text) == made


@examples(600)
@given(constraints)
def test_canonical_constraints_admit_the_same_values_and_stay(constraint):
    normal = canonical(constraint)
    for value in VALUES:
        assert constraint.admits(value) == (normal is not None and normal.admits(value))
    if normal is not None:
        assert canonical(normal) == normal
        assert normal.points() != ()


EQUAL = [
    ("x = 5", "x = 5.0"),
    ("x = 0", "x = -0.0"),
    ("x <> TRUE", "x = FALSE"),
    ("x = TRUE OR x = FALSE", "x IN (FALSE, TRUE)"),
    ("NOT (x = 5)", "x <> 5"),
    ("NOT EXISTS x", "x IS NULL"),
    ("EXISTS x", "NOT (x IS NULL)"),
    ("EXISTS x OR NOT EXISTS x", "TRUE"),
    ("NOT TRUE", "FALSE"),
    ("x > 1 AND x < 0", "FALSE"),
    ("x = 1 AND x = 'a'", "FALSE"),
    ("x = 1 AND EXISTS x", "x = 1"),
    ("x = 1 AND NOT EXISTS x", "FALSE"),
    ("x BETWEEN 5 AND 1", "FALSE"),
    ("x = 1 OR x = 2", "x IN (2, 1)"),
    ("x <= 1 OR x > 1", "NOT (x < 0 AND x > 0)"),
    ("x >= 1 AND x <= 1", "x = 1"),
    ("s >= 'ab' AND s < 'ac'", "s LIKE 'ab%'"),
    ("s LIKE '%'", "s >= ''"),
    ("s LIKE '%%'", "s LIKE '%'"),
    ("s NOT LIKE '%'", "FALSE"),
    ("s LIKE 'ab'", "s = 'ab'"),
    ("s IN ('ab', 'cd', 'eb') AND s LIKE '%b'", "s IN ('ab', 'eb')"),
    ("s LIKE '%b' AND s LIKE '%ab'", "s LIKE '%ab'"),
    ("s LIKE '%b%' AND s LIKE '%ab'", "s LIKE '%ab'"),
    ("s LIKE '%b%' AND s LIKE 'ab%'", "s LIKE 'ab%'"),
    ("s NOT LIKE '%ab%' AND s NOT LIKE '%b'", "s NOT LIKE '%b' AND s NOT LIKE '%ab%'"),
    ("s LIKE '%ab%' AND s NOT LIKE '%b%'", "FALSE"),
    ("t = 'a' AND x < 5 OR t = 'a' AND x > 3", "t = 'a' AND (x < 0 OR x >= 0)"),
    ("t = 'a' OR t = 'a' AND x = 1", "t = 'a'"),
    ("a = 1 AND b = 1 OR b = 1", "b = 1"),
    ("(a = 1 OR b = 1) AND (a = 1 OR b = 2)", "a = 1"),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_filters_that_say_the_same_are_equal(a, b):
    assert parse_filter(a) == parse_filter(b)
    assert parse_filter(a) is parse_filter(b), "equal filters are one object"


def test_filter_of_intersects_several_constraints():
    made = filter_of({"topic": p.equals("t1"), "price": [p.greater(50), p.less(60)]}, {"topic": p.absent()})
    assert made == parse_filter("topic = 't1' AND price > 50 AND price < 60 OR NOT EXISTS topic")
    assert filter_of() == parse_filter("FALSE")
    assert filter_of({}) == parse_filter("TRUE")


def test_canonical_of_what_admits_nothing():
    assert canonical(Constraint(TypeConstraint.NUMBER, NOTHING)) is None
    ends = tuple(Pattern(PatternShape.SUFFIX, text) for text in "ab")
    assert canonical(Constraint(TypeConstraint.STRING, EVERYTHING, ends)) is None


def test_a_filter_that_explodes_is_refused():
    choices = tuple(Or((Predicate(f"a{i}", p.equals(1)), Predicate(f"b{i}", p.equals(1)))) for i in range(40))
    with pytest.raises(FilterError, match="several subscriptions"):
        normalise(And(choices))
    assert len(normalise(And(choices[:6])).conjunctions) == 64
    text = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(12))
    with pytest.raises(FilterError, match="several subscriptions") as caught:
        parse_filter(text)
    assert caught.value.text == text


def test_the_empty_filter_matches_nothing_and_the_empty_conjunction_everything():
    assert Filter([]).text == "FALSE"
    assert not parse_filter("FALSE").matches({})
    assert parse_filter("TRUE").matches({})
