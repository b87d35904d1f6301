"""A former neighbour that does not come back: others are not asked to pass its connection on for ever."""

import asyncio

import pytest

from pleach.core.effects import LinkDown, LinkUp
from pleach.core.messages import BrokerLocation, LocationReport
from pleach.server.dialling import GONE_SECONDS
from pleach.server.node import BrokerNode
from pleach.server.relay.relayed_links import RelayedLinks
from pleach.server.relay.settings import RelaySettings
from pleach.server.settings import BrokerSettings

SPELL = 60.0  # seconds that are looked at


async def asked(effects, *, after):
    """For whom r was asked in a minute, so many seconds after they went away without a word."""
    now, attempts = 0.0, []

    async def dial(_peer, _address):
        return False

    async def dial_through(peer, _relay):
        attempts.append(peer)
        return False

    settings = BrokerSettings("b", neighbours=("z",), relay=RelaySettings())
    node = BrokerNode(
        settings, None, 1, clock=lambda: now, on_end=lambda *_: None, dial=dial, dial_through=dial_through
    )
    known = BrokerLocation(1, 0, 1, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "", {})
    node.endpoint.request(LocationReport({"r": known}, {}), now=now)
    node.endpoint.perform(effects, now=now)
    links = node.features[RelayedLinks]
    links.tick(now)
    for now in range(int(after), int(after + SPELL)):
        links.tick(float(now))
        await asyncio.gather(*links._tasks.values())
        await asyncio.sleep(0)  # they are noted as done
    return {*attempts}


@pytest.mark.parametrize("after", [0.0, 2 * GONE_SECONDS])
def test_a_neighbour_is_asked_for_as_long_as_it_is_one(after):
    assert asyncio.run(asked([], after=after)) == {"z"}


@pytest.mark.parametrize("after", [0.0, 2 * GONE_SECONDS])
def test_whom_this_broker_is_done_with_is_asked_for_only_so_long(after):
    effects = [LinkUp("y"), LinkDown("y")]
    assert ("y" in asyncio.run(asked(effects, after=after))) is (after == 0.0)
