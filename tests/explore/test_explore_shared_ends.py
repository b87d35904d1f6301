"""Every order of an exchange in which r and a share a broker: u = x, or y = v.

The cycle in `cycles.py` has four ends apart. Where two are one broker, what is relayed to a is taken on the spot, and
what still comes over r counts as said over a: ways through the code that the other cycle does not take.
"""

from __future__ import annotations

import msgspec
import pytest

from pleach.core.messages import RequestExchange
from pleach.explore.search import ExploreOutcome
from pleach.scenario.script import ScriptedRequests, script_of
from support.explore.chains import Chain, advertise, client, publish, unsubscribe
from support.explore.cycles import AGAIN, explored

CORRECTED = "advanced-coordinated"
SHAPES = {  # brokers, r, a
    "u = x": ("123", "12", "13"),
    "y = v": ("123", "23", "13"),
    "u = x of four": ("1234", "12", "14"),
    "y = v of four": ("1234", "34", "14"),
}
OF_FOUR = [pytest.param(shape, marks=pytest.mark.slow) for shape in ("u = x of four", "y = v of four")]
ALL = ["u = x", "y = v", *OF_FOUR]
ORDERS = ["causal", "fifo"]
ACROSS = [(0, -1), (-1, 0)]  # from a publisher to a subscriber, by their places on the path
WAYS = [*ACROSS, *(pytest.param(1, place, marks=pytest.mark.slow) for place in (0, -1))]


def shaped(shape, *steps, clients=(), exchange=CORRECTED, **changes):
    brokers, old, new = SHAPES[shape]
    both = f"do = 'exchange'\nremove = {list(old)}\nadd = {list(new)}"
    chain = Chain(brokers=brokers, clients=clients, steps=(both, *steps)).but(**changes)
    return msgspec.structs.replace(chain.scenario(), exchange=exchange)


def at(shape, place):
    return SHAPES[shape][0][place]


def check(scenario):
    result = explored(scenario)
    assert result.outcome is ExploreOutcome.CLEAN, result.finding
    assert result.complete


# The shapes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "cut"), [*zip(SHAPES, (0, 1, 0, 2), strict=True)])
def test_the_shapes_are_what_they_are_called(shape, cut):
    request = RequestExchange("1.1", [*SHAPES[shape][0]], cut, CORRECTED)
    assert script_of(shaped(shape)).actions == {"1": (ScriptedRequests(request),)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("publisher", "subscriber"), ACROSS)
def test_the_check_sees_what_the_strawman_breaks(shape, publisher, subscriber):
    clients = (client("p", at(shape, publisher)), client("s", at(shape, subscriber), "price > 50"))
    found = explored(shaped(shape, publish("p", 60), clients=clients, exchange="strawman")).kinds
    assert {"lost", "duplicate"} & set(found)


# What changes meanwhile ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ALL)
@pytest.mark.parametrize("ordering", ORDERS)
@pytest.mark.parametrize(("publisher", "subscriber"), WAYS)
def test_a_subscription_ends_and_begins_again(shape, ordering, publisher, subscriber):
    clients = (client("p", at(shape, publisher)), client("s", at(shape, subscriber), "price > 50"))
    check(shaped(shape, *AGAIN, publish("p", 60), clients=clients, ordering=ordering))


@pytest.mark.parametrize("shape", ALL)
@pytest.mark.parametrize("ordering", ORDERS)
@pytest.mark.parametrize(("publisher", "subscriber"), WAYS)
def test_a_wide_filter_goes_that_hid_a_narrow_one(shape, ordering, publisher, subscriber):
    """Chains route by covering."""
    clients = (client("p", at(shape, publisher)), client("s", at(shape, subscriber), "price > 50", "price > 10"))
    check(shaped(shape, unsubscribe("s", "price > 10"), publish("p", 60), clients=clients, ordering=ordering))


@pytest.mark.parametrize("shape", ALL)
@pytest.mark.parametrize(("publisher", "subscriber"), ACROSS)
def test_an_advertisement_comes(shape, publisher, subscriber):
    advertising = client("p", at(shape, publisher)) + "\nadvertise = ['price > 65']"
    clients = (advertising, client("s", at(shape, subscriber), "price > 50"))
    steps = (advertise("p", "price > 0"), publish("p", 60))
    check(shaped(shape, *steps, clients=clients, advertisements=True))


# Order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("places", [(0, -1, 1), (0, 1, -1), (1, 0, -1), (1, -1, 0), (-1, 0, 1), (-1, 1, 0)])
def test_nobody_sees_an_answer_before_its_question(shape, places):
    asks, answers, sees = (at(shape, place) for place in places)
    answering = client("q", answers, "price > 50") + "\nreply = { to = 'price > 50', with = { answer = 1 } }"
    clients = (client("p", asks), answering, client("s", sees, "price > 50", "answer > 0"))
    check(shaped(shape, publish("p", 60), clients=clients))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("publisher", "subscriber"), ACROSS)
def test_events_of_one_publisher_stay_in_order(shape, publisher, subscriber):
    clients = (client("p", at(shape, publisher)), client("s", at(shape, subscriber), "price > 50"))
    check(shaped(shape, publish("p", 60), publish("p", 70), clients=clients, ordering="fifo"))
