"""A broker leaves, and its clients follow: nothing is lost, doubled or out of order, whatever else happens to them."""

import asyncio

import pytest

import pleach
from pleach.errors import ClientError
from pleach.server.leaving import Leaving
from pleach.server.settings import BrokerLimits
from support.live.client_crash import abandon
from support.live.daemons import chain
from support.live.numbered_events import EVENTS, address, numbers, publish, run
from support.live.tiny_broker import take, until


def neighbours(running, name):
    return set(running.node(name).broker.router.neighbours)


@pytest.mark.parametrize("state", [None, "state"])
def test_a_subscriber_and_a_publisher_follow_under_load(tmp_path, state):
    async def story():
        async with chain(tmp_path) as running:
            at_a, at_c = address(running, "a"), address(running, "c")
            state_dir = tmp_path / state if state else None
            async with (
                pleach.connect(at_a, name="p") as publisher,
                pleach.connect(at_c, name="s", state_dir=state_dir) as subscriber,
                pleach.connect(at_c, name="q") as other,
            ):
                mine = await subscriber.subscribe("n >= 0")
                theirs = await publisher.subscribe("m >= 0")
                load = asyncio.create_task(publish(publisher, 0, EVENTS))
                back = asyncio.create_task(publish_back(other))
                end = await running.remove("c")
                assert end.refusal == ""
                assert await running.ended("c") == 0
                await load
                assert await numbers(mine, EVENTS) == list(range(EVENTS))
                await back
                assert [e.attributes["m"] for e in await take(theirs, EVENTS)] == list(range(EVENTS))
                assert neighbours(running, "b") == {"a"}
                assert {"s", "q"} <= set(running.node("b").broker.sessions.clients)
                await publish(publisher, EVENTS, 10)
                assert await numbers(mine, 10) == list(range(EVENTS, EVENTS + 10))

    async def publish_back(client):
        for number in range(EVENTS):
            await client.publish({"m": number})

    run(story())


def test_one_that_was_sent_on_twice_and_back_again_goes_on(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            at_a, at_c = address(running, "a"), address(running, "c")
            async with pleach.connect(at_a, name="p") as publisher, pleach.connect(at_c, name="s") as subscriber:
                mine = await subscriber.subscribe("n >= 0")
                await publish(publisher, 0, 10)
                for name, first in (("c", 10), ("b", 20)):
                    load = asyncio.create_task(publish(publisher, first, 10))
                    assert (await running.remove(name)).refusal == ""
                    assert await running.ended(name) == 0
                    await load
                await running.start("c")
                running.node("a").directory.expect("c")
                await running.add("c", "a")
                await publish(publisher, 30, 10)
                assert await numbers(mine, 40) == list(range(40))
                assert (await running.remove("a")).refusal == ""  # both clients go back to where s began
                assert await running.ended("a") == 0
                await publish(publisher, 40, 10)
                assert await numbers(mine, 10) == list(range(40, 50))

    run(story())


def test_a_redirect_that_comes_while_nobody_listens_waits(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            at_a, at_c = address(running, "a"), address(running, "c")
            state = tmp_path / "state"
            async with pleach.connect(at_a, name="p") as publisher:
                async with pleach.connect(at_c, name="s", state_dir=state) as subscriber:
                    await subscriber.subscribe("n >= 0", name="all")
                await publish(publisher, 0, 20)
                removal = asyncio.create_task(running.remove("c"))
                await until(lambda: running.node("c").features[Leaving].waits_for == ["s"])
                await publish(publisher, 20, 20)
                async with pleach.connect(at_c, name="s", state_dir=state) as subscriber:
                    mine = await subscriber.subscribe("n >= 0", name="all")
                    assert await numbers(mine, 40) == list(range(40))
                    assert (await removal).refusal == ""
                    assert await running.ended("c") == 0
                await publish(publisher, 40, 20)
                # The next process knows where it was sent, though its address list does not.
                async with pleach.connect(at_c, name="s", state_dir=state) as subscriber:
                    mine = await subscriber.subscribe("n >= 0", name="all")
                    assert await numbers(mine, 20) == list(range(40, 60))

    run(story())


def test_a_process_that_dies_on_the_way_is_succeeded_by_one_that_says_farewell(tmp_path):
    """The farewell, and what was published before it, are on the client's disk: the next process tells them."""

    async def story():
        async with chain(tmp_path) as running:
            at_a, at_c = address(running, "a"), address(running, "c")
            state = tmp_path / "state"
            async with pleach.connect(at_a, name="r") as reader:
                read = await reader.subscribe("n >= 0")
                client = pleach.connect(at_c, name="w", state_dir=state)
                await client.__aenter__()
                for number in range(50):
                    await client.publish_windowed({"n": number})
                removal = asyncio.create_task(running.remove("c"))
                await until(lambda: client._driver.machine.broker == "b")
                await abandon(client)
                async with pleach.connect(at_c, name="w", state_dir=state) as successor:
                    await successor.publish({"n": 50})
                    assert (await removal).refusal == ""
                    assert await running.ended("c") == 0
                    assert await numbers(read, 51) == list(range(51))

    run(story())


def test_one_that_has_vanished_is_given_up_in_time_and_the_broker_ends(tmp_path):
    async def story():
        async with chain(tmp_path, limits=BrokerLimits(leave_seconds=1)) as running:
            at_c = address(running, "c")
            state = tmp_path / "state"
            async with pleach.connect(at_c, name="s", state_dir=state) as subscriber:
                await subscriber.subscribe("n >= 0")
            end = await running.remove("c")
            assert end.refusal == ""
            assert await running.ended("c") == 0
            assert "s" not in running.node("b").broker.sessions.clients
            assert running.node("b").broker.operation == ""
            with pytest.raises(ClientError):
                async with pleach.connect(at_c, name="s", state_dir=state, connect_timeout=0.5):
                    pass

    run(story())


def test_one_that_closes_on_the_way_holds_nobody_up(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            at_c = address(running, "c")
            async with pleach.connect(at_c, name="s") as subscriber:
                await subscriber.subscribe("n >= 0")
                removal = asyncio.create_task(running.remove("c"))
                await asyncio.sleep(0)
            assert (await removal).refusal == ""
            assert await running.ended("c") == 0
            await until(lambda: "s" not in running.node("b").broker.sessions.clients)

    run(story())
