"""Stand-ins over real sockets: one of them serves, the dead do not come back, and clients find their place again."""

import asyncio
import contextlib
from enum import Enum

import msgspec
import pytest

import pleach
from pleach.core.messages import NeighbourAddress, pack
from pleach.core.overlay.healing.stand_in import StandInPhase
from pleach.core.overlay.neighbour_info import NeighbourInfo, NeighbourInfoState
from pleach.server.healing.guardian import Guardian
from pleach.server.healing.settings import HealSettings, StandInSettings
from pleach.server.neighbour_reports import NeighbourReports
from pleach.server.node import EXIT_FENCED
from support.live.client_crash import abandon
from support.live.daemons import Running, chain
from support.live.numbered_events import address, numbers, publish, run
from support.live.tiny_broker import WAIT_SECONDS_MAX, until

HEAL = HealSettings(after=60.0, grace=60.0)  # nobody is declared dead by the clock here


class Told(Enum):
    """What a broker has said of itself to its neighbour, as far as it came to."""

    ALL = "where all its neighbours are"
    PART = "who its neighbours are"
    NOTHING = "nothing"


def peers(running):
    return {name: running.ready[name].peer for name in running.daemons}


def phase(running):
    """How far a stand-in for b is; IDLE once it has ended."""
    return running.node("b").features[NeighbourReports].phase if "b" in running.daemons else StandInPhase.IDLE


def serves(running):
    """And has not been told to end."""
    return phase(running) is StandInPhase.SERVING and not running.daemons["b"]._stop.is_set()


@contextlib.asynccontextmanager
async def place_of_b(directory, running, epoch, **settings):
    """A stand-in for b, beside the brokers that run."""
    other = Running(directory / f"stand-in {epoch}")
    own = {"heal": HEAL, "peers": peers(running), "stand_in": StandInSettings(epoch), "client_listen": "127.0.0.1:0"}
    try:
        await other.start("b", **own, **settings)
        yield other
    finally:
        await other.stop_all()


def life_of(running, name):
    return running.node(name).endpoint.epoch


async def end_of_b(running):
    """One that ends in a hurry lets go of nothing: elsewhere its process does. Returns the exit code."""
    daemon = running.daemons["b"]
    code = await running.ended("b")
    for server in daemon._servers:
        server.close()
    for connection in daemon.connections:
        connection.abort("the end of its process")
    await daemon.node.leave("the end of its process")
    daemon.node.committer.close()
    return code


async def bury(running):
    """b stops, and is not seen again. Returns an epoch for a stand-in."""
    await until(lambda: all(running.node(name).features[NeighbourReports].of("b") for name in "ac"))
    life = life_of(running, "b")
    await running.stop("b")
    return life + 10


def several(running, *names):
    return ",".join(running.ready[name].client for name in names)


def test_a_stand_in_takes_the_place_and_clients_return_to_it(tmp_path):
    async def story():
        async with (
            chain(tmp_path, heal=HEAL) as running,
            pleach.connect(several(running, "a"), name="p") as publisher,
            pleach.connect(several(running, "b", "c"), name="s") as subscriber,
            pleach.connect(several(running, "b"), name="q") as other,  # it knows nobody else, but is told
        ):
            mine = await subscriber.subscribe("n >= 0")
            await publish(publisher, 0, 10)
            assert await numbers(mine, 10) == list(range(10))
            await until(lambda: other._driver._connections.current.fallbacks)
            epoch = await bury(running)
            late = asyncio.ensure_future(other.publish({"n": 1_000}))
            await publish(publisher, 10, 10)
            async with place_of_b(tmp_path, running, epoch) as place:
                await until(lambda: phase(place) is StandInPhase.SERVING)
                assert await numbers(mine, 11) in _orders([*range(10, 20)], 1_000)
                await late
                await publish(publisher, 20, 10)
                assert await numbers(mine, 10) == list(range(20, 30))
                assert [*place.node("b").broker.router.neighbours] == ["a", "c"]

    run(story())


def _orders(rising, other):
    return [[*rising[:place], other, *rising[place:]] for place in range(len(rising) + 1)]


@pytest.mark.parametrize("newer_first", [True, False])
def test_of_two_stand_ins_one_serves_and_the_older_is_fenced(tmp_path, newer_first):
    async def story():
        async with chain(tmp_path, heal=HEAL) as running:
            epoch = await bury(running)
            first, second = (epoch + 5, epoch) if newer_first else (epoch, epoch + 5)
            async with place_of_b(tmp_path, running, first) as one:
                await until(lambda: phase(one) is StandInPhase.SERVING)
                async with place_of_b(tmp_path, running, second) as two:
                    older, newer = (two, one) if newer_first else (one, two)
                    while older.daemons:
                        assert not (serves(older) and serves(newer))
                        if older._tasks["b"].done():
                            assert await end_of_b(older) == EXIT_FENCED
                        await asyncio.sleep(0.005)
                    await until(lambda: phase(newer) is StandInPhase.SERVING)
                    assert all(running.node(name).links.is_up("b") for name in "ac")

    run(story())


