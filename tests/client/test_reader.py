"""A subscription that is read in ranges: nothing is lost or doubled, whatever happens between two looks at it."""

import asyncio
import shutil
import time

import pytest

import pleach
from pleach.client.reader import Reader
from pleach.core.events.language import parse_filter
from pleach.errors import ClientFencedError, ConnectError, SessionLostError, SubscribeRefusedError
from pleach.net.addresses import parse_addresses
from pleach.server.leaving import Leaving
from pleach.server.settings import BrokerLimits
from support.live.daemons import Running, chain
from support.live.tiny_broker import until

SECONDS_MAX = 200
EVERYTHING = parse_filter("n >= 0")


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, SECONDS_MAX))


def reader_at(running, *brokers, name="r", patience=60.0):
    addresses = ",".join(running.ready[broker].client for broker in brokers)
    return Reader(name, parse_addresses(addresses), patience=patience)


def epoch():
    return time.time_ns()


async def publish(running, broker, first, count, name="p"):
    async with pleach.connect(running.ready[broker].client, name=f"{name}{first}") as client:
        futures = [await client.publish_windowed({"n": n}) for n in range(first, first + count)]
        await asyncio.gather(*futures)


def numbers(reader, place, after, upto):
    return [event.attributes["n"] for run in reader.events(place, after, upto) for event in run]


async def read_on(reader, place):
    """Everything from a place as far as there is something; and the place behind it."""
    further = await asyncio.to_thread(reader.reach, place)
    return await asyncio.to_thread(numbers, reader, further, place.at, further.at), further


async def read_until(reader, place, count):
    seen = []
    async with asyncio.timeout(100):
        while len(seen) < count:
            more, place = await read_on(reader, place)
            seen += more
            if place.next_broker:
                place = await asyncio.to_thread(reader.follow, place)
    return seen, place


