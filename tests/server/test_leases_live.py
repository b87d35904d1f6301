"""Leases among running brokers: what is wanted stays, who is away is waited for, what a fault leaves goes."""

import asyncio
from http import HTTPStatus

import msgspec
import pytest

import pleach
from pleach.core.events.language import parse_filter
from pleach.core.messages import Layer
from pleach.core.routing.entries import Entry
from pleach.errors import DeniedError
from pleach.net.http_client import ask
from pleach.server.http.faults import InjectedFaults
from pleach.server.settings import BrokerLimits
from pleach.server.stabilise_settings import LeaseSettings
from pleach.server.stabilising import Stabilising
from support.live.daemons import chain
from support.live.tiny_broker import take, until

LEASES = LeaseSettings(refresh=0.15, period=0.8)
LEASED = {"stabilise": LEASES, "debug_faults": True, "heartbeat": 0.15}
ROUNDS = 8  # of renewals: more than a period
GHOST = Entry("", parse_filter("ghost = 1"))


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 200))


def connect(running, broker, name, **options):
    return pleach.connect(f"pleach://{running.ready[broker].client}", name=name, heartbeat=0.1, **options)


def entries(running, broker, source):
    return [
        entry.filter.text for entry in running.node(broker).broker.router.received_from(Layer.SUBSCRIPTIONS, source)
    ]


async def periods_pass(running, broker):
    """Until something of a connected neighbour has run out that nobody renews: two ticks at least."""
    node = running.node(broker)
    neighbour = next(n for n in node.broker.router.neighbours if node.links.is_up(n))
    node.broker.router.add(Layer.SUBSCRIPTIONS, neighbour, GHOST, None)
    await until(lambda: GHOST.filter.text not in entries(running, broker, neighbour))


async def strike(running, broker, action, **body):
    return await ask(running.ready[broker].admin, f"/debug/{action}", body)


# What is wanted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("advertisements", [False, True])
def test_a_client_that_lives_loses_nothing(tmp_path, advertisements):
    async def scene():
        settings = {**LEASED, "advertisements": advertisements}
        async with (
            chain(tmp_path, **settings) as running,
            connect(running, "a", "s") as s,
            connect(running, "c", "p") as p,
        ):
            if advertisements:
                await p.advertise("EXISTS x")
            found = await s.subscribe("x > 0")
            await periods_pass(running, "b")
            await periods_pass(running, "a")
            await p.publish({"x": 1})
            assert [event.attributes["x"] for event in await take(found, 1)] == [1]
            counters = [running.node(name).counters.leases for name in "abc"]
            await until(
                lambda: all(each.renewals_received > ROUNDS and each.renewals_sent > 0 for each in counters[:2])
            )
            assert [each.lease_expired for each in counters] == [1, 1, 0], "the two ghosts that were put in"

    run(scene())


def test_the_broker_says_how_often_to_renew(tmp_path):
    async def scene():
        async with chain(tmp_path, **LEASED) as running, connect(running, "a", "s") as client:
            await client.subscribe("x > 0")
            assert client._state().refresh == LEASES.refresh

    run(scene())


def test_a_client_that_stays_away_keeps_what_it_has_until_its_session_expires(tmp_path):
    async def scene():
        async with chain(tmp_path / "brokers", **LEASED) as running:
            async with connect(running, "a", "s", state_dir=tmp_path) as client:
                await client.subscribe("x > 0")
            await until(lambda: "s" in running.node("a").features[Stabilising].away)
            await periods_pass(running, "a")
            assert entries(running, "a", "s") == ["x > 0"]
            assert entries(running, "c", "b") == ["x > 0"]
            node = running.node("a")
            node.apply(msgspec.structs.replace(node.settings, limits=BrokerLimits(client_absence_seconds=1)))
            await until(lambda: not entries(running, "a", "s") and not entries(running, "c", "b"))
            assert node.counters.clients.expired == 1

    run(scene())


