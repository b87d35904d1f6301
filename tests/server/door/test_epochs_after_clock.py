"""A machine whose clock is put back knows its peers by then: their epochs lie ahead of it, and are not refused."""

import time

import pytest

from pleach.core.links.frames import BROKER, ByeReason, Hello
from pleach.server.links import Port
from support.live.timed_node import Wire, in_world, settled

HOUR = 3_600.0


def come(world, epoch, name="a"):
    wire = Wire()
    world.node.accept(wire, Hello(name, epoch, 0, 0, 1, role=BROKER), Port.PEERS)
    return wire


def refusals(wire):
    return [bye.reason for bye in wire.byes() if bye.why is ByeReason.REFUSED]


@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
def test_a_neighbour_that_was_met_comes_back_however_the_clock_jumps(monkeypatch, seconds):
    async def scenario(world):
        epoch, now = time.time_ns(), time.time()
        world.node.lost("a", come(world, epoch))
        monkeypatch.setattr(time, "time", lambda: now + seconds)
        wire = come(world, epoch)
        await settled(world.node)
        assert refusals(wire) == []
        assert world.node.links["a"].wire is wire

    in_world(scenario, neighbours=("a",))


def test_a_newer_epoch_from_the_future_is_refused_as_ever():
    async def scenario(world):
        world.node.lost("a", come(world, time.time_ns()))
        wire = come(world, time.time_ns() + int(HOUR * 1e9))
        await settled(world.node)
        assert "in the future" in refusals(wire)[0]
        assert "a" not in world.node.links

    in_world(scenario, neighbours=("a",))
