"""A broker that joins or leaves the tree while somebody publishes there: each event is published once, if not there."""

import asyncio
import contextlib

import pytest
from test_publishing import events, numbers, publish, run

import pleach
from pleach.client.publish_once import publish_once
from pleach.client.short_connection import Identity, ShortConnection
from pleach.core.messages import Farewell, Publish, RequestAdd, Unsubscribe, encode
from pleach.core.messages.runs import encode_event, encode_run
from pleach.core.overlay.membership.machine import Membership
from pleach.errors import SessionLostError
from pleach.net.addresses import one_address, parse_addresses
from pleach.server.leaving import Leaving
from support.live.daemons import Running
from support.live.link_proxy import LinkProxy
from support.live.tiny_broker import until

SOME = 20_000  # events: more than are published before a removal has begun


def address(place):
    return f"{place[0]}:{place[1]}"


@contextlib.asynccontextmanager
async def two(directory, **of_b):
    """b–c: b dials c, by a link that can be cut."""
    running, link = Running(directory), LinkProxy(("127.0.0.1", 1), (0.0, 0.0), "b-c")
    await link.start()
    try:
        await running.start("c", neighbours=("b",))
        link.target = one_address(running.ready["c"].peer)
        await running.start("b", peers={"c": address(link.address)}, **of_b)
        await until(lambda: running.node("b").links.is_up("c"))
        yield running, link
    finally:
        await running.stop_all()
        await link.stop()


@contextlib.asynccontextmanager
async def heard(running, broker):
    async with pleach.connect(running.ready[broker].client, name="s") as client:
        yield await client.subscribe("n >= 0")


async def handed_over(running, link):
    """c is about to leave, and the link is cut before it can tell its clients where to go; returns the removal."""
    membership = running.node("c").broker.machine(Membership)
    leaving = asyncio.create_task(running.remove("c"))
    while not membership.handed_to:  # noqa: ASYNC110 - any later is too late
        await asyncio.sleep(0)
    assert not membership.departing
    link.cut()
    return leaving


async def sent_on(running):
    """c is about to leave, and has told the publisher where to go; returns the removal."""
    leaving = asyncio.create_task(running.remove("c"))
    await until(lambda: "sink" in running.node("c").features[Leaving].waits_for)
    return leaving


def passed_on(running):
    """Events of the publisher that c has passed on to its heir."""
    return running.node("c").broker.machine(Membership)._state.change.passed_on.get("sink", [])


def signs_passed_on(running):
    return [said for said in running.node("c").broker.machine(Membership)._state.change.said if said.client == "sink"]


async def say(running, broker, payload):
    """A process that says something, and is killed before it hears what becomes of it."""

    def visit():
        with ShortConnection(one_address(running.ready[broker].client), Identity("sink", 1), 10.0) as visit:
            number = visit.taken + 1
            visit.say(number, payload)
            visit.until_taken(number)

    await asyncio.to_thread(visit)


async def lodge(running, broker):
    """Another client, which is not there when its broker leaves: it is waited for."""
    addresses = parse_addresses(running.ready[broker].client)
    await asyncio.to_thread(publish_once, addresses, Identity("lodger", 1), [], patience=10.0)


# Leaving ---------------------------------------------------------------------------------------------------------


def test_what_a_leaving_broker_has_passed_on_is_not_said_again(tmp_path):
    """Its heir cannot answer for a while: nothing tells the publisher what has become of what it has said."""

    async def story():
        async with two(tmp_path) as (running, link), heard(running, "b") as mine:
            work = asyncio.create_task(publish(running, "c", events(SOME)))
            await until(lambda: running.node("c").counters.events.publishes > 1_000)
            leaving = await handed_over(running, link)
            await until(lambda: passed_on(running))
            link.heal()
            await work
            assert await numbers(mine, SOME) == list(range(SOME))
            assert not (await leaving).refusal

    run(story())


