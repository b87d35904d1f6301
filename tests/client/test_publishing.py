"""Publishing that may be done again: each event is published once, wherever the work was broken off."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pleach
from pleach.client.publish_once import PublishLedger, publish_once
from pleach.client.short_connection import Identity
from pleach.core.events.event import Event, EventId
from pleach.core.messages import Attached, Published, PublishRefused, encode
from pleach.errors import ClientFencedError, ConnectError, PublishRefusedError, SessionLostError
from pleach.net.addresses import parse_addresses
from pleach.server.absence import AbsentClients
from support.live.daemons import Running, chain
from support.live.tiny_broker import take, until

SECONDS_MAX = 200


@contextlib.asynccontextmanager
async def one(directory, **settings):
    """A single broker, a."""
    running = Running(directory)
    try:
        await running.start("a", **settings)
        yield running
    finally:
        await running.stop_all()


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, SECONDS_MAX))


def events(count, epoch=1, size=0):
    return [Event(EventId("sink", epoch, n + 1), {"n": n}, bytes(size)) for n in range(count)]


async def publish(running, broker, given_events, epoch=1, patience=60.0):
    address = parse_addresses(running.ready[broker].client)
    await asyncio.to_thread(publish_once, address, Identity("sink", epoch), given_events, patience=patience)


async def numbers(subscription, count):
    seen = [event.attributes["n"] for event in await take(subscription, count)]
    assert subscription.queued == 0
    return seen


def test_work_that_is_done_again_after_any_part_of_it_publishes_the_rest(tmp_path):
    async def story():
        async with chain(tmp_path) as running, pleach.connect(running.ready["c"].client, name="s") as client:
            mine = await client.subscribe("n >= 0")
            for part in (0, 1, 256, 300, 1_000, 1_000):
                await publish(running, "a", events(1_000)[:part])
            await publish(running, "a", events(5, epoch=2), epoch=2)
            assert await numbers(mine, 1_005) == [*range(1_000), *range(5)]
            with pytest.raises(ClientFencedError):
                await publish(running, "a", events(1_000))

    run(story())


def test_large_events_and_none_at_all(tmp_path):
    async def story():
        async with chain(tmp_path) as running, pleach.connect(running.ready["c"].client, name="s") as client:
            mine = await client.subscribe("n >= 0")
            await publish(running, "a", [])
            await publish(running, "a", events(4, size=50_000))
            await publish(running, "a", events(4, size=50_000))
            assert await numbers(mine, 4) == list(range(4))

    run(story())


def test_a_broker_that_goes_away_meanwhile_and_comes_back_has_each_once(tmp_path):
    async def story():
        async with chain(tmp_path) as running, pleach.connect(running.ready["c"].client, name="s") as client:
            mine = await client.subscribe("n >= 0")
            work = asyncio.create_task(publish(running, "a", events(20_000)))
            await until(lambda: running.node("a").counters.events.publishes > 1_000)
            await running.stop("a")
            await running.start("a", neighbours=("b",))
            await work
            assert await numbers(mine, 20_000) == list(range(20_000))

    run(story())


def test_a_broker_that_is_short_of_space_is_waited_for(tmp_path):
    async def story():
        async with one(tmp_path, data_dir="") as running, pleach.connect(running.ready["a"].client, name="s") as client:
            mine = await client.subscribe("n >= 0")
            committer = running.node("a").committer
            committer.shortage = "full"  # without a disk nobody else says so
            with pytest.raises(PublishRefusedError, match="full"):
                await publish(running, "a", events(600), patience=0.1)
            refused = running.node("a").counters.events.refused
            work = asyncio.create_task(publish(running, "a", events(600)))
            await until(lambda: running.node("a").counters.events.refused > refused + 1)
            committer.shortage = ""
            await work
            assert await numbers(mine, 600) == list(range(600))

    run(story())


def test_answers_that_were_given_up_are_an_error_and_no_new_beginning(tmp_path):
    async def story():
        async with one(tmp_path) as running:
            await publish(running, "a", events(10))
            node = running.node("a")
            node.features[AbsentClients].expel("sink", "publishers cannot wait for it any longer", node.clock())
            node.committer.touch()
            with pytest.raises(SessionLostError, match="does not know any more"):
                await publish(running, "a", events(20))
            await publish(running, "a", events(20, epoch=2), epoch=2)

    run(story())


def test_an_answer_that_leaves_it_in_doubt_is_an_error_and_no_reason_to_publish_again():
    answer = encode(PublishRefused(EventId("sink", 1, 1), "passed on", is_in_doubt=True))
    with pytest.raises(SessionLostError, match="whether sink/1/1 was published is not known: passed on"):
        PublishLedger().note(1, answer)


def test_a_broker_that_loses_its_memory_meanwhile_is_an_error(tmp_path):
    async def story():
        async with one(tmp_path, data_dir="") as running:
            work = asyncio.create_task(publish(running, "a", events(50_000)))
            await until(lambda: running.node("a").counters.events.publishes > 1_000)
            await running.stop("a")
            await running.start("a", data_dir="")
            with pytest.raises(SessionLostError, match="memory"):
                await work

    run(story())


def test_nobody_there():
    with pytest.raises(ConnectError):
        publish_once(parse_addresses("127.0.0.1:1"), Identity("sink", 1), events(1), patience=0.1)


def test_two_at_the_same_work_publish_each_event_once(tmp_path):
    """A task that Spark has given up, and the one in its place: the later connection takes the session over."""

    async def story():
        async with one(tmp_path) as running, pleach.connect(running.ready["a"].client, name="s") as client:
            mine = await client.subscribe("n >= 0")
            await asyncio.gather(*(publish(running, "a", events(600)) for _ in range(2)))
            assert await numbers(mine, 600) == list(range(600))

    run(story())


@given(st.lists(st.integers(1, 300), max_size=8), st.data())
def test_a_ledger_knows_all_from_the_answers_that_are_left(counts, data):
    """Whatever was confirmed, what is left tells how far the work is."""
    answers, done = [encode(Attached())], 0
    for count in counts:
        if data.draw(st.booleans()):
            answers.append(encode(PublishRefused(EventId("sink", 1, done + 1), "full")))
        done += count
        answers.append(encode(Published(EventId("sink", 1, done), count)))
    whole = PublishLedger()
    for number, answer in enumerate(answers, 1):
        whole.note(number, answer)
    assert (whole.done, whole.refused) == (done, {})
    confirmed = data.draw(st.sampled_from([0, whole.confirmable]))
    rest = PublishLedger()
    for number, answer in enumerate(answers[confirmed:], confirmed + 1):
        rest.note(number, answer)
    assert rest.done == done
