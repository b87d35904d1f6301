"""What links and brokers cost, as a file says it: the narrowest word counts, and what makes no sense is refused."""

import pytest

from pleach.core.optimise.prices import Prices, read_prices
from pleach.errors import PriceError

FILE = """
link = 40.0
within = 1.0
processing = 0.2
[zones]
eu = ["rome", "paris"]
us = ["austin", "boston"]
[[between]]
zones = ["us", "eu"]
cost = 45.0
[[links]]
ends = ["rome", "boston"]
cost = 60.0
[brokers]
rome = 0.5
"""
BROKERS = ["rome", "paris", "austin", "boston", "oslo"]


def test_the_narrowest_word_counts():
    costs = read_prices(FILE).costs(BROKERS)
    assert costs.of_link("paris", "rome") == 1.0
    assert costs.of_link("paris", "boston") == 45.0
    assert costs.of_link("boston", "rome") == 60.0
    assert costs.of_link("oslo", "rome") == 40.0
    assert (costs.processing["rome"], costs.processing["oslo"]) == (0.5, 0.2)
    assert len(costs.communication) == 10


def test_without_a_file_links_are_counted():
    costs = Prices().costs(["a", "b", "c"])
    assert {*costs.communication.values()} == {1.0}
    assert {*costs.processing.values()} == {0.0}
    assert read_prices("") == Prices()


def test_links_within_a_zone_cost_what_others_do_unless_something_is_said():
    assert read_prices('link = 7.0\n[zones]\neu = ["a", "b"]').costs("ab").of_link("a", "b") == 7.0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("link = ", "costs: invalid TOML"),
        ("links = 3", r"costs: links: Expected `array`"),
        ("lnik = 3.0", "unknown field `lnik`"),
        ("link = -1.0", "costs: link: -1.0; a cost is a number, 0 or more"),
        ("[brokers]\na = inf", "costs: brokers: a: inf"),
        ('[zones]\neu = ["a"]\nus = ["a"]', "'a' is in 'eu' and in 'us'"),
        ('[zones]\neu = ["a"]\n[[between]]\nzones = ["eu", "euu"]\ncost = 1.0', "no zone 'euu'; did you mean 'eu'"),
    ],
)
def test_what_cannot_be_used_is_refused(text, reason):
    with pytest.raises(PriceError, match=reason):
        read_prices(text)


@pytest.mark.parametrize(
    "text", ["[brokers]\nrmoe = 1.0", '[zones]\neu = ["rmoe"]', "links = [{ends=['oslo','rmoe'],cost=1.0}]"]
)
def test_a_price_for_nobody_is_a_misspelling(text):
    with pytest.raises(PriceError, match=r"costs\.toml: 'rmoe' is not a broker of the tree; did you mean 'rome'"):
        read_prices(text, source="costs.toml").costs(BROKERS)


def test_brokers_say_where_they_are_if_the_file_does_not():
    prices = read_prices('link = 40.0\nwithin = 1.0\n[[between]]\nzones = ["eu", "us"]\ncost = 45.0')
    zones = {"rome": "eu", "paris": "eu", "boston": "us"}
    costs = prices.in_zones(zones).costs([*zones, "oslo"])
    assert [costs.of_link("rome", other) for other in ("paris", "boston", "oslo")] == [1.0, 45.0, 40.0]
    assert read_prices(FILE).in_zones(zones) == read_prices(FILE)


def test_zones_that_nobody_is_in_are_refused():
    prices = read_prices('[[between]]\nzones = ["eu", "uss"]\ncost = 45.0')
    with pytest.raises(PriceError, match="there is no zone 'uss'; did you mean 'us'"):
        prices.in_zones({"rome": "eu", "boston": "us"}).costs(["rome", "boston"])
    with pytest.raises(PriceError, match="there is no zone 'eu'; there are none"):
        prices.costs(["rome", "boston"])
