"""Small worlds in which every question about filters can be answered by trying all values."""

from __future__ import annotations

from itertools import product

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from pleach.core.events import predicates as p
from pleach.core.events.algebra import intersect
from pleach.core.events.constraint import ABSENT, ANY, Conjunction, Constraint, Pattern, PatternShape, TypeConstraint
from support.thorough import FACTOR

LETTERS = "abc"
WORDS = ["".join(word) for length in range(5) for word in product(LETTERS, repeat=length)]
TEXTS = [word for word in WORDS if len(word) <= 3 and "c" not in word]  # what constraints mention
NUMBERS = [number / 2 for number in range(-3, 10)]
WHOLE = [-1, 0, 1, 2, 2.5, 4]
BYTES = [b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\0", b"ab", b"b", b"\xff"]
NULS = ["a\0", "a\0\0", "\0", "a\0b", "a\x01"]
VALUES = [None, True, False, *NUMBERS, *WORDS, *NULS, *BYTES]
FEW_VALUES = [None, True, False, 0, 0.5, 1, 1.5, 2, "", "a", "ab", "b", "ba", "bb", b"", b"a", b"b"]


def examples(count: int) -> settings:
    """`count` in a usual run, less in a quick one (tests/conftest.py)."""
    return settings(
        max_examples=count * FACTOR * settings.default.max_examples // 100,
        deadline=None,
        derandomize=FACTOR == 1,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def _comparisons(values: st.SearchStrategy) -> st.SearchStrategy[Constraint]:
    ordered = [p.equals, p.differs, p.less, p.at_most, p.greater, p.at_least]
    return st.one_of(
        st.builds(lambda make, value: make(value), st.sampled_from(ordered), values),
        st.builds(p.between, values, values),
        st.lists(values, min_size=1, max_size=4).map(p.one_of),
        st.lists(values, min_size=1, max_size=3).map(lambda chosen: p.opposite(p.one_of(chosen))),
    )


texts = st.sampled_from(TEXTS)
patterns = st.builds(Pattern, st.sampled_from(PatternShape), texts.filter(bool), st.booleans())
string_predicates = st.one_of(
    _comparisons(texts | st.sampled_from(NULS)),
    texts.map(p.prefix),
    texts.map(lambda text: p.opposite(p.prefix(text))),
    patterns.map(lambda pattern: Constraint(TypeConstraint.STRING, patterns=(pattern,))),
)
number_predicates = _comparisons(st.sampled_from(WHOLE))
boolean_predicates = st.sampled_from([True, False]).flatmap(
    lambda value: st.sampled_from([p.equals(value), p.differs(value), p.one_of([True, False])])
)
bytes_predicates = _comparisons(st.sampled_from(BYTES))


def _mixed(predicates: st.SearchStrategy[Constraint]) -> st.SearchStrategy[Constraint]:
    def both(chosen: list[Constraint]) -> Constraint:
        result = chosen[0]
        for each in chosen[1:]:
            result = intersect(result, each)
        return result

    return st.lists(predicates, min_size=1, max_size=4).map(both)


# Several predicates of one kind, as they stand: possibly contradictory, not normalised.
string_constraints = _mixed(string_predicates)
constraints = st.one_of(
    st.sampled_from([ABSENT, ANY]),
    _mixed(number_predicates),
    _mixed(boolean_predicates),
    _mixed(bytes_predicates),
    string_constraints,
    string_constraints,
)
conjunctions = st.dictionaries(st.sampled_from("xyz"), constraints, max_size=3).map(Conjunction)
