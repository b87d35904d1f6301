"""Links that change while daemons run: a swap between three of them, in one event loop, over real sockets."""

import asyncio

import msgspec
import pytest

import pleach
from pleach.core.links.frames import CLIENT, ByeReason, Data, Hello
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import Attach, Connect, Lock, RemoveReq, RequestAdd, RequestRemove, RequestSwap, encode
from pleach.server.door.admission import ROLES
from pleach.server.links import Port
from pleach.server.node import BrokerNode
from pleach.server.settings import BrokerSettings
from support.live.daemons import chain
from support.live.tiny_broker import until

EVENTS = 300
SECONDS_MAX = 200


class Wire:
    """A connection that notes why it was closed."""

    closed = ""

    def send(self, frame):
        pass

    def close(self, reason=""):
        self.closed = reason


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, SECONDS_MAX))


async def publish(client, first, count):
    for number in range(first, first + count):
        await client.publish({"n": number})


async def take(subscription, count):
    return [(await anext(subscription)).attributes["n"] for _ in range(count)]


def test_a_swap_under_load_moves_the_link_and_loses_nothing_and_a_restart_remembers_it(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            here, there = (f"pleach://{running.ready[name].client}" for name in "ab")
            async with pleach.connect(here, name="p") as publisher, pleach.connect(there, name="s") as subscriber:
                subscription = await subscriber.subscribe("n >= 0")
                load = asyncio.create_task(publish(publisher, 0, EVENTS))
                end = await running.node("a").operations.request(RequestSwap("1", "a", "b", "c"))
                assert end.refusal == ""
                await load
                assert await take(subscription, EVENTS) == list(range(EVENTS))
                wanted = {"a": ["c"], "b": ["c"], "c": ["a", "b"]}
                await until(lambda: running.links() == wanted)
                assert running.node("a").endpoint.upkeep.phase("b") is LinkPhase.FORMER

                await running.stop("a")
                await running.start("a", neighbours=("b",))  # as it was configured at first
                await until(lambda: running.links() == wanted)
                await publish(publisher, EVENTS, 10)
                assert await take(subscription, 10) == list(range(EVENTS, EVENTS + 10))

    run(story())


def test_a_swap_and_the_one_that_undoes_it_bring_the_old_link_back(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            here, there = (f"pleach://{running.ready[name].client}" for name in "ab")
            async with pleach.connect(here, name="p") as publisher, pleach.connect(there, name="s") as subscriber:
                subscription = await subscriber.subscribe("n >= 0")
                for number, brokers in enumerate(("abc", "acb", "abc")):
                    end = await running.node("a").operations.request(RequestSwap(str(number), *brokers))
                    assert end.refusal == ""
                    await publish(publisher, number * 10, 10)
                    assert await take(subscription, 10) == list(range(number * 10, number * 10 + 10))
                await until(lambda: running.links() == {"a": ["c"], "b": ["c"], "c": ["a", "b"]})

    run(story())


def test_a_request_that_cannot_be_met_is_refused_with_a_reason(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            end = await running.node("a").operations.request(RequestSwap("1", "a", "c", "b"))
            assert end.refusal
            assert running.links() == {"a": ["b"], "b": ["a", "c"], "c": ["b"]}

    run(story())


def test_a_broker_joins_where_it_is_welcome_and_leaves_again(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            await running.start("d")
            at = running.ready["c"].peer
            here, there = (f"pleach://{running.ready[name].client}" for name in "ad")
            joined = running.node("d").operations.request(RequestAdd("1", "c", at))
            c = running.node("c").counters.clients
            await until(lambda: c.strangers_closed)  # b is not welcome, and tries again
            assert not joined.done()
            node = running.node("c")
            node.apply(msgspec.structs.replace(node.settings, welcome=("d",)))
            assert (await joined).refusal == ""
            async with pleach.connect(here, name="p") as publisher, pleach.connect(there, name="s") as subscriber:
                subscription = await subscriber.subscribe("n >= 0")
                await publish(publisher, 0, 10)
                assert await take(subscription, 10) == list(range(10))
            assert (await running.node("d").operations.request(RequestRemove("2", "d"))).refusal == ""
            await until(lambda: not running.node("d").links)
            assert running.node("c").broker.router.neighbours == ["b"]

    run(story())


@pytest.mark.parametrize(("door", "is_refused"), [(Port.PEERS, True), (Port.CLIENTS, False)])
def test_a_stranger_comes_in_as_a_client_only(door, is_refused):
    node = BrokerNode(BrokerSettings("b"), None, 1, clock=lambda: 0.0, on_end=lambda *_: None)
    refusal = node._admission.refusal(Hello("x", 1, 0, 0, 1, role=ROLES[door][0]), door)
    assert bool(refusal) == is_refused
    assert not refusal or refusal.why is ByeReason.REFUSED


@pytest.mark.parametrize(
    "message", [RequestSwap("1", "b", "a", "c"), Connect("1"), Lock("1", "a", "b", "c"), RemoveReq("1")]
)
@pytest.mark.parametrize("welcome", [(), ("*",)])
def test_a_client_cannot_speak_for_brokers_or_operators(message, welcome):
    async def story():
        settings = BrokerSettings("b", neighbours=("a", "c"), welcome=welcome)
        node = BrokerNode(settings, None, 1, clock=lambda: 0.0, on_end=lambda *_: None)
        wire = Wire()
        assert node.accept(wire, Hello("x", 1, 0, 0, 1, role=CLIENT), Port.CLIENTS) == ""
        node.receive("x", wire, Data(1, encode(Attach())))
        node.receive("x", wire, Data(2, encode(message)))
        await until(lambda: wire.closed)
        assert "only brokers and operators send this" in wire.closed
        assert node.broker.links() == {"a": "", "c": ""}

    run(story())