def test_one_that_gathers_while_the_other_is_cut_off_does_not_serve(tmp_path):
    """Two guardians that cannot hear each other: each stand-in has one neighbour, and lacks the other's word."""

    async def story():
        async with chain(tmp_path, heal=HEAL) as running:
            epoch = await bury(running)
            nowhere = {"a": "127.0.0.1:1", "c": "127.0.0.1:1"}
            at_a = {**nowhere, "a": running.ready["a"].peer}
            at_c = {**nowhere, "c": running.ready["c"].peer}
            settings = {"heal": HEAL, "client_listen": "127.0.0.1:0"}
            one, two = Running(tmp_path / "one"), Running(tmp_path / "two")
            try:
                await one.start("b", **settings, peers=at_a, stand_in=StandInSettings(epoch))
                await two.start("b", **settings, peers=at_c, stand_in=StandInSettings(epoch + 1))
                await until(lambda: running.node("a").links.is_up("b") and running.node("c").links.is_up("b"))
                await asyncio.sleep(0.3)  # what is not to happen has time to
                assert (phase(one), phase(two)) == (StandInPhase.GATHERING, StandInPhase.GATHERING)
                await two.stop("b")
                await two.start("b", **settings, peers=peers(running), stand_in=StandInSettings(epoch + 1))
                assert await end_of_b(one) == EXIT_FENCED
                await until(lambda: phase(two) is StandInPhase.SERVING)
            finally:
                await one.stop_all()
                await two.stop_all()

    run(story())


@pytest.mark.parametrize("has_memory", [True, False])
def test_the_dead_broker_is_fenced_when_it_returns(tmp_path, has_memory):
    async def story():
        async with chain(tmp_path, heal=HEAL) as running:
            epoch = await bury(running)
            async with place_of_b(tmp_path, running, epoch) as place:
                await until(lambda: phase(place) is StandInPhase.SERVING)
                await until(lambda: running.node("a").features[NeighbourReports].stand_in_of("b"))
                settings = {} if has_memory else {"data_dir": ""}
                await running.start("b", heal=HEAL, peers={n: running.ready[n].peer for n in "ac"}, **settings)
                assert await end_of_b(running) == EXIT_FENCED
                assert phase(place) is StandInPhase.SERVING

    run(story())


def test_one_that_is_back_in_time_goes_on_as_ever(tmp_path):
    async def story():
        async with (
            chain(tmp_path, heal=HEAL) as running,
            pleach.connect(address(running, "a"), name="p") as publisher,
            pleach.connect(address(running, "c"), name="s") as subscriber,
        ):
            mine = await subscriber.subscribe("n >= 0")
            await bury(running)
            await publish(publisher, 0, 10)
            await running.start("b", heal=HEAL, peers={n: running.ready[n].peer for n in "ac"})
            assert await numbers(mine, 10) == list(range(10))
            assert phase(running) is StandInPhase.IDLE
            assert running.node("a").counters.heal.bereavements == 0

    run(story())


def test_a_client_with_a_disk_keeps_what_it_has_got_through_a_death_of_its_broker(tmp_path):
    """What was delivered and not consumed is on no broker any more: the client has it."""

    async def story():
        async with chain(tmp_path, heal=HEAL) as running:
            places = several(running, "b", "c")
            async with pleach.connect(several(running, "a"), name="p") as publisher:
                subscriber = await pleach.connect(places, name="s", state_dir=tmp_path / "s").__aenter__()
                mine = await subscriber.subscribe("n >= 0")
                await publish(publisher, 0, 10)
                assert await numbers(mine, 3) == [0, 1, 2]
                await until(lambda: not running.node("b").endpoint.sessions["s"].unconfirmed)
                await abandon(subscriber)
                epoch = await bury(running)
                await publish(publisher, 10, 5)
                async with place_of_b(tmp_path, running, epoch) as place:
                    await until(lambda: phase(place) is StandInPhase.SERVING)
                    async with pleach.connect(places, name="s", state_dir=tmp_path / "s") as again:
                        (restored,) = again.restored
                        rest = await numbers(await again.subscribe(restored.filter), 13)
                        assert rest[-12:] == list(range(3, 15))  # what was in hand when the process died may come again

    run(story())


@pytest.mark.parametrize("told", Told)
def test_a_broker_that_hears_nobody_sends_its_clients_away_until_it_does(tmp_path, told):
    """Whatever the other one has told of itself before it went: it may know enough to start a stand-in here."""

    async def story():
        running = Running(tmp_path)
        quick = HealSettings(after=0.2)
        try:
            await running.start("a", neighbours=("b",), heal=quick)
            await running.start("b", peers={"a": running.ready["a"].peer}, heal=quick)
            node = running.node("a")
            await until(lambda: (kin := node.features[NeighbourReports].of("b")) and kin.is_complete)
            async with pleach.connect(address(running, "a"), name="p", connect_timeout=WAIT_SECONDS_MAX) as publisher:
                await until(lambda: node.links.is_up("p"))
                forget(node, told)
                await running.stop("b")
                await until(lambda: node.features[Guardian].cut_off and not node.links.is_up("p"))
                waiting = asyncio.ensure_future(publisher.publish({"n": 1}))
                await running.start("b", peers={"a": running.ready["a"].peer}, heal=quick)
                await waiting
                await until(lambda: not node.features[Guardian].cut_off and node.links.is_up("p"))
                assert node.features[Guardian].host.hosted == {}
        finally:
            await running.stop_all()

    run(story())


def forget(node, told):
    """What a knows of b, as if b had not come to say more; it does not say it twice."""
    neighbour_info = node.broker.machine(NeighbourInfo)
    match told:
        case Told.PART:
            kin = msgspec.structs.replace(neighbour_info.of("b"), neighbours={"a": NeighbourAddress()})
            neighbour_info.restore(pack(NeighbourInfoState({"b": kin})))
        case Told.NOTHING:
            neighbour_info.restore(pack(NeighbourInfoState()))
    assert bool(neighbour_info.of("b")) == (told is not Told.NOTHING)
