"""Sessions in an unreliable world (`unreliable.py`): exactly once and in order, whatever breaks."""

from __future__ import annotations

from random import Random

import pytest

from pleach.core.links.frames import Data
from support.links.link_ledger import RelayWorld
from support.links.unreliable_endpoints import CONFIG, Weather
from support.thorough import FACTOR

SHAPES = {
    "pair": [("a", "b")],
    "chain": [("a", "b"), ("c", "b")],
    "star": [("h", "x"), ("y", "h"), ("h", "z")],
}
WEATHERS = {
    "cuts": Weather(cut=0.08, crash=0.0),
    "half open": Weather(cut=0.05, half_open=1.0, crash=0.0),
    "crashes": Weather(cut=0.0, crash=0.06),
    "all": Weather(cut=0.03, crash=0.03, lose=0.01, double=0.02),
}
SEEDS = 25 * FACTOR
STEPS = 250
SAID_UNTIL = 200  # steps


def storm(world: RelayWorld, stream: Random, talk: float = 0.15) -> None:
    for step in range(STEPS):
        alive = sorted(name for name, host in world.hosts.items() if host.endpoint is not None)
        if alive and step < SAID_UNTIL and stream.random() < talk:
            name = stream.choice(alive)
            peers = sorted({n for link in world.links for n in link if name in link} - {name})
            world.say(name, stream.choice(peers))
        world.step()
        assert_windows_are_kept(world)
        assert not world.faults(), world.faults()


def assert_windows_are_kept(world: RelayWorld) -> None:
    """Memory on the wire: no more unconfirmed data in flight on a connection than the window allows."""
    if world.weather.double:  # a second copy may still lie there when the first is confirmed
        return
    for connection in world.connections:
        for lane in connection.lanes.values():
            numbers = {frame.sequence for frame in lane if isinstance(frame, Data)}
            assert len(numbers) <= CONFIG.window


@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_exactly_once_and_in_order_between_durable_nodes(shape, weather):
    total = 0
    for seed in range(SEEDS):
        stream = Random(f"durable/{shape}/{weather}/{seed}")
        world = RelayWorld(SHAPES[shape], stream, WEATHERS[weather])
        for name in sorted({n for link in world.links for n in link}):
            world.add_relay(name)
        storm(world, stream)
        world.heal()
        assert not world.faults(), (seed, world.faults())
        assert not world.missing(), (seed, world.missing())
        assert not world.forgotten(), (seed, world.forgotten())
        assert not world.rebirths, (seed, "a durable node is never reborn")
        total += sum(map(len, world.came.values()))
    assert total > 10 * SEEDS


@pytest.mark.parametrize("durable", [(), ("a", "h"), ("b",), ("a", "x", "y", "z")], ids=["none", "ah", "b", "axyz"])
@pytest.mark.parametrize("shape", SHAPES)
def test_nodes_without_a_disk_are_reborn_and_start_anew(shape, durable):
    """At most once and in order through all lives; complete for what is sent to and by the last ones."""
    rebirths = 0
    for seed in range(SEEDS):
        stream = Random(f"reborn/{shape}/{durable}/{seed}")
        world = RelayWorld(SHAPES[shape], stream, WEATHERS["all"])
        for name in sorted({n for link in world.links for n in link}):
            world.add_relay(name, durable=name in durable)
        storm(world, stream)
        world.heal()
        assert not world.faults(), (seed, world.faults())
        assert not world.missing(), (seed, world.missing())
        for (who, of), epochs in world.rebirths.items():
            assert world.hosts[of].disk is None
            if world.hosts[who].disk is not None:  # else each life of its own may learn of the same rebirth
                assert epochs == sorted(set(epochs)), (seed, who, of, epochs, "a rebirth was told twice")
        rebirths += sum(map(len, world.rebirths.values()))
    assert rebirths > SEEDS / 5
