"""Brokers in memory take their epoch from the clock: one that was put back does not keep them out."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from pleach.core.links.frames import Bye, ByeReason, Hello, LinkTerms, Memory
from pleach.server import location_reports, opening
from pleach.server.links import Port
from pleach.server.node import PUT_BACK_SECONDS_MAX
from pleach.server.relay.settings import RelaySettings
from support.live.daemons import Running
from support.live.timed_node import Wire, in_world, settled
from support.live.tiny_broker import until

HOUR = 3_600 * 10**9
IN_MEMORY = {"data_dir": ""}


def hello(epoch, memory=Memory.PROCESS, name="a"):
    return Hello(name, epoch, 0, 0, 1, terms=LinkTerms(memory=memory))


def come(world, epoch, memory=Memory.PROCESS):
    wire = Wire()
    world.node.accept(wire, hello(epoch, memory), Port.PEERS)
    return wire


async def both_up(running):
    await until(lambda: running.node("a").links.is_up("b") and running.node("b").links.is_up("a"))


@pytest.mark.parametrize("dials", ["a", "b"])
@pytest.mark.parametrize("is_durable", [False, True], ids=["b in memory", "b on disk"])
def test_a_broker_whose_clock_was_put_back_links_again(tmp_path, monkeypatch, dials, is_durable):
    async def scenario():
        running, places = Running(tmp_path), {"b": {} if is_durable else IN_MEMORY, "a": IN_MEMORY}
        other = {"a": "b", "b": "a"}[dials]
        await running.start(other, neighbours=(dials,), **places[other])
        link = {"peers": {other: running.ready[other].peer}}
        await running.start(dials, **link, **places[dials])
        try:
            await both_up(running)
            former = running.node("b").endpoint.sessions["a"].peer_epoch
            await running.stop("a")
            monkeypatch.setattr(opening, "time", SimpleNamespace(time_ns=lambda: time.time_ns() - HOUR))
            await running.start("a", **(link if dials == "a" else {"neighbours": ("b",)}), **IN_MEMORY)
            assert running.node("a").endpoint.epoch < former
            await both_up(running)
            assert running.node("b").endpoint.sessions["a"].peer_epoch == former + 1
        finally:
            await running.stop_all()

    asyncio.run(scenario())


def test_the_epoch_of_a_data_directory_is_told_to_nobody():
    async def scenario(world):
        for memory, told in ((Memory.DIRECTORY, 0), (Memory.UNTOLD, 0), (Memory.PROCESS, 9)):
            world.node.directory._memories.clear()
            world.node.lost("a", come(world, 9, memory))
            (bye,) = come(world, 5).byes()
            assert (bye.why, bye.epoch) == (ByeReason.FENCED, told)

    in_world(scenario, neighbours=("a",))


def fenced_at(world, epoch, *, is_at_work=False, after=()):
    """What a broker in memory, which has dialled a, says there next, and whether it had to end."""
    node, ends = world.node, []
    node._on_end = lambda code, _: ends.append(code)
    for frames in (after, (Bye(ByeReason.FENCED, "newer", is_at_work=is_at_work, epoch=epoch),)):
        wire = Wire()
        node.dialled("a", wire)
        for frame in frames:
            node.receive("a", wire, frame)
        node.lost("a", wire)
    return node.endpoint.sessions["a"].introduction.epoch, ends


@pytest.mark.parametrize("is_at_work", [False, True])
def test_it_takes_an_epoch_above_the_one_that_is_known(is_at_work):
    async def scenario(world):
        epoch, ends = fenced_at(world, 77, is_at_work=is_at_work)
        await settled(world.node)
        assert (epoch, ends) == (78, [])
        assert world.node.endpoint.epoch == 1, "clients and others go on with what they know"

    in_world(scenario, neighbours=("a",))


def test_who_was_met_already_is_told_of_another_one_and_not_of_the_clock():
    async def scenario(world):
        assert fenced_at(world, 77, after=[hello(5)])[0] == 1

    in_world(scenario, neighbours=("a",))


@pytest.mark.parametrize("beyond", [0, 1])
def test_an_epoch_that_no_clock_explains_is_not_believed(beyond):
    async def scenario(world):
        told = int((time.time() + PUT_BACK_SECONDS_MAX + (60 if beyond else -60)) * 1e9)
        assert fenced_at(world, told)[0] == (1 if beyond else told + 1)

    in_world(scenario, neighbours=("a",))


def test_where_a_broker_is_whose_clock_was_put_back_is_believed(tmp_path, monkeypatch):
    """It restarts at another port; what it told before the clock was put back counts no more."""

    async def scenario():
        running, relay = Running(tmp_path), {"relay": RelaySettings(), **IN_MEMORY}
        await running.start("b", neighbours=("a",), **relay)
        peers = {"b": running.ready["b"].peer}
        await running.start("a", peers=peers, **relay)
        try:
            known = running.node("b").directory.known
            await until(lambda: "a" in known.brokers)
            before = known.brokers["a"]
            await running.stop("a")
            del running.ready["a"]
            monkeypatch.setattr(opening, "time", SimpleNamespace(time_ns=lambda: time.time_ns() - HOUR))
            monkeypatch.setattr(location_reports, "time", SimpleNamespace(time_ns=lambda: time.time_ns() - HOUR))
            await running.start("a", peers=peers, **relay)
            await both_up(running)
            assert running.ready["a"].peer != before.peer
            await until(lambda: known.brokers["a"].peer == running.ready["a"].peer)
        finally:
            await running.stop_all()

    asyncio.run(scenario())
