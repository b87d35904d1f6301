"""How a broker enters a ring: what it asks before, and how often."""

import asyncio

import pytest

from pleach.core.messages import Peer
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.config import RingConfig
from pleach.core.ring.keys import Circle
from pleach.server.metrics import DatagramCounters
from pleach.server.ring import driver
from pleach.server.ring.driver import RingDriver
from pleach.server.ring.entrance import FINDS_MAX, enter_ring
from support.ports import free_port

TERMS = {"routing": "covering"}


class Host(RingDriver):
    """`losses`: so many of its questions who owns a key are lost on their way."""

    def __init__(self, name, losses=0):
        self.port = free_port()
        me = Peer(Circle(32).key_of(name), name, f"127.0.0.1:{self.port}")
        super().__init__(me, RingConfig(), DatagramCounters(), is_open=lambda: True, terms=TERMS)
        self.losses, self.finds = losses, 0

    async def find(self, key, through):
        self.finds += 1
        return await super().find(key, through) if self.finds > self.losses else None


@pytest.mark.parametrize(("losses", "finds"), [(0, 1), (1, 2), (FINDS_MAX, FINDS_MAX)])
def test_it_asks_for_a_broker_of_its_name_until_it_is_answered_and_not_for_ever(monkeypatch, losses, finds):
    monkeypatch.setattr(driver, "FIND_SECONDS", 30)  # no answer is late

    async def story():
        member, newcomer = Host("a"), Host("b", losses)
        try:
            for host in (member, newcomer):
                await host.open("127.0.0.1", host.port)
            member.found()
            async with asyncio.timeout(30):
                await enter_ring(newcomer, [member.me.address], TERMS, 30)
            assert newcomer.host.phase is RingPhase.MEMBER
            assert newcomer.finds == finds
        finally:
            newcomer.close()
            member.close()

    asyncio.run(story())
