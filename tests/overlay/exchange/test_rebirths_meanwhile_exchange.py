"""A broker that has no disk loses its memory in the middle of a link exchange, after every message of it.

Afterwards nobody is locked, the brokers are a tree in which one of the two links is, their tables agree, and every
client gets what it wants, once.
"""

from __future__ import annotations

from random import Random

import pytest
from exchanged import PROTOCOLS
from judged import no_tree
from judgement import disagreements
from rebirths import World
from thorough import FACTOR

from pleach.effects import Concluded
from pleach.messages import RequestExchange

CHAIN = ["1", "2", "3", "4"]
LINKS = [("1", "2"), ("2", "3"), ("3", "4"), ("2", "o2"), ("4", "o4")]
AROUND = {f"at {broker}": broker for broker in ("1", "o2", "3", "o4")}


def exchanging(protocol, cut, stream=None):
    world = World(LINKS, AROUND, stream)
    world.ask("1", RequestExchange("1", CHAIN, cut, protocol))
    return world


def moments(protocol, cut):
    """Messages and timers until it is done."""
    world, count = exchanging(protocol, cut), 0
    while Concluded("1") not in world.ends:
        world.advance()
        count += 1
    return count


def flaws(world, cut):
    found = [f"{name} is locked" for name in world.locked]
    found += no_tree(world.brokers) or disagreements(world.brokers)
    links = [("1", "4"), (CHAIN[cut], CHAIN[cut + 1])]
    there = [link for link in links if link[1] in world.brokers[link[0]].router.neighbours]
    found += [] if len(there) == 1 else [f"of {links} there are {there}"]
    if not found:
        found += [f"{client} is heard by {heard}" for client in AROUND if (heard := world.heard(client)) != [client]]
    return found


@pytest.mark.parametrize("cut", range(3))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_broker_of_the_cycle_at_each_step(protocol, cut):
    found = {}
    for step in range(moments(protocol, cut)):
        for broker in CHAIN:
            world = exchanging(protocol, cut)
            for _ in range(step):
                world.advance()
            world.reborn_broker(broker)
            world.drain()
            if wrong := flaws(world, cut):
                found[step, broker] = wrong
    assert found == {}
