"""Of a filter and its complement exactly one matches every event; of the shares of a filter exactly one does."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_normalise import EVENTS, examples, texts_with_meaning

from pleach.core.events.complement import complement, divided
from pleach.core.events.language import parse_asked, parse_filter
from pleach.errors import FilterError
from support.events.random_filters import random_event, random_filter


def divided_or_too_large(wanted, parts):
    try:
        return divided(wanted, parts)
    except FilterError:
        assume(False)


@examples(25)
@given(texts_with_meaning)
def test_exactly_one_of_a_filter_and_its_complement_matches(written):
    wanted = parse_filter(written[0])
    rest = complement(wanted)
    for event in EVENTS:
        assert wanted.matches(event) != rest.matches(event), (written[0], event)


@examples(25)
@given(st.randoms(use_true_random=False))
def test_shares_are_complete_and_disjoint(random):
    wanted, parts = random_filter(random), [random_filter(random) for _ in range(random.randint(0, 3))]
    shares = divided_or_too_large(wanted, parts)
    assert len(shares) == len(parts) + 1
    for _ in range(50):
        event = random_event(random)
        matching = [number for number, share in enumerate(shares) if share.matches(event)]
        assert len(matching) == wanted.matches(event)
        if matching and matching[0] < len(parts):
            assert parts[matching[0]].matches(event)


@examples(25)
@given(st.randoms(use_true_random=False))
def test_shares_can_be_asked_of_a_broker(random):
    for share in divided_or_too_large(random_filter(random), [random_filter(random)]):
        assert parse_asked(share.text) == share


def test_what_not_leaves_out_is_in_the_complement():
    rest = complement(parse_filter("region = 'eu'"))
    for attributes in ({}, {"region": 5}, {"region": "us"}, {"region": True}, {"region": b"eu"}):
        assert rest.matches(attributes)
    assert not rest.matches({"region": "eu"})


def test_nothing_and_everything():
    assert complement(parse_filter("TRUE")) == parse_filter("FALSE")
    assert complement(parse_filter("FALSE")) == parse_filter("TRUE")
    assert complement(parse_filter("EXISTS x")) == parse_filter("NOT EXISTS x")


def test_what_becomes_too_large_is_refused():
    parts = [parse_filter(f"a{n} = 1 OR b{n} = 2") for n in range(3)]
    with pytest.raises(FilterError, match="conjunctions"):
        divided(parse_filter("TRUE"), parts)