def test_a_client_that_comes_back_goes_on_renewing(tmp_path):
    async def scene():
        async with chain(tmp_path / "brokers", **LEASED) as running:
            async with connect(running, "a", "s", state_dir=tmp_path) as client:
                await client.subscribe("x > 0")
            await periods_pass(running, "a")
            async with connect(running, "a", "s", state_dir=tmp_path), connect(running, "c", "p") as p:
                before = running.node("a").counters.leases.renewals_received
                await periods_pass(running, "a")
                assert running.node("a").counters.leases.renewals_received > before
                assert entries(running, "a", "s") == ["x > 0"]
                await p.publish({"x": 1})

    run(scene())


def test_a_neighbour_that_is_away_for_periods_misses_nothing(tmp_path):
    async def scene():
        async with (
            chain(tmp_path, **LEASED) as running,
            connect(running, "a", "s") as s,
            connect(running, "c", "p") as p,
        ):
            found = await s.subscribe("x > 0")
            dialled = running.node("b").settings.peers
            await running.stop("b")
            await p.publish({"x": 1})
            node = running.node("c")
            await until(lambda: "b" in node.features[Stabilising].away)
            node.broker.router.add(Layer.SUBSCRIPTIONS, "p", GHOST, None)
            await until(lambda: not entries(running, "c", "p"))
            assert node.counters.leases.lease_expired == 1
            assert entries(running, "c", "b") == ["x > 0"]
            queued = node.endpoint.sessions["b"].unconfirmed
            assert queued < ROUNDS, "renewals that nobody can hear do not pile up"
            await running.start("b", peers=dialled, **LEASED)
            assert [event.attributes["x"] for event in await take(found, 1)] == [1]

    run(scene())


def test_leases_are_kept_on_disk(tmp_path):
    async def scene():
        async with chain(tmp_path, **LEASED) as running, connect(running, "a", "s") as s:
            await s.subscribe("x > 0")
            await running.stop("a")
            await running.start("a", neighbours=("b",), **LEASED)
            await until(lambda: running.node("a").counters.leases.renewals_received > ROUNDS)
            assert running.node("a").counters.leases.lease_restored == 0
            await periods_pass(running, "b")
            assert entries(running, "b", "a") == ["x > 0"]

    run(scene())


# What is damaged ------------------------------------------------------------------------------------------------


def test_a_damaged_table_mends_and_the_counters_say_so(tmp_path):
    async def scene():
        async with chain(tmp_path, **LEASED) as running, connect(running, "a", "s") as s:
            wanted = [f"x = {n}" for n in range(10)]
            for text in wanted:
                await s.subscribe(text)
            await until(lambda: sorted(entries(running, "c", "b")) == wanted)
            answer = await strike(running, "b", "corrupt", what="table", share=1.0, seed=3)
            assert answer.is_ok, answer
            assert sorted(entries(running, "b", "a")) != wanted
            await until(lambda: all(sorted(entries(running, x, y)) == wanted for x, y in ("ba", "cb")))
            await until(lambda: not entries(running, "b", "c"))
            assert running.node("b").counters.leases.lease_restored > 0

    run(scene())


def test_damage_survives_a_restart_until_it_is_mended(tmp_path):
    """What is struck is on disk: otherwise a crash would be a cure."""

    slow = {**LEASED, "stabilise": LeaseSettings(refresh=0.2, period=1_000.0)}

    async def scene():
        async with chain(tmp_path, **slow) as running:
            node = running.node("b")
            assert (await strike(running, "b", "corrupt", what="table", share=1.0, seed=4)).is_ok
            damaged = {n: entries(running, "b", n) for n in "ac"}
            assert any(damaged.values()), "ghosts"
            await until(lambda: node.counters.disk.snapshots)
            dialled = node.settings.peers
            await running.stop("b")
            await running.start("b", peers=dialled, **slow)
            assert {n: entries(running, "b", n) for n in "ac"} == damaged
            await running.stop("b")
            await running.start("b", peers=dialled, **LEASED)
            await until(lambda: not any(entries(running, "b", n) for n in "ac"))

    run(scene())


