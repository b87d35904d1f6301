"""Where a client looks for its broker, in which order, and for how long at each place."""

import asyncio

from pleach.client import broker_connections
from pleach.client.broker_connections import BrokerConnections, ConnectionOwner
from pleach.client.broker_places import ATTEMPT_SECONDS_MAX, ATTEMPT_SECONDS_MIN, BrokerPlaces, read_told
from pleach.net.addresses import ADDRESSES_MAX, Address
from pleach.net.enquiry import Whereabouts, enquiry

A, B, C = (Address("127.0.0.1", port) for port in (1, 2, 3))


def test_the_only_address_is_waited_for_long():
    assert BrokerPlaces([A]).seconds_for(A) == ATTEMPT_SECONDS_MAX


def test_one_of_several_is_left_soon_and_waited_for_longer_each_time():
    places = BrokerPlaces([A])
    places.fall_back_on([str(B)])
    waits = []
    for _ in range(5):
        waits.append(places.seconds_for(A))
        places.timed_out(A)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (ATTEMPT_SECONDS_MIN, ATTEMPT_SECONDS_MAX)
    assert places.seconds_for(B) == ATTEMPT_SECONDS_MIN


def test_who_did_not_answer_comes_last_until_the_broker_is_found():
    places = BrokerPlaces([A, B])
    places.fall_back_on([str(C)])
    places.timed_out(A)
    assert places.all == [B, C, A]
    places.answered()
    assert places.all == [A, B, C]


def test_where_the_broker_is_said_to_be_comes_first_also_if_it_did_not_answer_before():
    places = BrokerPlaces([A, B])
    places.timed_out(B)
    places.told([B])
    assert places.all == [B, A]
    assert places.seconds_for(B) == ATTEMPT_SECONDS_MIN


def test_there_is_a_bound():
    places = BrokerPlaces([A])
    places.told([Address("127.0.0.1", port) for port in range(10, 200)])
    places.fall_back_on([",".join(str(Address("127.0.0.1", port)) for port in range(200, 220)), "no address at all"])
    assert len(places.addresses) == ADDRESSES_MAX
    assert len(places.all) == ADDRESSES_MAX + 20


def test_what_is_unreadable_is_no_place():
    assert read_told("nonsense") == read_told("") == ()


def test_an_address_that_is_none_ends_no_search_at_others(monkeypatch):
    asked = []

    async def enquire(address, *_):
        asked.append(address)
        return Whereabouts(1, is_there=False, address="nonsense" if address == A else str(B))

    monkeypatch.setattr(broker_connections, "enquire", enquire)

    async def story():
        nothing = lambda *_: None  # noqa: E731
        connections = BrokerConnections("me", [A, C], ConnectionOwner(nothing, nothing, nothing, nothing))
        await connections.look_elsewhere(enquiry("me", 1, "b"), 1)
        assert {*asked} == {A, B, C}

    asyncio.run(story())


def test_whoever_is_redirected_keeps_the_places_that_it_knows_until_it_is_told_others():
    async def story():
        nothing = lambda *_: None  # noqa: E731
        connections = BrokerConnections("me", [A], ConnectionOwner(nothing, nothing, nothing, nothing))
        connections.current.peer = "a"
        connections.current.places.fall_back_on([str(C)])
        connections.go_to("b", str(B))
        assert connections.current.places.all == [B, A, C]
        await connections.cancel_tasks()

    asyncio.run(story())
