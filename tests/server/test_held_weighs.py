"""What a reconfiguration holds has a limit, too: publishers are slowed down, and nobody is sent away for it."""

from pleach.core.messages import (
    Approve,
    Attach,
    ConnectNack,
    Deliver,
    Forward,
    Halted,
    MoveAck,
    RequestAdd,
    RequestMove,
    encode,
)
from pleach.core.mobility.machine import Mobility
from pleach.core.mobility.moving import MovementSeam
from pleach.core.overlay.seam import Seam
from pleach.server.backpressure import BURST_SECONDS, Backpressure
from pleach.server.links import Port
from support.live.timed_node import SUBSCRIBED, in_world, publish, settled

TIGHT = {"outbox_bytes_high": 3_000, "outbox_bytes_low": 2_000}


async def publishing(world, name, wire, first, last):
    for n in range(first, last + 1):
        await world.tell(name, wire, publish(name, n))


def test_what_is_held_slows_publishers_down_until_it_is_released():
    """A broker that joins a tree holds what its clients say meanwhile."""

    async def scenario(world):
        p = world.come("p", Attach())
        await settled(world.node)
        world.hear("p", p)
        world.node.operations.request(RequestAdd("add", "a", "h:1"))
        await publishing(world, "p", p, 1, 19)
        assert not p.is_paused
        await publishing(world, "p", p, 20, 40)
        assert world.node.features[Backpressure].held_bytes > TIGHT["outbox_bytes_high"]
        assert p.is_paused
        again = Seam()
        again.restore(world.node.broker.seam.capture())
        assert again.held_bytes == world.node.features[Backpressure].held_bytes
        await world.wait(1)
        assert not p.is_paused  # it breathes: what all wait for may come from it
        await world.wait(2 * BURST_SECONDS)
        assert p.is_paused
        a = world.come("a", epoch=7, door=Port.PEERS)
        await world.tell("a", a, ConnectNack("add", "no"))
        world.hear("p", p)
        await settled(world.node)
        assert world.node.features[Backpressure].held_bytes == 0
        assert not p.is_paused
        assert world.node.counters.clients.evicted == 0

    in_world(scenario, **TIGHT)


def test_what_is_kept_for_a_client_on_its_way_counts_as_well():
    async def scenario(world):
        a = world.come("a", epoch=7, door=Port.PEERS)
        c, p = world.come("c", *SUBSCRIBED), world.come("p", Attach(), publish("p", 1))
        await settled(world.node)
        world.node.operations.request(RequestMove("m", "c", ["b", "a"]))
        await world.tell("a", a, Approve("m", "h:1"))
        await world.tell("c", c, Halted("m"))
        events = [publish("q", n).event for n in range(1, 40)]
        await world.tell("a", a, *map(Forward, events))
        kept = sum(len(encode(Deliver(event))) for event in events)
        assert world.node.features[Backpressure].held_bytes == kept > TIGHT["outbox_bytes_high"]
        assert MovementSeam(world.node.broker.machine(Mobility).movements).kept_bytes == kept  # as after a restart
        assert p.is_paused
        assert not a.is_paused
        await world.tell("a", a, MoveAck("m"))
        assert world.node.features[Backpressure].held_bytes == 0
        for peer, wire in (("a", a), ("c", c), ("p", p)):
            world.hear(peer, wire)
        await settled(world.node)
        assert not p.is_paused

    in_world(scenario, neighbours=["a"], **TIGHT)