def test_a_range_is_read_as_often_as_one_likes_and_is_gone_once_it_is_confirmed(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            reader = reader_at(running, "c")
            start = await asyncio.to_thread(reader.subscribe, EVERYTHING, epoch())
            await publish(running, "a", 0, 3_000)
            seen, end = await read_until(reader, start, 3_000)
            assert seen == list(range(3_000))
            assert await asyncio.to_thread(numbers, reader, end, start.at, end.at) == seen
            await asyncio.to_thread(reader.confirm, end)
            assert running.node("c").endpoint.sessions["r"].unconfirmed == 0
            assert await read_on(reader, end) == ([], end)
            with pytest.raises(SessionLostError, match="asks for what follows"):
                await asyncio.to_thread(numbers, reader, start, start.at, end.at)

    run(story())


def test_a_limit_bounds_what_a_look_brings(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            reader = reader_at(running, "c")
            place = await asyncio.to_thread(reader.subscribe, EVERYTHING, epoch())
            for first in range(0, 100, 10):
                await publish(running, "c", first, 10)
            seen = []
            while len(seen) < 100:
                further = await asyncio.to_thread(reader.reach, place, messages_max=20)
                brought = await asyncio.to_thread(numbers, reader, place, place.at, further.at)
                assert len(brought) <= 20
                assert further.at > place.at
                seen, place = seen + brought, further
            assert seen == list(range(100))

    run(story())


def test_a_broker_that_comes_back_with_its_memory_is_read_on(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            reader = reader_at(running, "c", "a", "b")
            start = await asyncio.to_thread(reader.subscribe, EVERYTHING, epoch())
            await publish(running, "a", 0, 500)
            _, half = await read_until(reader, start, 500)
            await running.stop("c")
            away = asyncio.create_task(asyncio.to_thread(numbers, reader, half, start.at, half.at))
            await publish(running, "a", 500, 100)
            await running.start("c", neighbours=("b",))
            assert await away == list(range(500))
            seen, _ = await read_until(reader, half, 100)
            assert seen == list(range(500, 600))

    run(story())


def test_a_broker_that_leaves_sends_the_reader_on_and_nothing_is_lost(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            reader = reader_at(running, "c")
            start = await asyncio.to_thread(reader.subscribe, EVERYTHING, epoch())
            await publish(running, "a", 0, 300)
            leaving = asyncio.create_task(running.remove("c"))
            await until(lambda: "r" in running.node("c").features[Leaving].waits_for)
            await publish(running, "a", 300, 300)
            first, at_end = await read_on(reader, start)
            assert at_end.next_broker == "b"
            assert await asyncio.to_thread(reader.reach, at_end) == at_end
            moved = await asyncio.to_thread(reader.follow, at_end)
            assert (moved.broker, moved.at) == ("b", moved.since)
            assert await asyncio.to_thread(reader.follow, at_end) == moved  # as after a crash in between
            assert (await leaving).refusal == ""
            assert await running.ended("c") == 0
            rest, _ = await read_until(reader, moved, 600 - len(first))
            assert first + rest == list(range(600))

    run(story())


def test_a_broker_that_left_without_us_is_an_error(tmp_path):
    async def story():
        async with chain(tmp_path, limits=BrokerLimits(leave_seconds=1)) as running:
            place = await asyncio.to_thread(reader_at(running, "c", "b").subscribe, EVERYTHING, epoch())
            reader = reader_at(running, "c", "b", patience=0.5)
            await publish(running, "a", 0, 10)
            await running.remove("c")
            with pytest.raises((SessionLostError, ConnectError)):
                await asyncio.to_thread(reader.reach, place)

    run(story())


def test_a_newer_life_of_the_name_fences_the_older_one(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            reader = reader_at(running, "c")
            old = await asyncio.to_thread(reader.subscribe, EVERYTHING, epoch())
            new = await asyncio.to_thread(reader.subscribe, EVERYTHING, epoch())
            with pytest.raises(ClientFencedError):
                await asyncio.to_thread(reader.reach, old)
            await publish(running, "a", 0, 10)
            assert (await read_until(reader, new, 10))[0] == list(range(10))
            with pytest.raises(ClientFencedError):
                await asyncio.to_thread(reader.subscribe, EVERYTHING, old.epoch)

    run(story())


def test_a_broker_without_memory_is_an_error_and_no_silent_beginning(tmp_path):
    async def story():
        running = Running(tmp_path)
        try:
            await running.start("a")
            reader = reader_at(running, "a")
            place = await asyncio.to_thread(reader.subscribe, EVERYTHING, epoch())
            await running.stop("a")
            shutil.rmtree(tmp_path / "a")
            await running.start("a")
            with pytest.raises(SessionLostError, match=r"nothing is known|memory"):
                await asyncio.to_thread(reader.reach, place)
        finally:
            await running.stop_all()

    run(story())


def test_a_reader_that_let_too_much_pile_up_is_told(tmp_path):
    async def story():
        async with chain(tmp_path, limits=BrokerLimits(outbox_bytes_per_client=20_000)) as running:
            reader = reader_at(running, "c")
            place = await asyncio.to_thread(reader.subscribe, EVERYTHING, epoch())
            await publish(running, "c", 0, 2_000)
            with pytest.raises(SessionLostError, match="gave up"):
                await asyncio.to_thread(reader.reach, place)

    run(story())


def test_a_reader_is_not_forgotten_while_it_reads_and_is_afterwards(tmp_path):
    async def story():
        async with chain(tmp_path, limits=BrokerLimits(client_absence_seconds=1)) as running:
            reader, place = reader_at(running, "c"), None
            while place is None:
                place = await read_for(2.5, reader, absence_max=1.0)
            await until(lambda: "r" not in running.node("c").endpoint.sessions)
            with pytest.raises(SessionLostError, match="nothing is known"):
                await asyncio.to_thread(reader.reach, place)

    run(story())


async def read_for(seconds, reader, *, absence_max):
    """Where it came to; None if it paused for as long as it may be away: this machine has much else to do."""
    place = await asyncio.to_thread(reader.subscribe, EVERYTHING, epoch())
    started = asked_at = time.monotonic()
    while time.monotonic() < started + seconds:
        asked_before, asked_at = asked_at, time.monotonic()
        try:
            place = await asyncio.to_thread(reader.reach, place)
        except SessionLostError:
            assert time.monotonic() - asked_before >= absence_max, "it was forgotten while it read"
            return None
    return place


def test_nobody_answers(tmp_path):
    reader = Reader("r", parse_addresses("127.0.0.1:1"), patience=0.1)
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1"):
        reader.subscribe(EVERYTHING, epoch())


def test_a_refused_subscription_says_why(tmp_path):
    async def story():
        async with chain(tmp_path, limits=BrokerLimits(subscriptions=1)) as running:
            await asyncio.to_thread(reader_at(running, "c", name="q").subscribe, EVERYTHING, epoch())
            with pytest.raises(SubscribeRefusedError, match="its limit"):
                await asyncio.to_thread(reader_at(running, "c").subscribe, EVERYTHING, epoch())

    run(story())


def test_the_session_of_a_neighbour_is_not_read(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            place = await asyncio.to_thread(reader_at(running, "c").subscribe, EVERYTHING, epoch())
            stranger = reader_at(running, "c", name="b", patience=0.1)
            with pytest.raises(ConnectError, match="no client"):
                await asyncio.to_thread(stranger.reach, place)

    run(story())
