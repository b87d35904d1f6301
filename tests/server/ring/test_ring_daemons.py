"""Brokers of a ring that come at once, go, come back: daemons in one loop, with short periods."""

import asyncio

import pytest

import pleach
from pleach.core.messages import RequestSwap
from pleach.core.overlay.plans import Topology
from pleach.errors import JoinError
from pleach.operate.survey import settled_survey
from pleach.server.daemon import Daemon
from pleach.server.http.status import unready
from pleach.server.ring.member import RingMember
from pleach.server.ring.settings import RingSettings
from pleach.server.ring.steward import Sight
from pleach.server.settings import BrokerSettings
from support.live.daemons import Running
from support.live.ring_tree import ring_tree, root_of, until_followed
from support.live.tiny_broker import until
from support.ports import free_ports

SECONDS_MAX = 60.0
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


def test_a_tree_that_an_operator_has_changed_becomes_that_of_the_ring_again(tmp_path):
    async def story(running):
        await grown(running, NAMES[:3])
        steward = running.node(root_of(NAMES[:3])).features[RingMember].steward
        await until(lambda: steward.sight is Sight.RIGHT)
        done = steward.exchanged
        await swapped(running, ring_tree(NAMES[:3]))
        await until(lambda: steward.sight is Sight.MOVING)  # what is new is looked at twice: more may come
        assert steward.exchanged == done
        await followed(running, NAMES[:3])
        await until(lambda: steward.sight is Sight.RIGHT)
        assert steward.exchanged == done + 1

    told(story, tmp_path)


async def swapped(running, tree):
    """Of a chain of three one end goes over to the other; returns the chain that comes of it."""
    (middle,) = (name for name in tree.brokers if not tree.is_leaf(name))
    one, other = tree.neighbours(middle)
    end = await running.node(one).operations.request(RequestSwap("s", one, middle, other))
    assert not end.refusal
    return Topology.of([(one, other), (other, middle)])


def test_where_nobody_weaves_an_operators_tree_stays(tmp_path):
    async def story(running):
        await grown(running, NAMES[:1], weave=False)
        settings = RingSettings(join=(running.ready["a"].peer,), weave=False, **QUICK)
        for name in ("b", "c"):
            await running.start(name, ring=settings)
        places = [running.ready["a"].admin]
        made = await swapped(running, (await settled_survey(places)).topology())
        assert (await settled_survey(places)).topology() == made
        assert all(daemon.node.features[RingMember].steward is None for daemon in running.daemons.values())

    told(story, tmp_path)


def test_where_nobody_weaves_who_has_as_many_neighbours_as_the_ring_allows_gets_no_more(tmp_path):
    """By the ring alone, one of these would have five."""

    async def story(running):
        await grown(running, NAMES[:1], weave=False)
        settings = RingSettings(join=(running.ready["a"].peer,), weave=False, **QUICK)
        for name in "bcdefghi":
            await running.start(name, ring=settings)
            await until(lambda: all(running.node(other).broker.router.neighbours for other in running.daemons))
        tree = (await settled_survey([running.ready["a"].admin])).topology()
        assert max(len(tree.neighbours(name)) for name in tree.brokers) <= settings.degree

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
    return running.node(name).features[RingMember].seat.successors


def test_a_broker_whose_client_is_away_only_stops_and_finds_back(tmp_path, caplog):
    """The client's session is on the disk, and could not be given to anybody: it must not get lost."""

    async def story(running):
        await grown(running, NAMES[:2], leave_seconds=0.5)
        address, memory = f"pleach://{running.ready['b'].client}", tmp_path / "client"
        async with pleach.connect(address, name="reader", state_dir=memory) as client:
            await client.subscribe("x = 1", name="s", callback=lambda _event: None)
        ring = running.node("b").settings.ring
        running.daemons["b"]._asked_to_stop()
        assert await running.ended("b") == 0
        assert "1 of its clients are not connected: reader" in caplog.text
        assert [*running.node("a").broker.router.neighbours] == ["b"]
        await running.start("b", ring=ring)
        assert "reader" in running.node("b").broker.sessions
        await followed(running, NAMES[:2])

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


def test_a_broker_that_is_not_in_the_tree_yet_lets_no_client_in(tmp_path, caplog):
    """Its seed is not there yet, either: both are waited for."""

    async def story(running):
        seed, door = (f"127.0.0.1:{port}" for port in free_ports(2))
        joining = asyncio.create_task(
            running.start("b", ring=RingSettings(join=(seed,), join_seconds=SECONDS_MAX, **QUICK), client_listen=door)
        )
        await until(lambda: "b" in running.daemons and running.node("b").directory.places.client)
        client = pleach.connect(f"pleach://{door}", name="early", connect_timeout=SECONDS_MAX)
        connecting = asyncio.create_task(client.__aenter__())
        await until(lambda: "b is not in the tree yet; come again" in caplog.text)
        assert unready(running.node("b")) == ["not in the tree yet"]
        await running.start("a", ring=RingSettings(found=True, **QUICK), peer_listen=seed)
        await joining
        await connecting
        assert unready(running.node("b")) == []
        await client.close()

    told(story, tmp_path)


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("b", {}, "a broker b is in it"),  # whether it is asked itself, or another one
        ("c", {"routing": "simple"}, "routing is simple here, and covering at"),
        ("c", {"ordering": "fifo"}, "ordering is fifo here, and causal at"),
        ("c", {"ring": {"bits": 16}}, "ring.bits is 16 here, and 32 at"),
    ],
)
def test_who_does_not_fit_is_refused_before_it_is_anywhere(tmp_path, name, values, says):
    async def story(running):
        await grown(running, NAMES[:2])
        for seed in NAMES[:2]:
            ring = RingSettings(join=(running.ready[seed].peer,), **values.get("ring", {}))
            settings = BrokerSettings(name, **{**values, "ring": ring})
            daemon = Daemon(settings, reload=lambda settings=settings: settings, on_ready=pytest.fail)
            with pytest.raises(JoinError, match=says):
                await daemon.run()
        assert [*running.node("a").broker.router.neighbours] == ["b"]
        assert all(unready(running.node(member)) == [] for member in NAMES[:2])

    told(story, tmp_path)


def test_the_last_one_stops_at_once(tmp_path):
    async def story(running):
        await grown(running, NAMES[:1])
        running.daemons["a"]._asked_to_stop()
        assert await running.ended("a") == 0

    told(story, tmp_path)
