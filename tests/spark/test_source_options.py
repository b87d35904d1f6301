"""Options of `format("pleach")`: what is wrong is named, with what would be right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events.language import parse_filter
from pleach.errors import FilterError, SettingsError
from pleach.spark.source.options import batch_options, sink_options, split_texts, stream_options

STREAM = {"brokers": "h:1,h:2,h:3", "name": "n"}
REGIONS = st.sampled_from([None, "eu", "us", "asia", 5, True, b"eu"])


@pytest.mark.parametrize(
    ("read", "given_options", "said"),
    [
        (stream_options, {"brokers": "h:1"}, "'name': missing"),
        (stream_options, {"name": "n"}, "'brokers': missing"),
        (stream_options, {**STREAM, "name": "a\nb"}, "is no name"),
        (stream_options, {**STREAM, "brokers": "h"}, "'h' is no address"),
        (stream_options, {**STREAM, "filtre": "x"}, "'filtre': no such option here; known are brokers, name"),
        (stream_options, {**STREAM, "patience": "soon"}, "'soon' is no number"),
        (stream_options, {**STREAM, "maxRowsPerBatch": "-1"}, "'-1' is no number"),
        (stream_options, {**STREAM, "split": "; ".join(f"x = {n}" for n in range(65))}, "65 parts"),
        (stream_options, {**STREAM, "split": "; ".join(f"a{n} = 1 OR b{n} = 1" for n in range(3))}, "split by one"),
        (sink_options, {"brokers": "h:1"}, "'name': missing"),
        (batch_options, {"filter": "x = 1"}, "'path': missing"),
    ],
)
def test_what_is_wrong_is_named(read, given_options, said):
    with pytest.raises(SettingsError) as caught:
        read(given_options)
    assert said in str(caught.value)
    assert 'format("pleach")' in str(caught.value)


@pytest.mark.parametrize("option", ["filter", "split"])
def test_a_filter_that_does_not_parse_is_shown_with_its_column(option):
    with pytest.raises(FilterError, match=r"column 9") as caught:
        stream_options({**STREAM, option: "price > AND x = 1"})
    assert repr(option) in str(caught.value)
    assert "^" in str(caught.value)


def test_names_of_options_may_be_written_in_any_case():
    assert stream_options({**STREAM, "MAXROWSPERBATCH": "7"}).rows_max == 7
    assert sink_options({**STREAM, "orderBy": " a, b"}).order_by == ("a", "b")


def test_without_a_split_there_is_one_partition_and_every_broker_may_have_it():
    (share,) = stream_options({**STREAM, "filter": "x > 1"}).shares
    assert (share.name, share.filter) == ("n", parse_filter("x > 1"))
    assert [address.port for address in share.addresses] == [1, 2, 3]


def test_each_part_of_a_split_begins_at_a_broker_of_its_own():
    shares = stream_options({**STREAM, "split": "region = 'eu'; region = 'us'; region = 'a;b'"}).shares
    assert [share.name for share in shares] == ["n.0", "n.1", "n.2", "n.3"]
    assert [[address.port for address in share.addresses] for share in shares] == [
        [1, 2, 3],
        [2, 3, 1],
        [3, 1, 2],
        [1, 2, 3],
    ]


def test_semicolons_within_quotes_are_a_filters_own():
    assert split_texts("a = 'x;''y'; \"b;c\" = 1 ;; ") == ["a = 'x;''y'", '"b;c" = 1']


@given(REGIONS, st.integers(0, 100), st.booleans())
def test_exactly_one_partition_gets_an_event_that_matches(region, price, has_price):
    shares = stream_options(
        {**STREAM, "filter": "price > 50", "split": "region = 'eu'; region IN ('us', 'eu'); price < 60"}
    ).shares
    attributes = ({"price": price} if has_price else {}) | ({} if region is None else {"region": region})
    assert sum(share.filter.matches(attributes) for share in shares) == (has_price and price > 50)
