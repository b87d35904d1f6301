"""Tables rebuilt in turn by running brokers: rounds go on, who is away is waited for, what a fault leaves goes."""

import asyncio
import contextlib
import itertools

import pytest

import pleach
from pleach.core.messages import Layer, Parity
from pleach.core.routing.router import RoutingConfig
from pleach.core.stabilise.paced import PacedRebuild
from pleach.errors import SettingsError
from pleach.net.http_client import ask
from pleach.server.http.faults import InjectedFaults
from pleach.server.http.status import gauges
from pleach.server.settings import load_settings
from pleach.server.stabilise_settings import LeaseSettings, StabiliseKind, mends_within
from pleach.server.stabilising import Stabilising
from support.live.daemons import Running
from support.live.tiny_broker import take, until

REBUILD = LeaseSettings(refresh=0.15, period=0.5, kind=StabiliseKind.REBUILD)
REBUILT = {"stabilise": REBUILD, "debug_faults": True, "heartbeat": 0.15}
PERIODS_OF_ASKING = 8  # refreshes: more than two periods
WHILE = 30.0  # on a machine that has much else to do
PLACES = {"a": {"neighbours": ("b",)}, "b": {"parent": "a"}, "c": {"neighbours": ("b",), "parent": "b"}}


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 200))


@contextlib.asynccontextmanager
async def line(directory, places=PLACES, **settings):
    """a–b–c: a is the root, b dials both."""
    running = Running(directory)
    try:
        for name in "acb":
            await start(running, name, places, **settings)
        await until(lambda: all(running.node("b").links.is_up(peer) for peer in "ac"))
        yield running
    finally:
        await running.stop_all()


async def start(running, name, places=PLACES, **settings):
    dialled = {"peers": {peer: running.ready[peer].peer for peer in "ac"}} if name == "b" else {}
    await running.start(name, **{**REBUILT, **places[name], **dialled, **settings})


def connect(running, broker, name, **options):
    return pleach.connect(f"pleach://{running.ready[broker].client}", name=name, heartbeat=0.1, **options)


def entries(running, broker, source):
    """What each of the two tables has."""
    tables = running.node(broker).broker.router.tables
    received = ([*tables["", parity].received_from(Layer.SUBSCRIPTIONS, source)] for parity in Parity)
    return [sorted(entry.filter.text for entry in table) for table in received]


def machine(running, broker):
    return running.node(broker).broker.machine(PacedRebuild)


def counted(running, *keys):
    return [[getattr(machine(running, broker).counters, key) for broker in "abc"] for key in keys]


async def rounds_pass(running, count=2):
    """Everywhere, from here on: with two, both tables have been built anew."""
    before = {name: machine(running, name).counters.rounds for name in "abc"}
    await until(lambda: all(machine(running, name).counters.rounds >= before[name] + count for name in "abc"))


async def strike(running, broker, action, **body):
    return await ask(running.ready[broker].admin, f"/debug/{action}", body)


# What is wanted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("advertisements", [False, True])
def test_a_client_that_lives_loses_nothing(tmp_path, advertisements):
    async def scene():
        async with (
            line(tmp_path, advertisements=advertisements) as running,
            connect(running, "a", "s") as s,
            connect(running, "c", "p") as p,
        ):
            if advertisements:
                await p.advertise("EXISTS x")
            found = await s.subscribe("x >= 0")
            enough = asyncio.Event()
            published = asyncio.create_task(publish_until(enough, p))
            await rounds_pass(running, 4)
            enough.set()
            count = await published
            seen = [event.attributes["x"] for event in await take(found, count)]
            assert seen == list(range(count)), "lost, doubled, or out of order"
            assert counted(running, "missing", "extra") == [[0, 0, 0], [0, 0, 0]]

    run(scene())


async def publish_until(enough, client):
    """Returns how many."""
    number = 0
    while not enough.is_set():
        await client.publish({"x": number})
        number += 1
    return number


