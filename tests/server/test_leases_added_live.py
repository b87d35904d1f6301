"""`[stabilise]` is turned on broker by broker, under load: nothing is lost meanwhile, and damage mends afterwards."""

import asyncio

import msgspec
import pytest

import pleach
from pleach.core.messages import Layer
from pleach.errors import SettingsError
from pleach.net.http_client import ask
from pleach.server.opening import open_store
from pleach.server.settings import BrokerSettings
from pleach.server.stabilise_settings import LeaseSettings, StabiliseKind
from pleach.server.stabilising import Stabilising
from support.live.daemons import chain
from support.live.tiny_broker import take, until

LEASES = LeaseSettings(refresh=0.15, period=0.8)
WITHOUT = {"debug_faults": True, "heartbeat": 0.15}
WITH = {**WITHOUT, "stabilise": LEASES}
TICKS = 2
ORDERS = ["abc", "cab", "bac"]


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 200))


def connect(running, broker, name, **options):
    return pleach.connect(f"pleach://{running.ready[broker].client}", name=name, heartbeat=0.1, **options)


def links(running, name):
    """As the chain has them: b dials."""
    if name == "b":
        return {"peers": {peer: running.ready[peer].peer for peer in "ac"}}
    return {"neighbours": ("b",)}


def entries(running, broker, source):
    received = running.node(broker).broker.router.received_from(Layer.SUBSCRIPTIONS, source)
    return sorted(entry.filter.text for entry in received)


async def restart(running, name, settings):
    await running.stop(name)
    await running.start(name, **links(running, name), **settings)
    await until(lambda: all(running.node("b").links.is_up(peer) for peer in "ac"))


async def periods_pass(running, names):
    """Until everybody that has leases has looked twice for entries that expired."""
    counts = {name: count_ticks(running.node(name).broker.router) for name in names}
    await until(lambda: all(len(ticks) > TICKS for ticks in counts.values()))


def count_ticks(router):
    ticks, lapse = [], router.lapse

    def counted():
        ticks.append(lapse())
        return ticks[-1]

    router.lapse = counted
    return ticks


@pytest.mark.parametrize("order", ORDERS)
def test_leases_are_turned_on_broker_by_broker_and_nothing_is_lost(tmp_path, order):
    async def scene():
        async with (
            chain(tmp_path / "brokers", **WITHOUT) as running,
            connect(running, "a", "s") as s,
            connect(running, "c", "p") as p,
        ):
            found = await s.subscribe("x >= 0")
            for count, name in enumerate(order, 1):
                await restart(running, name, WITH)
                await periods_pass(running, order[:count])
                await p.publish({"x": count})
                assert [event.attributes["x"] for event in await take(found, 1)] == [count]
                assert sum(running.node(each).counters.leases.lease_expired for each in order[:count]) == 0
                lacking = {peer for peer in "abc" if peer not in order[:count]}
                told = running.node(name).features[Stabilising].status()["leases"]["without"]
                assert told == sorted(lacking & {*running.node(name).broker.router.neighbours})
            assert (await ask(running.ready["b"].admin, "/debug/corrupt", {"what": "table", "seed": 3})).is_ok
            await until(lambda: entries(running, "b", "a") == ["x >= 0"] == entries(running, "c", "b"))
            await until(lambda: not entries(running, "b", "c"))

    run(scene())


def test_a_crash_right_after_leaves_a_directory_that_opens(tmp_path):
    """The journal has inputs of both."""

    async def scene():
        async with chain(tmp_path / "brokers", **WITHOUT) as running, connect(running, "a", "s") as s:
            await s.subscribe("x >= 0")
            await restart(running, "a", WITH)
            await periods_pass(running, "a")
            node = running.node("a")
            assert node._store.journal_length > 0
            await restart(running, "a", WITH)
            assert entries(running, "a", "s") == ["x >= 0"]

    run(scene())


def opened(tmp_path, stabilise):
    settings = BrokerSettings("a", data_dir=str(tmp_path / "a"), stabilise=stabilise)
    open_store(settings).store.close()


def test_leases_that_were_added_stay(tmp_path):
    opened(tmp_path, None)
    opened(tmp_path, LEASES)
    opened(tmp_path, LEASES)
    with pytest.raises(SettingsError, match="none is wanted, but the data directory was made with leases"):
        opened(tmp_path, None)


REBUILD = msgspec.structs.replace(LEASES, kind=StabiliseKind.REBUILD)


@pytest.mark.parametrize(
    ("former", "wanted"), [(None, REBUILD), (REBUILD, None), (REBUILD, LEASES), (LEASES, REBUILD), (LEASES, None)]
)
def test_nothing_else_is_changed_later(tmp_path, former, wanted):
    opened(tmp_path, former)
    for _ in range(2):
        with pytest.raises(SettingsError, match="is wanted, but the data directory was made with"):
            opened(tmp_path, wanted)
    opened(tmp_path, former)


def test_other_settings_are_judged_before_leases_are_added(tmp_path):
    opened(tmp_path, None)
    settings = BrokerSettings("a", data_dir=str(tmp_path / "a"), stabilise=LEASES, routing="simple")
    with pytest.raises(SettingsError, match="simple is wanted"):
        open_store(settings)
    opened(tmp_path, None)
