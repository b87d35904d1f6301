"""A broker that has no disk loses its memory in the middle of an operation, after every message of it.

Afterwards nobody is locked, every client gets what it wants, and gets it once.
"""

from __future__ import annotations

from random import Random

import pytest
from rebirths import World
from thorough import FACTOR

from pleach.effects import Concluded
from pleach.messages import RequestAdd, RequestRemove

LINKS = [("a", "b"), ("a", "o")]
HOMES = {"a publisher": "o", "k": "b", "kk": "b"}


def removing(stream=None):
    world = World(LINKS, HOMES, stream)
    world.ask("b", RequestRemove("1", "b"))
    return world


def steps_until_done(make):
    world, count = make(), 0
    while Concluded("1") not in world.ends:
        assert world.step()
        count += 1
    return count


def check(world):
    assert world.locked == {}
    assert world.errors == []
    for client in ("k", "kk"):
        assert world.heard(client) == [client]
    deliveries = world.deliveries()
    assert len(set(deliveries)) == len(deliveries)


@pytest.mark.parametrize("step", range(steps_until_done(removing)))
@pytest.mark.parametrize("broker", ["a", "b"])
def test_one_of_the_two_while_the_other_leaves(broker, step):
    world = removing()
    for _ in range(step):
        world.step()
    world.reborn_broker(broker)
    world.drain()
    check(world)


@pytest.mark.parametrize("seed", range(40 * FACTOR))
def test_in_any_order_and_also_the_heir_again_while_it_learns_whose_heir_it_is(seed):
    stream = Random(f"heirs/{seed}")
    world = removing(stream)
    for _ in range(stream.randint(1, 2)):
        for _ in range(stream.randrange(10)):
            world.step()
        if world.brokers["b"].operation:  # else it has left, and a knows it
            world.reborn_broker("a")
    world.drain()
    check(world)


@pytest.mark.parametrize("step", [0, 1])
def test_the_neighbour_to_be_of_one_that_joins(step):
    world = World([("a", "o")], {"a publisher": "o"})
    world.brokers["n"] = world.make_broker("n")
    world.ask("n", RequestAdd("1", "a"))
    world.begin("k", "n")
    for _ in range(step):
        world.step()
    world.reborn_broker("a")
    world.drain()
    assert [end.refusal for end in world.ends] == ["a has lost its memory meanwhile; ask again"]
    assert world.locked == {}
    world.ask("n", RequestAdd("2", "a"))
    world.drain()
    assert world.ends[-1] == Concluded("2")
    assert world.heard("k") == ["k"]
