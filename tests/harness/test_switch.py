"""A switch between machines: who dials whom, and what becomes of it while a link is cut or held."""

import asyncio
import contextlib
from itertools import pairwise

import pytest

from pleach.harness.switch import Switch
from pleach.net.addresses import Address

MOMENT = 0.05  # in which nothing comes that is held
SECONDS_MAX = 30.0


class Echo:
    """A process of machine b: it keeps what it gets, and answers."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.ended = asyncio.Event()
        self._server = None

    async def start(self, host):
        self._server = await asyncio.start_server(self._serve, host, 0)
        return Address(*self._server.sockets[0].getsockname()[:2])

    async def _serve(self, reader, writer):
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1_000):
                self.got += data
                writer.write(data.upper())
        self.ended.set()
        writer.transport.abort()

    async def stop(self):
        self._server.close()
        await self._server.wait_closed()


def told(story):
    """Run a story with a switch, a process on machine b, and its address."""

    async def play():
        switch, echo = Switch(lambda *_: (0.0, 0.0), "seed"), Echo()
        await switch.start()
        place = await echo.start(switch.host_of("b"))
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await story(switch, echo, place)
        finally:
            await switch.stop()
            await echo.stop()

    asyncio.run(play())


async def dialled(switch, place, who="a"):
    return await asyncio.open_connection(sock=await switch.port_for(who).dial(place))


async def is_pending(work):
    """Whether it has not ended after a moment."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait([task], timeout=MOMENT)
    return task if not done else None


def test_links_are_those_of_machines_whatever_port_is_dialled():
    async def story(switch, _echo, place):
        assert not switch.has_carried("a", "b")
        reader, writer = await dialled(switch, place)
        writer.write(b"x")
        assert await reader.read(1) == b"X"
        assert switch.has_carried("b", "a")
        assert not switch.has_carried("c", "b")
        writer.transport.abort()

    told(story)


def test_every_machine_has_an_address_of_its_own():
    switch = Switch(lambda *_: (0.0, 0.0), "seed")
    hosts = [switch.host_of(f"m{number}") for number in range(600)]
    assert len({*hosts}) == 600
    assert switch.host_of("m7") == hosts[7]
    assert all(a != b for a, b in pairwise(hosts))


def test_an_advertised_address_leads_to_where_the_process_listens_now():
    async def story(switch, _echo, place):
        advertised = Address(switch.host_of("b"), 1)
        with pytest.raises(OSError, match="does not connect"):
            await dialled(switch, advertised)
        switch.listens(advertised, place)
        reader, writer = await dialled(switch, advertised)
        writer.write(b"x")
        assert await reader.read(1) == b"X"
        writer.transport.abort()
        switch.listens(advertised, None)
        with pytest.raises(OSError, match="does not connect"):
            await dialled(switch, advertised)

    told(story)


def test_a_cut_ends_connections_and_refuses_new_ones_and_of_this_link_only():
    async def story(switch, echo, place):
        reader, first = await dialled(switch, place)
        other_reader, other_writer = await dialled(switch, place, "c")
        switch.link("b", "a").cut()
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read(1) == b""
        await echo.ended.wait()
        with pytest.raises(OSError, match="does not connect"):
            await dialled(switch, place)
        other_writer.write(b"x")
        assert await other_reader.read(1) == b"X"
        switch.link("a", "b").heal()
        reader, writer = await dialled(switch, place)
        writer.write(b"y")
        assert await reader.read(1) == b"Y"
        for each in (first, writer, other_writer):
            each.transport.abort()

    told(story)


@pytest.mark.parametrize("held", ["a", "b"])
def test_what_is_held_comes_later_and_in_one_direction_only(held):
    async def story(switch, echo, place):
        reader, writer = await dialled(switch, place)
        switch.link("a", "b").hold(held)
        writer.write(b"xyz")
        waiting = await is_pending(reader.readexactly(3))
        assert waiting
        assert bytes(echo.got) == (b"" if held == "a" else b"xyz")
        switch.link("a", "b").release(held)
        assert await waiting == b"XYZ"
        writer.transport.abort()

    told(story)


@pytest.mark.parametrize("held", ["a", "b"])
def test_no_connection_is_made_while_either_side_is_held(held):
    async def story(switch, _echo, place):
        switch.link("a", "b").hold(held)
        waiting = await is_pending(dialled(switch, place))
        assert waiting
        gives_up = await is_pending(dialled(switch, place))
        gives_up.cancel()
        switch.link("a", "b").release(held)
        reader, writer = await waiting
        writer.write(b"x")
        assert await reader.read(1) == b"X"
        writer.transport.abort()

    told(story)


def test_that_one_side_has_ended_is_held_too():
    async def story(switch, echo, place):
        _reader, writer = await dialled(switch, place)
        writer.write(b"x")
        switch.link("a", "b").hold("a")
        writer.transport.abort()
        waiting = await is_pending(echo.ended.wait())
        assert waiting
        switch.link("a", "b").release("a")
        await waiting

    told(story)


def test_who_is_held_twice_is_released_twice():
    async def story(switch, _echo, place):
        link = switch.link("a", "b")
        link.hold("a")
        link.hold("a")
        link.release("a")
        waiting = await is_pending(dialled(switch, place))
        assert waiting
        link.release("a")
        _reader, writer = await waiting
        writer.transport.abort()

    told(story)
