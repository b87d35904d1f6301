"""A broker is removed while clients of it are away: they lose nothing before it is sure, and then hold up nobody."""

import json
from http import HTTPStatus

from pleach.core.messages import (
    ClientLeft,
    CloseAB,
    Deliver,
    Detach,
    Forward,
    Handover,
    Left,
    RemoveAck,
    RemoveNack,
    RemoveReq,
    RequestHost,
    RequestSwap,
)
from pleach.operate.operation import OperationState
from pleach.server.http.operations import RUNNING_MAX
from pleach.server.http.page import HttpRequest
from pleach.server.http.server import operation_pages
from pleach.server.leaving import Leaving
from pleach.server.links import Port
from support.live.timed_node import SUBSCRIBED, in_world, publish, settled


async def ask(world):
    """An operator asks for the removal, for now without waiting for its end."""
    body = {"broker": "b", "detach_absent": True, "operation": "r", "timeout": 0.0}
    remove = next(route for route in operation_pages(world.node).routes if route.path == "/overlay/remove")
    page = await remove.handler(HttpRequest("POST", remove.path, json.dumps(body).encode()))
    await settled(world.node)
    return page


async def with_absent(world):
    """s has subscribed, and something is kept for it; returns the wire of the neighbour."""
    a = world.come("a", epoch=7, door=Port.PEERS)
    await world.visit("s", *SUBSCRIBED)
    await world.tell("a", a, Forward(publish("p", 1).event))
    return a


async def check_unharmed(world):
    assert "s" in world.node.broker.sessions.clients
    again = await world.visit("s", peer_epoch=1, received=1, first=3)
    assert again.messages()[0] == Deliver(publish("p", 1).event)


# Refused ---------------------------------------------------------------------------------------------------------


def test_by_a_broker_that_hosts_components():
    async def scenario(world):
        await with_absent(world)
        await world.node.operations.request(RequestHost("h", "sum", "running-sum"))
        page = await ask(world)
        assert page.status is HTTPStatus.CONFLICT
        await check_unharmed(world)

    in_world(scenario, neighbours=["a"])


def test_by_a_broker_that_is_busy_for_as_long_as_anybody_waits():
    async def scenario(world):
        await with_absent(world)
        world.node.operations.request(RequestSwap("swap", "b", "a", "c"))
        page = await ask(world)
        assert page.status is HTTPStatus.GATEWAY_TIMEOUT
        await check_unharmed(world)

    in_world(scenario, neighbours=["a"])


def test_by_its_heir(store):
    async def scenario(world):
        a = await with_absent(world)
        await ask(world)
        await world.tell("a", a, RemoveNack("r", "no"))
        assert world.node.operations["r"].reason == "no"
        await world.wait(1)
        await check_unharmed(world)

    in_world(scenario, store, neighbours=["a"])


def test_an_operation_is_abandoned_also_where_no_more_may_wait():
    async def scenario(world):
        world.come("a", epoch=7, door=Port.PEERS)
        operations = world.node.operations
        for number in range(RUNNING_MAX):
            operations.request(RequestSwap(f"swap{number}", "b", "a", f"c{number}"))
        assert operations.running == RUNNING_MAX
        assert (await ask(world)).status is HTTPStatus.SERVICE_UNAVAILABLE
        abandon = next(route for route in operation_pages(world.node).routes if route.path == "/overlay/abandon")
        page = await abandon.handler(HttpRequest("POST", abandon.path, b'{"abandoned": "swap0"}'))
        assert page.status is HTTPStatus.OK
        assert operations["swap0"].state is OperationState.REFUSED
        assert operations.running == RUNNING_MAX - 1

    in_world(scenario, neighbours=["a"])


# Done ------------------------------------------------------------------------------------------------------------


def said(wire):
    return [message for message in wire.messages() if isinstance(message, RemoveReq | Handover | ClientLeft | Left)]


def test_who_is_still_away_then_is_given_up_at_once(store):
    async def scenario(world):
        a = await with_absent(world)
        await ask(world)
        await world.tell("a", a, RemoveAck("r"), CloseAB("r", "h:1"))
        assert world.node.features[Leaving].waits_for == ["s"]
        await world.wait(1)
        assert said(a)[2:] == [ClientLeft("r", "s"), Left("r")]
        assert world.node.features[Leaving].has_left

    in_world(scenario, store, neighbours=["a"])


def test_whoever_has_left_is_needed_until_its_neighbour_knows_it(store):
    """A copy of the broker tells the neighbour, if its own machine is lost before."""

    async def scenario(world):
        a = await with_absent(world)
        await ask(world)
        await world.tell("a", a, RemoveAck("r"), CloseAB("r", "h:1"))
        await world.wait(1)
        leaving = world.node.features[Leaving]
        assert (leaving.has_left, leaving.is_known) == (True, False)
        world.hear("a", a)
        assert leaving.is_known

    in_world(scenario, store, neighbours=["a"])


def test_who_is_back_by_then_is_waited_for():
    async def scenario(world):
        a = await with_absent(world)
        await ask(world)
        s = world.come("s", peer_epoch=1, received=1, first=3)
        await world.tell("a", a, RemoveAck("r"), CloseAB("r", "h:1"))
        await world.wait(1)
        assert world.node.features[Leaving].waits_for == ["s"]
        assert s.messages()[0] == Deliver(publish("p", 1).event)

    in_world(scenario, neighbours=["a"])


def test_who_went_away_later_is_waited_for():
    async def scenario(world):
        a = world.come("a", epoch=7, door=Port.PEERS)
        s = world.come("s", *SUBSCRIBED)
        await settled(world.node)
        await ask(world)
        world.node.lost("s", s)
        await world.tell("a", a, RemoveAck("r"), CloseAB("r", "h:1"))
        await world.wait(1)
        assert world.node.features[Leaving].waits_for == ["s"]

    in_world(scenario, neighbours=["a"])


def test_who_is_not_waited_for_is_not_after_another_attempt_either():
    async def scenario(world):
        a = await with_absent(world)
        await ask(world)
        await world.tell("a", a, RemoveNack("r", "busy", is_busy=True))
        world.now += 60
        world.node.endpoint.fire(now=world.now)
        world.node.tick()
        await settled(world.node)
        assert said(a) == [RemoveReq("r")] * 2
        await world.tell("a", a, RemoveAck("r"), CloseAB("r", "h:1"))
        await world.wait(1)
        assert said(a)[3:] == [ClientLeft("r", "s"), Left("r")]

    in_world(scenario, neighbours=["a"])


def test_who_detaches_meanwhile_is_not_waited_for():
    """It has nothing to take any more, and will not go where it was told."""

    async def scenario(world):
        a = world.come("a", epoch=7, door=Port.PEERS)
        s = world.come("s", *SUBSCRIBED)
        await settled(world.node)
        await ask(world)
        await world.tell("a", a, RemoveAck("r"), CloseAB("r", "h:1"))
        await world.wait(1)
        leaving = world.node.features[Leaving]
        assert (leaving.waits_for, leaving.has_left) == (["s"], False)
        await world.tell("s", s, Detach())
        await world.wait(1)
        assert (leaving.waits_for, leaving.has_left) == ([], True)

    in_world(scenario, neighbours=["a"])