def test_what_it_has_passed_on_is_not_said_again_by_whoever_takes_the_work_up(tmp_path):
    async def story():
        async with two(tmp_path) as (running, link), heard(running, "b") as mine:
            await publish(running, "c", events(10))
            leaving = await handed_over(running, link)
            await say(running, "c", encode_run(Publish, 10, b"".join(map(encode_event, events(20)[10:]))))
            work = asyncio.create_task(publish(running, "c", events(30)))
            await until(lambda: signs_passed_on(running))
            link.heal()
            await work
            assert await numbers(mine, 30) == list(range(30))
            assert not (await leaving).refusal

    run(story())


def test_the_work_goes_on_where_a_broker_that_has_left_has_sent_its_clients(tmp_path):
    async def story():
        async with two(tmp_path) as (running, _link), heard(running, "b") as mine:
            await publish(running, "c", events(10))
            leaving = await sent_on(running)
            await publish(running, "c", events(20))
            assert await numbers(mine, 20) == list(range(20))
            assert not (await leaving).refusal

    run(story())


def test_who_has_not_read_what_it_had_answered_does_not_begin_anew(tmp_path):
    """The farewell is said; only who said it knows how far the work had come."""

    async def story():
        async with two(tmp_path) as (running, _link), heard(running, "b") as mine:
            await publish(running, "c", events(10))
            await lodge(running, "c")
            leaving = await sent_on(running)
            await publish(running, "c", events(20))
            with pytest.raises(SessionLostError, match="leaves the tree, sends its clients to b, and does not know"):
                await publish(running, "c", events(30))
            assert await numbers(mine, 20) == list(range(20))
            leaving.cancel()

    run(story())


def test_an_heir_does_not_know_what_it_had_answered_and_says_so(tmp_path):
    """Whoever followed was killed before it could say anything there; the next one is told to go there itself."""

    async def story():
        async with two(tmp_path) as (running, _link), heard(running, "b") as mine:
            await publish(running, "c", events(10))
            leaving = await sent_on(running)
            await say(running, "c", encode(Farewell()))
            assert not (await leaving).refusal
            with pytest.raises(SessionLostError, match="b does not know any more"):
                await publish(running, "b", events(20))
            assert await numbers(mine, 10) == list(range(10))

    run(story())


def test_an_heir_that_has_lost_its_memory_is_an_error(tmp_path):
    async def story():
        async with two(tmp_path, data_dir="") as (running, link):
            await publish(running, "c", events(10))
            leaving = await sent_on(running)
            await running.stop("b")
            await running.start("b", peers={"c": address(link.address)}, data_dir="")
            with pytest.raises(SessionLostError, match="b has lost its memory"):
                await publish(running, "c", events(20))
            leaving.cancel()

    run(story())


# Beginning -------------------------------------------------------------------------------------------------------


def test_who_was_broken_off_before_it_began_hinders_nobody(tmp_path):
    async def story():
        async with two(tmp_path) as (running, _link), heard(running, "b") as mine:
            for number in (1, 2):
                await say(running, "c", encode(Unsubscribe(f"answered/c/{number}")))
            await publish(running, "c", events(10))
            assert await numbers(mine, 10) == list(range(10))

    run(story())


# Joining ---------------------------------------------------------------------------------------------------------


def test_what_a_joining_broker_holds_is_not_said_again(tmp_path):
    async def story():
        running, link = Running(tmp_path), LinkProxy(("127.0.0.1", 1), (0.0, 0.0), "c-b")
        await link.start()
        try:
            await running.start("b", welcome=("c",))
            await running.start("c")
            link.target = one_address(running.ready["b"].peer)
            link.cut()
            async with heard(running, "b") as mine:
                await publish(running, "c", events(10))
                seam = running.node("c").broker.seam
                joining = running.node("c").operations.request(RequestAdd("add c", "b", address(link.address)))
                work = asyncio.create_task(publish(running, "c", events(20)))
                await until(lambda: seam.held_bytes)
                link.heal()
                await work
                assert not (await joining).refusal
                assert await numbers(mine, 10) == list(range(10, 20))
        finally:
            await running.stop_all()
            await link.stop()

    run(story())