def test_an_old_state_is_left_behind_again(tmp_path):
    async def scene():
        async with chain(tmp_path, **LEASED) as running, connect(running, "a", "s") as s:
            assert (await strike(running, "b", "rewind")).code == 409
            former = await s.subscribe("x = 1")
            await until(lambda: entries(running, "c", "b") == ["x = 1"])
            assert (await strike(running, "b", "keep")).is_ok
            await former.unsubscribe()
            await s.subscribe("x = 2")
            await until(lambda: entries(running, "c", "b") == ["x = 2"])
            assert (await strike(running, "b", "rewind")).is_ok
            assert entries(running, "b", "a") == ["x = 1"]
            await until(lambda: entries(running, "b", "a") == ["x = 2"] and entries(running, "c", "b") == ["x = 2"])

    run(scene())


def test_what_is_sent_to_a_neighbour_is_garbled_for_a_while(tmp_path):
    async def scene():
        async with (
            chain(tmp_path, **LEASED) as running,
            connect(running, "a", "s") as s,
            connect(running, "b", "p") as p,
        ):
            found = await s.subscribe("EXISTS x")
            assert (await strike(running, "b", "garble", peer="a", share=1.0, seconds=60.0, seed=1)).is_ok
            for n in range(20):
                await p.publish({"x": n})
            assert (await strike(running, "b", "garble", peer="a", seconds=0.0)).is_ok  # in place of the longer one
            await until(lambda: running.node("b").features[InjectedFaults].garblers == {})
            await until(lambda: entries(running, "a", "b") == [])
            await p.publish({"x": 99})
            seen = []
            while 99 not in seen:
                seen += [event.attributes["x"] for event in await take(found, 1)]
            assert seen[:-1] != list(range(20)), "nothing was lost, doubled or made up"

    run(scene())


REFUSED = (403, "lets nobody damage it")


@pytest.mark.parametrize(
    ("settings", "strikes"),
    [
        (
            {"stabilise": LEASES},
            [
                ("corrupt", {"what": "table"}, *REFUSED),
                ("garble", {"peer": "a"}, *REFUSED),
                ("keep", {}, *REFUSED),
                ("rewind", {}, *REFUSED),
            ],
        ),
        ({"debug_faults": True}, [("corrupt", {"what": "table"}, 409, "does not find back by itself")]),
        (
            LEASED,
            [
                ("corrupt", {"what": "soul"}, 400, "nothing is known of 'soul'"),
                ("corrupt", {"what": "table", "share": 2.0}, 400, "share"),
                ("garble", {"peer": "nobody"}, 400, "is no neighbour"),
                ("rewind", {}, 409, "has kept no state"),
            ],
        ),
    ],
    ids=["off", "unleased", "on"],
)
def test_faults_that_are_not_allowed_are_refused(tmp_path, settings, strikes):
    async def scene():
        async with chain(tmp_path, **settings) as running:
            node = running.node("b")
            stabilising, faults = node.features.get(Stabilising), node.features.get(InjectedFaults)
            await until(lambda: not stabilising or not stabilising.away)
            before = node.broker.router.capture().subscriptions.received
            for action, body, code, says in strikes:
                if code == HTTPStatus.FORBIDDEN:
                    with pytest.raises(DeniedError, match=f"{says}.*; start it with"):
                        await strike(running, "b", action, **body)
                    continue
                answer = await strike(running, "b", action, **body)
                assert (answer.code, says in answer.value["error"]) == (code, True), answer
                assert answer.value["remedy"]
            assert node.broker.router.capture().subscriptions.received == before
            assert not faults or not faults.garblers

    run(scene())
