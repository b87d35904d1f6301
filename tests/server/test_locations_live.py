"""Brokers that are promoted elsewhere, and their neighbours: how they find each other."""

import asyncio
import contextlib
from functools import partial

import pytest

import pleach
from pleach.net.addresses import one_address
from pleach.net.enquiry import enquire, enquiry
from support.live.numbered_events import address, numbers
from support.live.promotions import Host, promotions
from support.live.tiny_broker import until

SECONDS_MAX = 60

pytestmark = pytest.mark.live


def story(tmp_path, tell):
    async def run():
        async with asyncio.timeout(SECONDS_MAX), Host("h") as h, Host("k") as k, promotions(tmp_path) as brokers:
            await tell(brokers, h, k)

    asyncio.run(run())


async def chain(brokers, h, k):
    """a–b–c–d, in which each dials the one before it."""
    await brokers.begin("a", neighbours=("b",))
    await brokers.begin("b", h, peers={"a": brokers.ready["a"].peer}, neighbours=("c",))
    await brokers.begin("c", k, peers={"b": brokers.ready["b"].peer}, neighbours=("d",))
    await brokers.begin("d", peers={"c": brokers.ready["c"].peer})
    await until(lambda: brokers.is_up("ab", "bc", "cd"))


async def all_known(brokers):
    await until(lambda: all(brokers.knows(one, other) for one in "abcd" for other in "abcd" if one != other))


def test_every_broker_knows_where_each_broker_is_and_who_knows_more(tmp_path):
    async def tell(brokers, h, k):
        await chain(brokers, h, k)
        await all_known(brokers)
        known = brokers.node("a").directory.known.brokers["c"]
        ready = brokers.ready["c"]
        assert (known.client, known.peer, known.admin) == (ready.client, ready.peer, ready.admin)
        assert known.hosts == {"c#1": "127.0.0.1:1", "k#1": k.address}
        assert (known.machine, known.view, known.epoch) == ("c#1", 1, brokers.node("c").endpoint.epoch)

    story(tmp_path, tell)


def test_one_that_is_promoted_dials_those_that_used_to_dial_it(tmp_path):
    async def tell(brokers, h, k):
        await chain(brokers, h, k)
        await all_known(brokers)
        await brokers.stop("c")
        await brokers.promote("c", k)
        await until(lambda: brokers.is_up("bc", "cd"))
        await until(lambda: brokers.knows("a", "c") == 2)
        assert brokers.node("d").directory.to_dial() == {"c": brokers.ready["c"].peer}  # not what its settings say
        await brokers.stop("d")
        await brokers.begin("d", peers={"c": "127.0.0.1:1"})
        await until(lambda: brokers.is_up("cd"))

    story(tmp_path, tell)


def test_two_neighbours_that_are_promoted_at_once_find_each_other(tmp_path):
    async def tell(brokers, h, k):
        await chain(brokers, h, k)
        await all_known(brokers)
        async with pleach.connect(address(brokers, "a")) as reader, pleach.connect(address(brokers, "d")) as writer:
            wanted = await reader.subscribe("n >= 0")
            for name in "bc":
                await brokers.stop(name)
            await writer.publish({"n": 1})
            for name, host in (("b", h), ("c", k)):
                await brokers.promote(name, host)
            assert await numbers(wanted, 1) == [1]
            assert brokers.is_up("ab", "bc", "cd")

    story(tmp_path, tell)


@contextlib.asynccontextmanager
async def silence(place):
    """A process that is stopped: it is connected with, and says nothing."""

    async def accepted(reader, writer):
        while await reader.read(1024):
            pass
        writer.close()

    address = one_address(place)
    server = await asyncio.start_server(accepted, address.host, address.port)
    try:
        yield
    finally:
        server.close()


@pytest.mark.parametrize("former", [partial(Host, "old"), silence], ids=["refuse", "say nothing"])
def test_two_neighbours_find_each_other_though_their_former_machines_are_there_and(former, tmp_path):
    async def tell(brokers, h, k):
        await chain(brokers, h, k)
        await all_known(brokers)
        places = {name: brokers.ready[name].peer for name in "bc"}
        for name in "bc":
            await brokers.stop(name)
        async with former(places["b"]), former(places["c"]):
            await brokers.promote("b", h)
            await brokers.promote("c", k)
            await until(lambda: brokers.is_up("ab", "bc", "cd"))

    story(tmp_path, tell)


def test_a_host_that_does_not_run_it_says_who_may_know(tmp_path):
    async def tell(brokers, h, k):
        await brokers.begin("b", h, neighbours=("c",))
        await brokers.begin("c", h, peers={"b": brokers.ready["b"].peer})
        await until(lambda: brokers.knows("b", "c") == brokers.knows("c", "b") == 1)
        await brokers.stop("b")
        await brokers.stop("c")
        await brokers.promote("b", k)
        await brokers.promote("c", k, peers={"b": "127.0.0.1:1"})
        h.refers("b", 2, k)
        h.refers("c", 2, k)
        await until(lambda: brokers.is_up("bc"))

    story(tmp_path, tell)


async def whereabouts(asked, wanted):
    found = await enquire(one_address(asked), enquiry("me", 1, wanted), None)
    return tuple(found) if found else None


def test_whoever_asks_is_told_on_any_port(tmp_path):
    async def tell(brokers, h, k):
        await chain(brokers, h, k)
        await all_known(brokers)
        a, d = brokers.ready["a"], brokers.ready["d"]
        assert await whereabouts(a.peer, "d") == (1, True, d.peer)
        assert await whereabouts(a.client, "d") == (1, True, d.client)
        assert await whereabouts(a.client, "a") == (1, True, a.client)
        assert await whereabouts(a.peer, "z") is None
        assert await whereabouts("127.0.0.1:1", "d") is None
        assert await whereabouts(h.address, "d") is None
        h.refers("d", 3, k)
        assert await whereabouts(h.address, "d") == (3, False, k.address)

    story(tmp_path, tell)
