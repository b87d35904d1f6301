"""Clients are sent to a broker without a data directory that begins anew before they have come: they ask it anew."""

import asyncio
import contextlib
import time

import pytest

import pleach
from pleach.core.broker import Broker
from pleach.core.links.endpoint import Endpoint
from pleach.core.messages import RemoveAck, RequestMove, RequestRemove
from pleach.core.overlay.registry import machines
from pleach.core.routing.router import RoutingConfig
from pleach.errors import UnknownOutcomeError
from pleach.net.addresses import one_address
from support.live.daemons import Running
from support.live.link_proxy import LinkProxy
from support.live.numbered_events import address, numbers, publish, run
from support.live.tiny_broker import TinyBroker, until


@contextlib.asynccontextmanager
async def two(directory):
    """a–c, without disks. Clients that are sent to a come by a way that is cut for now."""
    running, way = Running(directory), LinkProxy(("127.0.0.1", 0), (0.0, 0.0), "way")
    way.cut()
    await way.start()
    try:
        advertised = f"{way.address[0]}:{way.address[1]}"
        await running.start("a", data_dir="", neighbours=("c",), client_advertise=advertised)
        there = one_address(running.ready["a"].client)
        way.target = (there.host, there.port)
        await running.start("c", data_dir="", peers={"a": running.ready["a"].peer})
        await until(lambda: running.node("c").links.is_up("a"))
        yield running, way
    finally:
        await way.stop()
        await running.stop_all()


async def begin_anew(running, way, neighbours):
    await running.stop("a")
    await running.start("a", data_dir="", neighbours=neighbours)
    assert running.node("a").broker.sessions.clients == []
    way.heal()


async def check(running, subscription):
    broker = running.node("a").broker
    await until(lambda: "s" in broker.sessions and broker.sessions.subscriptions("s"))
    async with pleach.connect(address(running, "a"), name="p") as publisher:
        await publish(publisher, 0, 10)
        assert await numbers(subscription, 10) == list(range(10))


@pytest.mark.parametrize("state", [None, "state"])
def test_one_that_moved(tmp_path, state):
    async def story():
        state_dir = tmp_path / state if state else None
        async with (
            two(tmp_path) as (running, way),
            pleach.connect(address(running, "c"), name="s", state_dir=state_dir) as client,
        ):
            mine = await client.subscribe("n >= 0")
            assert not (await running.node("c").operations.request(RequestMove("m", "s", ["c", "a"]))).refusal
            await until(lambda: client._driver.machine.broker == "a")
            lost = await client.publish_windowed({"m": 1})
            await begin_anew(running, way, ("c",))
            with pytest.raises(UnknownOutcomeError, match="lost its memory"):
                await lost
            await check(running, mine)
            await client.publish({"m": 2})

    run(story())


def test_a_process_that_comes_later_has_it_on_its_disk_where_it_was_sent_to(tmp_path):
    async def story():
        state = tmp_path / "state"
        async with two(tmp_path) as (running, way):
            async with pleach.connect(address(running, "c"), name="s", state_dir=state) as client:
                await client.subscribe("n >= 0", name="numbers")
                assert not (await running.node("c").operations.request(RequestMove("m", "s", ["c", "a"]))).refusal
                await until(lambda: client._driver.machine.broker == "a")
            await begin_anew(running, way, ("c",))
            async with pleach.connect(address(running, "c"), name="s", state_dir=state) as client:
                await check(running, await client.subscribe("n >= 0", name="numbers"))

    run(story())


def test_one_whose_broker_left(tmp_path):
    async def story():
        async with two(tmp_path) as (running, way), pleach.connect(address(running, "c"), name="s") as client:
            mine = await client.subscribe("n >= 0")
            assert not (await running.remove("c")).refusal
            assert await running.ended("c") == 0
            await begin_anew(running, way, ())
            await check(running, mine)

    run(story())


def test_what_a_leaving_broker_has_passed_on_to_an_heir_that_forgot_is_in_doubt():
    async def story():
        async with TinyBroker() as tiny:
            leaving = Broker("b", RoutingConfig(), neighbours=["a"], machines=machines("causal"))
            tiny.endpoint = Endpoint(leaving, time.time_ns())
            async with pleach.connect(tiny.address, name="p") as client:
                await client.publish({"n": 0})
                tiny.endpoint.request(RequestRemove("1", "b"), now=0.0)
                tiny.endpoint.request(RemoveAck("1"), now=0.0, sender="a")
                doubtful = await client.publish_windowed({"n": 1})
                await until(lambda: tiny.endpoint.sessions["a"].unconfirmed == 3)  # with the request, and the handover
                tiny.endpoint.perform(leaving.peer_reset("a"), now=0.0)
                tiny.settle()
                with pytest.raises(UnknownOutcomeError, match=r"b passed it on to a.*publish it again"):
                    await doubtful
                await asyncio.wait_for(client.publish({"n": 2}), 5.0)

    run(story())