def test_a_client_that_is_away_for_rounds_is_spoken_for(tmp_path):
    async def scene():
        async with line(tmp_path / "brokers") as running, connect(running, "c", "p") as p:
            async with connect(running, "a", "s", state_dir=tmp_path) as client:
                await client.subscribe("x > 0", name="all")
            await until(lambda: "s" in running.node("a").features[Stabilising].away)
            await rounds_pass(running, 3)
            assert ["x > 0"] in entries(running, "c", "b")
            assert machine(running, "a").counters.vouched >= 3
            await p.publish({"x": 1})
            async with connect(running, "a", "s", state_dir=tmp_path) as client:
                found = await client.subscribe("x > 0", name="all")
                assert [event.attributes["x"] for event in await take(found, 1)] == [1]

    run(scene())


@pytest.mark.parametrize("broker", ["b", "c"])
def test_a_broker_that_is_away_for_periods_is_waited_for(tmp_path, broker):
    async def scene():
        async with (
            line(tmp_path) as running,
            connect(running, "c", "s") as s,
            connect(running, "a", "p") as p,
        ):
            found = await s.subscribe("x > 0")
            await rounds_pass(running)
            await running.stop(broker)
            root = machine(running, "a")
            await until(lambda: broker in running.node("a" if broker == "b" else "b").features[Stabilising].away)
            asked, begun = root.counters.musters, root.counters.rounds
            await until(lambda: root.counters.musters >= asked + PERIODS_OF_ASKING)
            assert root.counters.rounds <= begun + 1, "one may have been whole before"
            assert ["x > 0"] in entries(running, "a", "b")
            await p.publish({"x": 1})
            if broker == "b":
                queued = running.node("a").endpoint.sessions["b"].unconfirmed
                assert queued < PERIODS_OF_ASKING, "what nobody can hear does not pile up"
            await start(running, broker)
            assert [event.attributes["x"] for event in await take(found, 1)] == [1]
            await rounds_pass(running)

    run(scene())


def test_rounds_go_on_after_a_restart_of_the_root(tmp_path):
    async def scene():
        async with line(tmp_path) as running, connect(running, "a", "s") as s:
            await s.subscribe("x > 0")
            await rounds_pass(running)
            await running.stop("a")
            await start(running, "a")
            await rounds_pass(running)
            assert ["x > 0"] in entries(running, "c", "b")
            assert counted(running, "missing", "extra") == [[0, 0, 0], [0, 0, 0]]

    run(scene())


def test_the_status_and_the_metrics_tell_of_rounds(tmp_path):
    async def scene():
        known = {"stabilise": LeaseSettings(0.15, 2.0, diameter=3, kind=StabiliseKind.REBUILD)}
        async with line(tmp_path, **known) as running:
            await rounds_pass(running, 1)
            told = (await ask(running.ready["b"].admin, "/status")).value["leases"]
            assert (told["kind"], told["mends_within"]) == ("rebuild", 6 + 5 * 0.25)
            assert 0.0 <= told["last_round_seconds_ago"] < WHILE
            seen = gauges(running.node("b"))
            assert running.node("b").counters.rebuilds.rebuild_rounds >= 1
            assert seen["pleach_rebuild_last_round_seconds"][0].value < WHILE

    run(scene())


def test_two_brokers_without_a_parent_name_each_other_once_in_the_log_and_in_the_status(tmp_path, caplog):
    """a–b–c: c names no parent, as a; b follows a, so that b and c take each other for children."""

    async def scene():
        async with line(tmp_path, {**PLACES, "c": {"neighbours": ("b",)}}) as running:
            await until(lambda: all(machine(running, name).rivals for name in "bc"))
            asked = machine(running, "c").counters.musters
            await until(lambda: machine(running, "c").counters.musters >= asked + 2)
            return {name: (await ask(running.ready[name].admin, "/status")).value["leases"] for name in "abc"}

    told = run(scene())
    assert told["a"]["two_roots"] == ""
    assert told["b"]["two_roots"].startswith("a and c are both roots")
    assert told["c"]["two_roots"].startswith("c and a are both roots")
    said = [r for r in caplog.records if r.name == "pleach.server.stabilising"]
    assert sorted(each.getMessage() for each in said) == [told[name]["two_roots"] for name in "bc"]


