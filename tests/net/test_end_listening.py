"""A door that closes while someone is coming in."""

import asyncio
import socket

import pytest

from pleach.harness.switch import Switch
from pleach.net.connection import Handlers, end_listening, listen
from support.live.link_proxy import LinkProxy


def test_who_has_just_come_in_is_made_known_though_the_door_closes():
    """Else nobody closes its socket: asyncio forgets whom it has accepted for a server that is closed."""

    async def story():
        made = []
        handlers = Handlers(lambda *_: None, lambda *_: None, made.append)
        server = await listen("127.0.0.1", 0, handlers)
        with socket.create_connection(server.sockets[0].getsockname()[:2]):
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # accepted, not yet made known
            assert not made
            await end_listening([server])
            await asyncio.sleep(0)
            assert len(made) == 1
            made[0].abort()
            await asyncio.sleep(0)

    asyncio.run(story())


def test_nobody_comes_in_afterwards():
    async def story():
        made = []
        server = await listen("127.0.0.1", 0, Handlers(lambda *_: None, lambda *_: None, made.append))
        address = server.sockets[0].getsockname()[:2]
        await end_listening([server])
        with socket.socket() as visitor:
            assert visitor.connect_ex(address) != 0
        assert not made

    asyncio.run(story())


def link():
    return LinkProxy(("127.0.0.1", 1), (0.0, 0.0), "seed")


def switch():
    return Switch(lambda *_: (0.0, 0.0), "seed")


@pytest.mark.parametrize("turns", range(4))  # of the loop, by which the connection is ever more known
@pytest.mark.parametrize("make", [link, switch])
def test_a_proxy_that_stops_sends_away_who_has_just_come_in(make, turns):
    async def story():
        proxy, loop = make(), asyncio.get_running_loop()
        await proxy.start()
        with socket.create_connection(proxy.address) as visitor:
            visitor.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            await proxy.stop()
            assert await asyncio.wait_for(heard(loop, visitor), 60.0) == b""

    asyncio.run(story())


async def heard(loop, visitor):
    try:
        return await loop.sock_recv(visitor, 1)
    except ConnectionResetError:
        return b""
