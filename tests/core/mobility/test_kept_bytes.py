"""The bytes that wait for clients on their way are kept up; they are what a count of all that waits would give."""

from __future__ import annotations

from random import Random

import pytest

from pleach.core.messages import RequestMove
from pleach.core.mobility.machine import Mobility
from pleach.core.mobility.moving import MovementSeam
from support.overlay.memory_loss import World
from support.thorough import FACTOR

LINKS = [("s", "p"), ("p", "q"), ("q", "t"), ("p", "o")]
PATH = ["s", "p", "q", "t"]
HOMES = {"a publisher": "o", "k": "s", "l": "t"}
STEPS = 80


def check(world):
    """At every broker; and the same after a restart."""
    total = 0
    for broker in world.brokers.values():
        machine = broker.machine(Mobility)
        assert machine.kept_bytes == MovementSeam(machine.movements).kept_bytes
        total += machine.kept_bytes
        restarted = Mobility(broker._context)
        broker._context.reset_hooks.remove(restarted.peer_reset)
        restarted.restore(machine.capture())
        assert restarted.kept_bytes == machine.kept_bytes
    return total


@pytest.mark.parametrize("seed", range(30 * FACTOR))
def test_it_is_what_a_count_of_all_that_waits_gives(seed):
    stream = Random(f"kept/{seed}")
    world = World(LINKS, HOMES, stream)
    world.ask("s", RequestMove("1", "k", PATH))
    world.ask("t", RequestMove("2", "l", PATH[::-1]))
    lost_at, kept = stream.randrange(STEPS), 0
    for step in range(STEPS):
        if stream.random() < 0.6:
            world.perform("a publisher", world.clients["a publisher"].publish({"to": stream.choice(("k", "l"))}))
        world.step()
        if step == lost_at and seed % 3 == 0:
            world.reborn_broker(stream.choice(PATH))
        kept = max(kept, check(world))
    world.drain()
    assert check(world) == 0
    assert kept > 0 or seed % 3 == 0
