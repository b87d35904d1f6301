"""The budget of filters: what is within it costs a bounded number of steps, what is beyond it is refused."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest

from pleach.core.events import algebra, language, text_automaton
from pleach.core.events.algebra import covers, overlaps
from pleach.core.events.budget import (
    ASKED,
    CARRIED,
    COMPARISON_STEPS_MAX,
    EFFECTIVE,
    PIECE_RANGES_MAX,
    WRITTEN,
    NormalisationSteps,
    Steps,
)
from pleach.core.events.complement import divided
from pleach.core.events.expression import And, Or, Predicate
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_asked, parse_filter, parse_internal
from pleach.core.events.normalise import normalise, weight
from pleach.core.events.sized_cache import SizedCache
from pleach.core.events.text_automaton import STEPS_MAX, explore, find_word
from pleach.core.routing.entries import Entry
from pleach.core.routing.policies import merging
from pleach.errors import FilterError
from support.events.random_filters import random_event
from support.thorough import FACTOR

SEEDS = range(40 * FACTOR)


def literal(random: Random) -> str:
    return "".join(random.choice("ab") for _ in range(random.choice((1, 2, 8, 40, 400))))


def predicate(random: Random) -> str:
    name = random.choice("abcdefgh")
    match random.randrange(6):
        case 0:
            return f"{name} > {random.randrange(9)}"
        case 1:
            return f"{name} NOT BETWEEN {random.randrange(9)} AND {random.randrange(9)}"
        case 2:
            return f"{name} IN ({', '.join(repr(literal(random)) for _ in range(random.randint(1, 6)))})"
        case 3:
            return f"{name} BETWEEN '{literal(random)}' AND 'b{literal(random)}'"
        case 4:
            return f"{name} {random.choice(('', 'NOT '))}LIKE '%{literal(random)}{random.choice(('', '%'))}'"
        case _:
            return f"{name} = {random.randrange(9)}"


def text(random: Random) -> str:
    """Many of these are beyond the budget, and most are near it."""
    factors = [
        "(" + " OR ".join(predicate(random) for _ in range(random.choice((1, 2, 2, 3, 8)))) + ")"
        for _ in range(random.randint(1, 10))
    ]
    return random.choice((" AND ", " AND ", " OR ")).join(factors)


def near_the_bound(random: Random) -> Filter:
    while True:
        try:
            return parse_filter(text(random))
        except FilterError:
            continue


@pytest.fixture
def spent(monkeypatch):
    """The steps that each comparison and each normalisation has spent."""
    made: list[tuple[Steps, int]] = []

    class Counted(Steps):
        def __init__(self, left: int = COMPARISON_STEPS_MAX) -> None:
            super().__init__(left)
            made.append((self, left))

    monkeypatch.setattr(algebra, "Steps", Counted)
    return lambda: [given - steps.left for steps, given in made]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_filter_of_a_user_is_accepted_by_all_who_get_it(seed):
    made = near_the_bound(Random(f"budget/{seed}"))
    assert parse_asked(made.text) == parse_internal(made.text) == made
    assert sum(map(weight, made.conjunctions)) <= ASKED.conditions
    assert len(made.text.encode()) <= ASKED.normal_bytes


@pytest.mark.parametrize("seed", SEEDS)
def test_comparisons_end_within_their_steps_and_agree_with_events(seed, spent):
    random = Random(f"budget/{seed}")
    a, b = near_the_bound(random), near_the_bound(random)
    covered, overlapping = covers(a, b), overlaps(a, b)
    assert overlapping == overlaps(b, a)
    assert max(spent()) <= COMPARISON_STEPS_MAX + 2 * STEPS_MAX, "at most one search beyond the limit"
    for _ in range(50):
        event = random_event(random)
        assert not (covered and b.matches(event) and not a.matches(event))
        assert overlapping or not (a.matches(event) and b.matches(event))


@pytest.mark.parametrize("seed", SEEDS)
def test_two_filters_joined_by_and_are_one_that_brokers_carry_or_an_error(seed):
    random = Random(f"budget/{seed}")
    a, b = near_the_bound(random), near_the_bound(random)
    try:
        both = normalise(And((expression(a), expression(b))), EFFECTIVE)
    except FilterError:
        return
    assert parse_internal(both.text) == both
    for _ in range(50):
        event = random_event(random)
        assert both.matches(event) == (a.matches(event) and b.matches(event))


def expression(wanted: Filter) -> Or:
    return Or(tuple(And(tuple(Predicate(*each) for each in c.constraints.items())) for c in wanted.conjunctions))


def test_a_normalisation_stops_where_its_steps_are_spent():
    steps = NormalisationSteps(10)
    assert steps.take(10)
    with pytest.raises(FilterError, match="several subscriptions"):
        steps.take(1)
    for beyond in (
        " OR ".join(f"b = {n} AND " + " AND ".join(f"a{k} > {n}" for k in range(9)) for n in range(60)),
        " AND ".join(f"s NOT LIKE '%{n}{'ab' * 20}%'" for n in range(400)),
    ):
        with pytest.raises(FilterError, match="several subscriptions"):
            parse_asked(beyond)


@pytest.mark.parametrize("size", [1_000, 3_900])
def test_a_search_in_long_texts_takes_memory_and_steps_in_proportion(size):
    """The tree of beginnings was quadratic in a literal, a step of the search linear in a pattern."""
    for text in (
        f"s BETWEEN '{'a' * (size // 2 - 40)}' AND '{'a' * (size // 2 - 40)}b' AND s LIKE '%q%'",
        f"s LIKE '%{'a' * size}%' AND s BETWEEN 'c' AND 'cb'",
    ):
        tracemalloc.start()
        parse_filter(text)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 8_000_000
        (constraint,) = parse_filter(text).conjunctions[0].constraints.values()
        for search in (find_word, explore):
            assert search(constraint.ranges, constraint.patterns).steps <= 2 * STEPS_MAX


@pytest.mark.parametrize("budget", [ASKED, EFFECTIVE, CARRIED])
def test_what_one_party_makes_the_next_accepts(budget):
    assert budget.conditions >= WRITTEN.conditions
    assert budget.steps >= 2 * WRITTEN.steps, "a normal form is united twice"
    assert budget.predicates >= 2 * budget.conditions, "an interval is written as two predicates"
    assert CARRIED.conditions >= EFFECTIVE.conditions + PIECE_RANGES_MAX


LONG_NAME = '"' + '""' * 127 + '"'
QUOTES = "''" * 900

# Merging ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "member",
    [
        lambda n: f"{LONG_NAME} BETWEEN {3 * n} AND {3 * n + 1} AND t = '{'x' * 3_000}'",
        lambda n: f"s BETWEEN '{n:05}{QUOTES}' AND '{n:05}{QUOTES}b'",
        lambda n: f"s = '{n:05}'",
        lambda n: f"s > X'{n:08x}{'00' * 900}01' AND s < X'{n:08x}{'00' * 900}03'",
    ],
    ids=["long names", "long values", "many values", "bytes"],
)
def test_merging_makes_nothing_that_a_neighbour_refuses(member, monkeypatch):
    monkeypatch.setattr("pleach.core.routing.merged.crc32", lambda _: 1)  # values chosen so that no hash ends a piece
    asked = [parse_filter(member(n)) for n in range(300)]
    merged = merging([Entry(f"c/{n}", each) for n, each in enumerate(asked)])
    assert len(merged) < len(asked)
    for entry in merged:
        assert parse_internal(entry.filter.text) == entry.filter
    for wanted in asked:
        assert any(covers(entry.filter, wanted) for entry in merged)


def test_a_filter_that_leaves_no_room_is_not_merged():
    wide = " AND ".join(f"a{n:03} = {n}" for n in range(EFFECTIVE.conditions + 1))
    entries = [Entry(f"c/{n}", parse_internal(f"{wide} AND a = {n}")) for n in range(3)]
    merged = merging(entries)
    assert {entry.filter for entry in merged} == {entry.filter for entry in entries}
    assert all(parse_internal(entry.filter.text) == entry.filter for entry in merged)


# Caches ----------------------------------------------------------------------------------------------------------


def test_a_cache_is_bounded_by_what_it_holds_and_drops_the_oldest():
    cache: SizedCache[str, str] = SizedCache(10)
    for key in "abc":
        cache.setdefault(key, key.upper(), 4)
    assert (cache.size, len(cache)) == (8, 2)
    assert [cache.get(key) for key in "abc"] == [None, "B", "C"]
    cache.get("b")
    cache.setdefault("d", "D", 4)
    assert [cache.get(key) for key in "abcd"] == [None, "B", None, "D"]
    assert cache.setdefault("d", "other", 4) == "D"


def test_caches_of_filters_hold_what_their_comments_say():
    """The densest texts: as many conjunctions, points, patterns as characters allow."""
    densest = [
        lambda n: " OR ".join(f"{name} = {n}" for name in "abcdefghijklmnopqrstuvwxyz"),
        lambda n: f"a IN ({', '.join(str(n * 50 + 2 * k) for k in range(50))})",
        lambda n: " AND ".join(f"{name} LIKE '%{n}%'" for name in "abcdefghijklm"),
    ]
    for make in densest:
        language._filters.__init__(language.FILTER_CHARACTERS_REMEMBERED)
        language._interned.__init__(language.FILTER_CHARACTERS_REMEMBERED)
        text_automaton.remembered_search.cache_clear()
        tracemalloc.start()
        for n in range(10_000, 12_000):
            parse_internal(make(n))
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert language._filters.size <= language.FILTER_CHARACTERS_REMEMBERED
        assert held < 60_000_000
    text_automaton.remembered_search.cache_clear()


def test_what_is_long_is_cached_nowhere():
    long = [f"a = '{n}{'x' * 4_000}' AND b LIKE '%{n}{'y' * 3_000}%'" for n in range(300)]
    tracemalloc.start()
    for each in long:
        parse_asked(each)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1_000_000


def test_shares_of_a_filter_are_ones_that_a_client_can_send():
    shares = divided(parse_filter("x > 0"), [parse_filter(f"x BETWEEN {n} AND {n + 1}") for n in range(0, 40, 4)])
    assert all(parse_asked(share.text) == share for share in shares)
