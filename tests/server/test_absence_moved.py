"""Clients that moved, and died on the way: at the broker that they left, and at the one where they never came."""

from pleach.core.events.language import parse_filter
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import (
    Approve,
    Attach,
    Deliver,
    Forward,
    Halted,
    HandedClient,
    MoveAck,
    MoveCommit,
    MoveState,
    Negotiate,
    RequestMove,
    Resume,
)
from pleach.server.absence import AbsentClients
from pleach.server.links import Port
from pleach.server.storage.store import Store
from support.live.timed_node import ABSENCE_SECONDS, SUBSCRIBED, in_world, publish, settled

WANTED = parse_filter("n >= 0")


async def move_away(world, *said, brought=()):
    """c moves from b to a, after what a has brought, and is told; returns its wire."""
    a = world.come("a", epoch=7, door=Port.PEERS)
    c = world.come("c", *said)
    await world.tell("a", a, *brought)
    world.node.operations.request(RequestMove("m", "c", ["b", "a"]))
    await world.tell("a", a, Approve("m", "h:1"))
    await world.tell("c", c, Halted("m"))
    await world.tell("a", a, MoveAck("m"))
    assert isinstance(c.messages()[-1], Resume)
    assert world.node.broker.sessions.clients == []
    return c


def test_who_was_killed_before_it_had_heard_is_forgotten_in_time_and_the_broker_goes_on(store):
    async def scenario(world):
        c = await move_away(world, Attach(), publish("c", 1))
        world.node.lost("c", c)
        await world.wait(ABSENCE_SECONDS)
        assert world.known == ["a", "c"]
        await world.wait(1)
        assert world.known == ["a"]
        assert "c" not in world.node.endpoint.upkeep.links
        await world.wait(1)

    in_world(scenario, store, neighbours=["a"])


def test_what_only_the_former_broker_has_is_kept_though_many_others_are_vacant():
    """What was delivered here before the move is not delivered again there."""

    async def scenario(world):
        event = publish("p", 1).event
        c = await move_away(world, *SUBSCRIBED, brought=[Forward(event)])
        world.node.lost("c", c)
        for n in range(3):
            await world.visit(f"idle-{n}", Attach())
        await world.wait(1)
        assert "c" in world.known
        again = await world.visit("c", peer_epoch=1, received=1, first=4)
        assert again.messages()[0] == Deliver(event)

    in_world(scenario, neighbours=["a"], vacant=1)


def test_after_a_restart_it_is_still_a_client_and_no_broker(tmp_path):
    async def before(world):
        c = await move_away(world, *SUBSCRIBED)
        world.node.lost("c", c)

    async def after(world):
        assert world.node.endpoint.upkeep.phase("c") is LinkPhase.RETIRING
        assert not world.node.directory.is_broker("c")
        assert world.node.features[AbsentClients].clients == 1
        await world.wait(ABSENCE_SECONDS + 1)
        assert world.known == ["a"]

    for scenario in (before, after, after_that):
        with Store.open(tmp_path, "b", epoch=1) as store:
            in_world(scenario, store, neighbours=["a"])


async def after_that(world):
    """Nothing of it comes back from the disk."""
    assert world.known == ["a"]
    assert world.node.endpoint.upkeep.links == {}


def test_who_has_heard_all_leaves_nothing_behind():
    async def scenario(world):
        c = await move_away(world, *SUBSCRIBED)
        world.hear("c", c)
        await settled(world.node)
        world.node.lost("c", c)
        await world.visit("idle", Attach())
        await world.wait(1)
        assert world.known == ["a", "idle"]  # it was as vacant as that one, and went first

    in_world(scenario, neighbours=["a"], vacant=1)


# At the other end ------------------------------------------------------------------------------------------------

MOVED = HandedClient("c", own_events=True, subscriptions={"s": WANTED}, advertisements={}, confirmed=["s"], waiting=[])


async def move_here(world):
    """c moves from a to b."""
    a = world.come("a", epoch=7, door=Port.PEERS)
    await world.tell("a", a, Negotiate("m", MOVED, ["a", "b"]))
    await world.tell("a", a, MoveState("m", MOVED))
    await world.tell("a", a, MoveCommit("m"))
    assert world.node.broker.sessions.clients == ["c"]


def test_who_never_comes_is_not_waited_for_longer_than_others(store):
    async def scenario(world):
        await move_here(world)
        await world.wait(ABSENCE_SECONDS)
        assert world.known == ["a", "c"]
        await world.wait(1)
        assert world.known == ["a"]
        assert world.node.broker.sessions.clients == []

    in_world(scenario, store, neighbours=["a"])


def test_who_comes_is_waited_for_no_more(store):
    async def scenario(world):
        await move_here(world)
        world.come("c")
        await world.wait(ABSENCE_SECONDS + 1)
        assert world.node.broker.sessions.clients == ["c"]

    in_world(scenario, store, neighbours=["a"])
