"""Networks whose limits of size are all at 1 or 2 (support/limits.py): what is beyond costs more, and is kept."""

from __future__ import annotations

from random import Random

import pytest

from pleach.core.events.algebra import covers, overlaps
from pleach.core.events.filter import Filter
from pleach.core.events.index import MatchingIndex
from pleach.core.events.language import parse_filter
from pleach.core.routing import merged
from pleach.core.routing.entries import Entry
from pleach.core.routing.policies import POLICIES
from support.contract.judgement import judge_network
from support.contract.networks import COMBINATIONS
from support.everything.draw import case_of
from support.everything.judgement import judge_case
from support.limits import KEPT, forget_results, limits, lower
from support.thorough import FACTOR

VALUES = (1, 2)
USUAL = 0
NOT_REDUCED = "than follow from what"
RANGES = 200  # more than two pieces of the usual size
PATTERNS = ("a%", "%b", "%c%", "d%", "%e", "%fg%", "h%", "%jk%")
LETTERS = "abcdefghijk"


@pytest.fixture(params=(*VALUES, USUAL), ids=lambda value: f"limits of {value}" if value else "usual limits")
def lowered(request, monkeypatch):
    if request.param != USUAL:
        assert lower(monkeypatch, request.param)
    yield request.param
    monkeypatch.undo()
    forget_results()


def test_every_limit_is_lowered_or_kept_for_a_reason():
    assert KEPT.keys() <= limits().keys()
    assert len(limits().keys() - KEPT.keys()) >= 30


@pytest.mark.parametrize("number", range(FACTOR))
@pytest.mark.parametrize("combination", COMBINATIONS[::7], ids=lambda each: each.name)
def test_nothing_is_lost_in_a_network(lowered, combination, number):
    """Where comparisons are given up, what is told depends on the order of arrival: more than necessary."""
    flaws = judge_network(combination, 70 + number).flaws
    assert not [flaw for flaw in flaws if lowered == USUAL or NOT_REDUCED not in flaw]


@pytest.mark.parametrize("seed", range(3 * FACTOR))
def test_nothing_is_lost_where_all_happens_at_once(lowered, seed):
    assert not judge_case(case_of(seed)).flaws


# Filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("kind", ["numbers", "strings"])
def test_the_union_of_many_ranges_has_all_of_them_and_nothing_else(kind):
    values = [3 * i for i in range(RANGES)] if kind == "numbers" else [f"w{i:04}" for i in range(RANGES)]
    members = [parse_filter(f"topic = 'x' AND price = {value!r}") for value in values]
    united = POLICIES["merging"].reduce(frozenset(Entry("", each) for each in members), 0.0)
    outside = [3 * i + 1 for i in range(RANGES)] if kind == "numbers" else [f"w{i:04}x" for i in range(RANGES)]
    assert [value for value in values if not _matched(united, value)] == []
    assert [value for value in outside if _matched(united, value)] == []


def test_a_union_that_loses_a_piece_is_found(monkeypatch):
    pieces = merged._pieces
    monkeypatch.setattr(merged, "_pieces", lambda *of: list(pieces(*of))[:-1])
    with pytest.raises(AssertionError):
        test_the_union_of_many_ranges_has_all_of_them_and_nothing_else("numbers")


def _matched(entries, value):
    return any(entry.filter.matches({"topic": "x", "price": value}) for entry in entries)


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("seed", range(6 * FACTOR))
def test_many_patterns_on_one_attribute_mean_what_they_say(seed):
    stream = Random(f"patterns/{seed}")
    chosen = stream.sample(PATTERNS, 7)
    negated = [stream.random() < 0.3 for _ in chosen]
    joined = stream.choice((" AND ", " OR "))
    texts = [f"{'NOT ' if no else ''}(name LIKE '{pattern}')" for no, pattern in zip(negated, chosen, strict=True)]
    wanted = parse_filter(joined.join(texts))
    again = parse_filter(wanted.text)
    for _ in range(80):
        name = "".join(stream.choice(LETTERS) for _ in range(stream.randint(0, 12)))
        said = [_is_like(name, pattern) != no for no, pattern in zip(negated, chosen, strict=True)]
        expected = all(said) if joined == " AND " else any(said)
        assert wanted.matches({"name": name}) == expected, (wanted.text, name)
        assert again.matches({"name": name}) == expected


def _is_like(text, pattern):
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_is_like(text[i:], pattern[1:]) for i in range(len(text) + 1))
    return bool(text) and pattern[0] == text[0] and _is_like(text[1:], pattern[1:])


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("seed", range(6 * FACTOR))
def test_what_is_said_of_two_filters_errs_on_the_safe_side_only(seed):
    stream = Random(f"two/{seed}")
    one, other = _drawn(stream), _drawn(stream)
    for attributes in (_event(stream) for _ in range(60)):
        if other.matches(attributes):
            assert one.matches(attributes) or not covers(one, other)
            assert overlaps(one, other) or not one.matches(attributes)


@pytest.mark.usefixtures("lowered")
@pytest.mark.parametrize("seed", range(4 * FACTOR))
def test_the_index_finds_what_matches(seed):
    stream = Random(f"index/{seed}")
    filters = {f"n{i}": _drawn(stream) for i in range(40)}
    index = MatchingIndex()
    for name, wanted in filters.items():
        index.add(name, wanted, name)
    for name in stream.sample(sorted(filters), 12):
        index.remove(name)
        del filters[name]
    for attributes in (_event(stream) for _ in range(60)):
        expected = {name for name, wanted in filters.items() if wanted.matches(attributes)}
        assert set(index.match(attributes)) == expected


def _drawn(stream) -> Filter:
    parts = [
        f"price BETWEEN {(low := stream.randint(0, 20))} AND {low + stream.randint(0, 9)}",
        f"price IN ({', '.join(str(stream.randint(0, 30)) for _ in range(stream.randint(1, 9)))})",
        f"NOT (price = {stream.randint(0, 30)})",
        f"name LIKE '{stream.choice(PATTERNS)}'",
        f"NOT (name LIKE '{stream.choice(PATTERNS)}')",
        f"name > '{stream.choice(LETTERS)}'",
        "EXISTS name",
    ]
    alternatives = [" AND ".join(stream.sample(parts, stream.randint(1, 3))) for _ in range(stream.randint(1, 3))]
    return parse_filter(" OR ".join(f"({each})" for each in alternatives))


def _event(stream):
    attributes = {"price": stream.randint(0, 30)} if stream.random() < 0.9 else {}
    if stream.random() < 0.9:
        attributes["name"] = "".join(stream.choice(LETTERS) for _ in range(stream.randint(0, 5)))
    return attributes
