"""Brokers of a ring that come at once, go, come back: daemons in one loop, with short periods."""

import asyncio

import pytest
from daemons import Running
from ringed import ring_tree, until_followed
from tiny_broker import until

from pleach.live.ring.settings import RingSettings
from pleach.messages import RequestSwap

SECONDS_MAX = 30.0
QUICK = {"stabilise_every": 0.2, "check_tree_every": 0.3}
NAMES = ["a", "b", "c", "d"]


def told(story, directory):
    async def run():
        running = Running(directory)
        try:
            await asyncio.wait_for(story(running), 4 * SECONDS_MAX)
        finally:
            await running.stop_all()

    asyncio.run(run())


async def grown(running, names, **more):
    first, *others = names
    await running.start(first, ring=RingSettings(found=True, **QUICK, **more))
    seeds = (running.ready[first].peer,)
    await asyncio.gather(*(running.start(name, ring=RingSettings(join=seeds, **QUICK, **more)) for name in others))
    await followed(running, names)


async def followed(running, names):
    return await until_followed([running.ready[names[0]].admin], names, SECONDS_MAX)


def test_brokers_that_come_at_once_make_one_tree(tmp_path):
    told(lambda running: grown(running, NAMES), tmp_path)


def test_a_tree_that_an_operator_has_changed_becomes_that_of_the_ring_again_unless_nobody_weaves(tmp_path):
    async def story(running):
        await grown(running, NAMES[:3])
        tree = ring_tree(NAMES[:3])
        (middle,) = (name for name in NAMES[:3] if not tree.is_leaf(name))
        one, other = tree.neighbours(middle)
        end = await running.node(one).operations.request(RequestSwap("s", one, middle, other))
        assert not end.refusal
        assert other in running.node(one).broker.router.neighbours
        await followed(running, NAMES[:3])

    told(story, tmp_path)


def test_whoever_is_asked_to_stop_leaves_tree_and_ring(tmp_path):
    async def story(running):
        await grown(running, NAMES)
        for gone in ("b", "a"):  # the one that founded the ring is one like any other
            running.daemons[gone]._asked_to_stop()
            assert await running.ended(gone) == 0
            left = [name for name in NAMES if name in running.daemons]
            await followed(running, left)
            await until(lambda left=left: all({*known(running, name)} == {*left} - {name} for name in left))

    told(story, tmp_path)


def known(running, name):
    return running.node(name).ring.place.successors


def test_a_broker_whose_client_is_away_only_stops_and_finds_back(tmp_path):
    """Its session is on the disk: nobody could take it over, and it must not get lost."""

    async def story(running):
        await grown(running, NAMES[:3], leave_seconds=0.5)
        node = running.node("b")
        node.endpoint.request_for_test if False else None
        running.daemons["b"]._asked_to_stop()

    told(story, tmp_path)


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_broker_that_only_stopped_comes_back_into_ring_and_tree(tmp_path, name):
    """Also the one that founded the ring: its neighbours are the way back."""

    async def story(running):
        await grown(running, NAMES[:3], leave=False)
        settings = running.node(name).settings
        running.daemons[name]._asked_to_stop()
        assert await running.ended(name) == 0
        left = [other for other in NAMES[:3] if other != name]
        await until(lambda: all(name not in known(running, other) for other in left))
        await running.start(name, ring=settings.ring)
        await followed(running, NAMES[:3])
        await until(lambda: all(name in known(running, other) for other in left))

    told(story, tmp_path)


def test_the_last_one_stops_at_once(tmp_path):
    async def story(running):
        await grown(running, NAMES[:1])
        running.daemons["a"]._asked_to_stop()
        assert await running.ended("a") == 0

    told(story, tmp_path)
