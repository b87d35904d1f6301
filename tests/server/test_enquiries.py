"""Whom a broker asks for another one that does not answer, and what of the answers is news."""

import asyncio

import msgspec
import pytest

from pleach.core.messages import BrokerLocation, LocationReport
from pleach.net.enquiry import Whereabouts
from pleach.server.enquiries import Enquiries
from pleach.server.links import Port
from pleach.server.node import BrokerNode
from pleach.server.settings import BrokerSettings
from support.live.promotions import Host

SECONDS_MAX = 30
FORMER = "127.0.0.1:1"  # where nobody answers any more
TOLD = BrokerLocation(1, 4, 1, peer=FORMER, machine="c#1")


def found(at_home, *, told=TOLD, here=None):
    """Where a broker that was told of another one's place finds it. `here`: what its own machine knows, given its home.

    `at_home`: the view in which that one runs at home, with its host's address.
    """

    async def story():
        async with asyncio.timeout(SECONDS_MAX), Host("b") as home:
            if at_home:
                home.runs("b", at_home, home.address)
            node = BrokerNode(BrokerSettings("a"), None, 1, clock=lambda: 0.0, on_end=lambda *_: None)
            if told is not None:
                node.directory.known.handle("b", LocationReport({"b": told}, {}), now=0.0)
            node.directory.ask_host = lambda *_: here(home.address) if here is not None else None
            return await Enquiries("a", 1, node.directory).find("b") == home.address

    return asyncio.run(story())


@pytest.mark.parametrize("told", [None, TOLD])
def test_a_broker_is_found_at_home_by_who_has_a_vote_in_its_newest_view(told):
    """Its host there has the address that the broker has: it is news all the same, as another one is dialled."""
    assert found(6, told=told, here=lambda home: Whereabouts(6, is_there=False, address=home))


def test_a_broker_that_runs_on_this_machine_is_found_there():
    assert found(6, here=lambda home: Whereabouts(6, is_there=True, address=home))


def test_what_a_broker_says_of_itself_counts_more_than_what_a_host_knows_of_the_same_view():
    node = BrokerNode(BrokerSettings("a"), None, 1, clock=lambda: 0.0, on_end=lambda *_: None)
    told = msgspec.structs.replace(TOLD, client="127.0.0.1:2")
    node.directory.known.handle("b", LocationReport({"b": told}, {}), now=0.0)
    for view, address in ((3, told.client), (4, told.client), (5, "127.0.0.1:9")):
        node.directory.ask_host = lambda *_, view=view: Whereabouts(view, is_there=True, address="127.0.0.1:9")
        found = node.directory.whereabouts("b", Port.CLIENTS)
        assert found is not None
        assert found.address == address


def test_a_former_view_is_no_news():
    assert not found(3, here=lambda home: Whereabouts(6, is_there=False, address=home))


def test_who_knows_nothing_finds_nothing():
    assert not found(0)
    assert not found(6)
