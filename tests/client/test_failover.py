"""Clients whose broker was promoted elsewhere: they find it, and their sessions go on."""

import asyncio
import socket
import time

import msgspec
import pytest

import pleach
from pleach.client.publish_once import publish_once
from pleach.client.reader import Reader
from pleach.client.short_connection import Identity
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.errors import ConnectError
from pleach.net.addresses import parse_addresses
from support.live.numbered_events import address, numbers, publish
from support.live.promotions import Host, promotions
from support.live.tiny_broker import until

SECONDS_MAX = 60
FOUND_SECONDS_MAX = 5.0  # the promise to a broker's own clients

pytestmark = pytest.mark.live


def story(tmp_path, tell):
    async def run():
        async with asyncio.timeout(SECONDS_MAX), Host("h") as h, promotions(tmp_path) as brokers:
            await brokers.begin("a", neighbours=("b",))
            await brokers.begin("b", h, peers={"a": brokers.ready["a"].peer})
            await until(lambda: brokers.knows("a", "b") == brokers.knows("b", "a") == 1)
            await tell(brokers, h)

    asyncio.run(run())


def fallbacks(client):
    return client._driver._connections.current.places._fallbacks


def test_sessions_go_on_where_the_broker_is_promoted(tmp_path):
    async def tell(brokers, h):
        async with pleach.connect(address(brokers, "b"), name="s") as s, pleach.connect(address(brokers, "a")) as p:
            wanted = await s.subscribe("n >= 0")
            await publish(p, 1, 3)
            assert await numbers(wanted, 3) == [1, 2, 3]
            assert fallbacks(s)
            await brokers.stop("b")
            await publish(p, 4, 3)
            own = asyncio.create_task(publish(s, 7, 3))
            began = time.monotonic()
            await brokers.promote("b", h)
            await own
            assert sorted(await numbers(wanted, 6)) == [4, 5, 6, 7, 8, 9]
            assert time.monotonic() - began < FOUND_SECONDS_MAX

    story(tmp_path, tell)


def test_a_client_leaves_a_broker_that_hangs_once_it_is_known_elsewhere(tmp_path):
    async def tell(brokers, h):
        options = {"heartbeat": 0.2, "patience": 3.0}
        async with pleach.connect(address(brokers, "b"), name="s", **options) as s:
            wanted = await s.subscribe("n >= 0")
            await until(lambda: fallbacks(s))
            hung = brokers.daemons["b"]
            hung.node.tick = lambda: None
            for connection in hung.connections:
                connection.pause_reading()
            own = asyncio.create_task(publish(s, 1, 3))
            task = brokers._tasks.pop("b")
            try:
                began = time.monotonic()
                await brokers.promote("b", h)
                await own
                assert await numbers(wanted, 3) == [1, 2, 3]
                assert time.monotonic() - began < options["patience"]
            finally:
                hung._end(0, "the test is over")
                await task

    story(tmp_path, tell)


def test_a_machine_that_does_not_answer_is_not_waited_for_long(tmp_path):
    async def tell(brokers, h):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            host, port = silent.getsockname()
            async with pleach.connect(f"{address(brokers, 'b')},{host}:{port}", name="s") as s:
                await until(lambda: fallbacks(s))
                began = time.monotonic()
                await brokers.stop("b")
                await brokers.promote("b", h)
                await publish(s, 1, 3)
                assert time.monotonic() - began < FOUND_SECONDS_MAX

    story(tmp_path, tell)


def test_a_client_that_was_away_finds_its_broker_by_what_its_state_knows(tmp_path):
    async def tell(brokers, h):
        options = {"name": "s", "state_dir": tmp_path / "state"}
        known = address(brokers, "b")
        async with pleach.connect(known, **options) as s, pleach.connect(address(brokers, "a")) as p:
            await s.subscribe("n >= 0", name="all")
            await until(lambda: fallbacks(s))
            await publish(s, 1, 1)
            await s.close()
            await brokers.stop("b")
            await publish(p, 2, 2)
            await brokers.promote("b", h)
            await until(lambda: brokers.knows("a", "b") == 2)
            async with pleach.connect(known, **options) as again:
                (wanted,) = again.restored
                assert await numbers(await again.subscribe(wanted.filter, name="all"), 3) == [1, 2, 3]

    story(tmp_path, tell)


# Without a process of their own ----------------------------------------------------------------------------------


def test_a_reader_goes_on_with_nothing_but_its_position(tmp_path):
    async def tell(brokers, h):
        only = parse_addresses(address(brokers, "b"))
        reader = Reader("r", only, patience=20.0)
        async with pleach.connect(address(brokers, "a")) as p:
            begin = await asyncio.to_thread(reader.subscribe, parse_filter("n >= 0"), time.time_ns())
            assert begin.fallbacks == (brokers.ready["a"].client,)
            await publish(p, 1, 3)
            await until(lambda: brokers.node("b").endpoint.sessions["r"].unconfirmed >= 3)
            before = await asyncio.to_thread(reader.reach, begin)
            await brokers.stop("b")
            await publish(p, 4, 3)
            await brokers.promote("b", h)
            await until(lambda: brokers.node("b").endpoint.sessions["r"].unconfirmed >= 6)
            again = Reader("r", only, patience=20.0)  # another process
            after = await asyncio.to_thread(again.reach, before)
            assert (after.view, after.address) == (2, brokers.ready["b"].client)

            def read():
                return [event.attributes["n"] for run in again.events(begin, begin.at, after.at) for event in run]

            assert await asyncio.to_thread(read) == [1, 2, 3, 4, 5, 6]
            await asyncio.to_thread(again.confirm, after)
            assert brokers.node("b").endpoint.sessions["r"].unconfirmed == 0

    story(tmp_path, tell)


def test_a_batch_goes_on_where_the_broker_is_promoted(tmp_path):
    async def tell(brokers, h):
        epoch = time.time_ns()
        events = [Event(EventId("w", epoch, number), {"n": number}, bytes(9_000)) for number in range(1, 2_001)]
        only = parse_addresses(address(brokers, "b"))
        async with pleach.connect(address(brokers, "a")) as s:
            wanted = await s.subscribe("n >= 0")
            writing = asyncio.to_thread(publish_once, only, Identity("w", epoch), events, patience=30.0)
            task = asyncio.create_task(writing)
            got = await numbers(wanted, 10)
            await brokers.stop("b")
            await brokers.promote("b", h)
            await task
            assert [*got, *await numbers(wanted, 1_990)] == [*range(1, 2_001)]

    story(tmp_path, tell)


def test_an_older_view_is_not_read(tmp_path):
    async def tell(brokers, h):
        only = parse_addresses(address(brokers, "b"))
        reader = Reader("r", only, patience=1.0)
        begin = await asyncio.to_thread(reader.subscribe, parse_filter("n >= 0"), time.time_ns())
        later = msgspec.structs.replace(begin, view=2)
        with pytest.raises(ConnectError, match="in view 1, not b in view 2"):
            await asyncio.to_thread(reader.reach, later)

    story(tmp_path, tell)
