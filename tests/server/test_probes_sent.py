"""When a broker probes its links for cycles."""

from pleach.core.links.frames import Probe
from pleach.core.messages import HandedClient, Negotiate, Reject
from pleach.server.links import Port
from pleach.server.probes import PROBE_SECONDS
from support.live.timed_node import in_world, settled

CLIENT = HandedClient("k", own_events=True, subscriptions={}, advertisements={}, confirmed=[], waiting=[])


def probes_on(wire):
    return sum(isinstance(frame, Probe) for frame in wire.sent)


def test_a_broker_that_takes_part_in_a_movement_probes_again_when_it_is_over():
    """It is on the way of a client from a to c, and holds nothing: only the operation tells that it is not at rest."""

    async def scenario(world):
        wires = {name: world.come(name, epoch=7, door=Port.PEERS) for name in ("a", "c")}
        await settled(world.node)
        await world.wait(PROBE_SECONDS)
        assert {name: probes_on(wire) for name, wire in wires.items()} == {"a": 1, "c": 1}
        await world.tell("a", wires["a"], Negotiate("m", CLIENT, ["a", "b", "c"]))
        assert world.node.broker.operation == "m"
        assert world.node.broker.seam.is_idle
        await world.wait(2 * PROBE_SECONDS)
        assert {name: probes_on(wire) for name, wire in wires.items()} == {"a": 1, "c": 1}
        await world.tell("c", wires["c"], Reject("m", "no"))
        assert not world.node.broker.operation
        await world.wait(1)
        assert {name: probes_on(wire) for name, wire in wires.items()} == {"a": 2, "c": 2}

    in_world(scenario, neighbours=["a", "c"])