# What is damaged ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["table", "flags", "all"])
def test_damage_mends_and_the_counters_say_so(tmp_path, what):
    async def scene():
        async with line(tmp_path) as running, connect(running, "a", "s") as s:
            wanted = sorted(f"x = {n}" for n in range(10))
            for text in wanted:
                await s.subscribe(text)
            await rounds_pass(running)
            answer = await strike(running, "b", "corrupt", what=what, share=1.0, seed=3)
            assert answer.is_ok, answer
            assert what == "flags" or entries(running, "b", "a") != [wanted, wanted]
            await rounds_pass(running, 3)
            await until(lambda: is_right(running, wanted))
            wrong = sum(map(sum, counted(running, "missing", "extra")))
            assert what == "flags" or wrong > 0

    run(scene())


def is_right(running, wanted):
    """Of both tables: they are so for most of a round, between renewals and its end."""
    towards = all(entries(running, *ends) == [wanted, wanted] for ends in ("ba", "cb"))
    return towards and not any(itertools.chain(*entries(running, "a", "b"), *entries(running, "b", "c")))


def test_an_old_state_is_left_behind_again(tmp_path):
    async def scene():
        async with line(tmp_path) as running, connect(running, "a", "s") as s:
            former = await s.subscribe("x = 1")
            assert (await strike(running, "b", "keep")).is_ok
            await former.unsubscribe()
            await s.subscribe("x = 2")
            await until(lambda: is_right(running, ["x = 2"]))
            assert (await strike(running, "b", "rewind")).is_ok
            assert ["x = 1"] in entries(running, "b", "a")
            await until(lambda: is_right(running, ["x = 2"]))

    run(scene())


def test_what_is_sent_to_a_neighbour_is_garbled_for_a_while(tmp_path):
    async def scene():
        async with line(tmp_path) as running, connect(running, "a", "s") as s, connect(running, "c", "p") as p:
            found = await s.subscribe("EXISTS x")
            assert (await strike(running, "b", "garble", peer="c", share=1.0, seconds=1.0, seed=1)).is_ok
            await until(lambda: running.node("b").features[InjectedFaults].garblers == {})
            await until(lambda: is_right(running, ["EXISTS x"]))
            await rounds_pass(running)
            await p.publish({"x": 99})
            assert [event.attributes["x"] for event in await take(found, 1)] == [99]

    run(scene())


# What there is not ----------------------------------------------------------------------------------------------


def test_links_stay(tmp_path):
    async def scene():
        async with line(tmp_path) as running:
            body = {"a": "a", "b": "b", "c": "c"}
            answer = await ask(running.ready["a"].admin, "/overlay/swap", body)
            assert (answer.code, answer.value["remedy"]) == (409, "this broker has no protocol for it")

    run(scene())


def given(**stabilise):
    return {"name": "b", "stabilise": {"kind": "rebuild", "refresh": 1.0, "period": 5.0, **stabilise}}


def test_periods_fit_the_network_if_it_is_known():
    settings = load_settings(None, {}, given(diameter=4)).stabilise
    assert mends_within(settings, RoutingConfig()) == 3 * 5.0 + 7 * 0.25
    assert settings == load_settings(None, {"PLEACH_STABILISE_KIND": "rebuild"}, given(diameter=4)).stabilise
    with pytest.raises(SettingsError, match=r"more than 5\.25 s is wanted .*, or rounds are late"):
        load_settings(None, {}, given(diameter=9))
    with pytest.raises(SettingsError, match=r"more than 5\.25 s is wanted"):
        load_settings(None, {}, {**given(diameter=5), "advertisements": True})


@pytest.mark.parametrize(
    "more", [{"welcome": ["d"]}, {"ring": {"found": True}}, {"improve": {}}], ids=["welcome", "ring", "improve"]
)
def test_nobody_joins_and_no_link_is_exchanged(more):
    with pytest.raises(SettingsError, match="over links that stay"):
        load_settings(None, {}, {**given(), **more})
