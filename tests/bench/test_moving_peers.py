"""Clients of other systems that go to and fro: what is lost, doubled and out of order is counted right."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import pytest

from pleach.bench.systems.moving import MovingLoad, Topic, moved
from pleach.bench.systems.registry import MOVING

PLAN = MovingLoad(servers=2, clients=4, publishers=2, events_per_second=400.0, seconds=0.5, pause=0.05, seed=1)
SECONDS_MAX = 60.0


def test_a_topic_knows_what_came_twice_and_what_came_late():
    topic = Topic()
    for number in (0, 1, 2, 4, 3, 3):
        topic.heard(number)
    assert topic.reordered == 2
    assert topic.numbers == {1: 1, 2: 1, 4: 1, 3: 2}


class Room:
    """Servers in memory, of which each has its own subscribers; what is published goes to all, or comes wrong."""

    name = "a room"

    def __init__(self, copies=1):
        self.subscribed = {}
        self.unheard = 0
        self.copies = copies

    def missing(self):
        return ""

    @contextmanager
    def serve(self, count, directory):
        assert directory.is_dir()
        yield [f"room {n}" for n in range(count)]

    async def connect(self, address, name, topic="", heard=None):
        assert topic not in self.subscribed, f"{name} is here already"
        await asyncio.sleep(0.01)
        if topic:
            self.subscribed[topic] = heard
        return Visitor(self, topic)


class Visitor:
    def __init__(self, room, topic):
        self.room = room
        self.topic = topic

    async def publish(self, topic, number):
        heard = self.room.subscribed.get(topic)
        self.room.unheard += heard is None
        for _ in range(self.room.copies if heard else 0):
            heard(number)

    async def leave(self):
        self.room.subscribed.pop(self.topic, None)


@pytest.mark.parametrize("copies", [1, 2])
def test_what_nobody_hears_is_lost_and_what_comes_twice_is_doubled(tmp_path, copies):
    room = Room(copies)
    losses = asyncio.run(asyncio.wait_for(moved(room, PLAN, tmp_path), SECONDS_MAX))
    assert losses.lost == room.unheard > 0
    assert losses.doubled == (copies - 1) * (losses.published - losses.lost)
    assert losses.moves > PLAN.clients
    assert not room.subscribed
    assert f"{losses.lost:,} lost" in str(losses)


@pytest.mark.parametrize("system", MOVING, ids=lambda system: system.name)
def test_with_real_servers_most_events_come(tmp_path, system):
    if missing := system.missing():
        pytest.skip(f"{missing} is not installed")
    losses = asyncio.run(asyncio.wait_for(moved(system, PLAN, tmp_path), SECONDS_MAX))
    assert losses.moves > PLAN.clients
    assert losses.published > 50
    assert losses.lost < losses.published / 2
