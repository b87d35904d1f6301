"""Rights at running brokers: who is let in, what each may publish and see, and what becomes of it when that changes."""

from __future__ import annotations

import asyncio
import contextlib
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

import pleach
from pleach.client.reader import Reader
from pleach.core.events.language import parse_filter
from pleach.core.messages import RequestHost, RequestMove
from pleach.errors import (
    AccessDeniedError,
    AccessError,
    ClientError,
    PublishRefusedError,
    SubscribeRefusedError,
)
from pleach.net.addresses import parse_addresses
from pleach.net.client_login import Entry
from support.access.keyring import Keyring
from support.live.daemons import Running, chain
from support.live.numbered_events import address, run
from support.live.tiny_broker import until

EVERYTHING = "publish = 'TRUE'\nsubscribe = 'TRUE'"


@pytest.fixture
def keys(tmp_path):
    return Keyring(tmp_path)


@contextlib.asynccontextmanager
async def one(tmp_path, keys, **settings):
    running = Running(tmp_path)
    try:
        await running.start("a", access=keys.settings, **settings)
        yield running
    finally:
        await running.stop_all()


def connected(running, keys, name, broker="a", principal="", **options):
    key = keys.key(principal or name)
    return pleach.connect(address(running, broker), name=name, key=key, heartbeat=0.1, **options)


def reload(running):
    for daemon in running.daemons.values():
        daemon._asked_to_reload()


async def publish_for_ever(client):
    while True:
        await client.publish({"n": 2})
        await asyncio.sleep(0.01)


async def received(subscription, count):
    return [(await asyncio.wait_for(subscription.next(), 30)).attributes for _ in range(count)]


# Who is let in -----------------------------------------------------------------------------------------------------


def test_who_does_not_log_in_or_logs_in_wrongly_is_denied(tmp_path, keys):
    keys.write(alice=EVERYTHING, bob=EVERYTHING)
    keys.key("stranger")

    async def story():
        async with one(tmp_path, keys) as running:
            place = address(running, "a")
            for options in (
                {"name": "alice"},
                {"name": "alice", "key": keys.key("stranger")},
                {"name": "bob", "key": keys.key("alice")},
                {"name": "alice", "token": "a.b.c"},
            ):
                with pytest.raises(AccessDeniedError):
                    async with pleach.connect(place, **options):
                        pass
            async with connected(running, keys, "alice") as alice:
                assert alice.name == "alice"
            assert running.node("a").counters.door.denied == 4
            await until(lambda: "alice" not in running.node("a").links)

    run(story())


def test_an_empty_file_denies_all(tmp_path, keys):
    keys.write()

    async def story():
        async with one(tmp_path, keys) as running:
            with pytest.raises(AccessDeniedError):
                async with connected(running, keys, "alice"):
                    pass

    run(story())


def test_a_broken_file_is_refused_at_the_start(tmp_path, keys):
    keys.file.write_text("[principals.alice]\npublish = 'price >'\n")
    with pytest.raises(AccessError, match=r"principals\.alice\.publish"):
        run(one(tmp_path, keys).__aenter__())


def test_a_key_where_there_is_no_log_in_is_an_error_and_no_silence(tmp_path, keys):
    async def story():
        async with chain(tmp_path) as running:
            with pytest.raises(AccessDeniedError, match="no log-in here"):
                async with connected(running, keys, "alice"):
                    pass

    run(story())


def test_a_token_is_good_until_it_expires(tmp_path, keys):
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "issuer.pem").write_bytes(pem)
    keys.write("[tokens]\nissuer = 'i'\naudience = 'pleach'\nkeys = 'issuer.pem'", alice=f"token = 's'\n{EVERYTHING}")
    asked = []

    def token(seconds):
        asked.append(seconds)
        claims = {"iss": "i", "aud": "pleach", "sub": "s", "exp": time.time() + seconds}
        return jwt.encode(claims, private, "ES256")

    async def story():
        async with one(tmp_path, keys) as running:
            place = address(running, "a")
            async with pleach.connect(place, name="alice", token=lambda: token(2 if not asked else 60)) as alice:
                mine = await alice.subscribe("TRUE")
                await until(lambda: len(asked) == 2, seconds=30)  # logged in again, and goes on
                await alice.publish({"n": 1})
                assert await received(mine, 1) == [{"n": 1}]
            fixed = token(2)
            async with pleach.connect(place, name="alice", token=fixed) as alice:
                with pytest.raises(AccessDeniedError):
                    await publish_for_ever(alice)

    run(story())


# What each may publish and see -------------------------------------------------------------------------------------


def test_an_event_beyond_the_right_is_refused_also_within_a_run(tmp_path, keys):
    keys.write(alice="publish = 'n < 50'", bob="subscribe = 'TRUE'")

    async def story():
        async with (
            chain(tmp_path, access=keys.settings) as running,
            connected(running, keys, "alice") as alice,
            connected(running, keys, "bob", "c") as bob,
        ):
            mine = await bob.subscribe("TRUE")
            futures = [await alice.publish_windowed({"n": n}) for n in range(100)]
            ends = await asyncio.gather(*futures, return_exceptions=True)
            assert [isinstance(end, PublishRefusedError) for end in ends] == [n >= 50 for n in range(100)]
            await alice.publish({"n": -1})
            assert await received(mine, 51) == [{"n": n} for n in [*range(50), -1]]

    run(story())


def test_a_wider_subscription_is_narrowed_and_told_or_refused_where_rights_are_strict(tmp_path, keys):
    lines = "subscribe = 'price < 100'"
    keys.write(p="publish = 'TRUE'", bob=lines, carol=f"{lines}\nstrict = true")

    async def story():
        async with (
            chain(tmp_path, access=keys.settings) as running,
            connected(running, keys, "p") as publisher,
            connected(running, keys, "bob", "c") as bob,
            connected(running, keys, "carol", "c") as carol,
        ):
            mine = await bob.subscribe("price > 50")
            assert mine.filter == parse_filter("price > 50")
            assert not mine.effective.matches({"price": 100})
            within = await bob.subscribe("price < 10")
            assert within.effective == within.filter
            with pytest.raises(SubscribeRefusedError, match="wider than its right"):
                await carol.subscribe("price > 50")
            with pytest.raises(SubscribeRefusedError, match="no event"):
                await bob.subscribe("price > 200")
            for price in (40, 60, 99, 100, 150, 70):
                await publisher.publish({"price": price})
            assert await received(mine, 3) == [{"price": 60}, {"price": 99}, {"price": 70}]

    run(story())


def test_a_hidden_attribute_may_not_be_named_and_is_not_delivered(tmp_path, keys):
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'level <= 2'\nhidden = ['level', 'margin']", open=EVERYTHING)

    async def story():
        async with (
            chain(tmp_path, access=keys.settings) as running,
            connected(running, keys, "p") as publisher,
            connected(running, keys, "bob", "c") as bob,
            connected(running, keys, "open", "c") as other,
        ):
            for oracle in ("margin > 5", "topic = 'x' AND NOT EXISTS margin", "topic = 'x' OR level = 2"):
                with pytest.raises(SubscribeRefusedError, match="hidden"):
                    await bob.subscribe(oracle)
            mine, all_of_it = await bob.subscribe("topic = 'x'"), await other.subscribe("topic = 'x'")
            events = [{"topic": "x", "level": level, "margin": 7, "n": level} for level in (1, 3, 2)]
            for event in events:
                await publisher.publish(event)
            assert await received(mine, 2) == [{"topic": "x", "n": 1}, {"topic": "x", "n": 2}]
            assert await received(all_of_it, 3) == events

    run(story())


def test_tenants_do_not_see_each_other(tmp_path, keys):
    keys.write(
        ann=f"tenant = 'acme'\n{EVERYTHING}",
        bob=f"tenant = 'bolt'\n{EVERYTHING}",
        nobody=EVERYTHING,
        root=f"tenant = '*'\nnames = ['*']\n{EVERYTHING}",
    )

    async def story():
        async with contextlib.AsyncExitStack() as stack:
            running = await stack.enter_async_context(chain(tmp_path, access=keys.settings))
            ann = await stack.enter_async_context(connected(running, keys, "ann", tenant="acme"))
            bob = await stack.enter_async_context(connected(running, keys, "bob", "c", tenant="bolt"))
            nobody = await stack.enter_async_context(connected(running, keys, "nobody", "c"))
            root = await stack.enter_async_context(connected(running, keys, "root", "c"))
            assert (ann.name, bob.name) == ("acme/ann", "bolt/bob")
            for options in ({"name": "ann", "tenant": "bolt"}, {"name": "ann"}):
                with pytest.raises(AccessDeniedError):
                    async with connected(running, keys, principal="ann", **options):
                        pass
            mine = {each.name: await each.subscribe("TRUE") for each in (ann, bob, nobody, root)}
            sneaky = await bob.subscribe("pleachtenant = 'acme' OR n > 0")
            for client in (ann, bob, nobody):
                await client.publish({"n": 1, "from": client.name})
            with pytest.raises(PublishRefusedError):
                await nobody.publish({"n": 2, "pleachtenant": "acme"})
            await root.publish({"n": 3, "pleachtenant": "acme"})
            assert [e["from"] for e in await received(mine["bolt/bob"], 1)] == ["bolt/bob"]
            assert [e["from"] for e in await received(sneaky, 1)] == ["bolt/bob"]
            assert [e["from"] for e in await received(mine["nobody"], 1)] == ["nobody"]
            assert [e["n"] for e in await received(mine["acme/ann"], 2)] == [1, 3]
            assert sorted(e["n"] for e in await received(mine["root"], 4)) == [1, 1, 1, 3]

    run(story())


# When rights change ------------------------------------------------------------------------------------------------


def test_a_withdrawn_right_takes_effect_on_live_subscriptions_and_a_restored_one_too(tmp_path, keys):
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'TRUE'")

    async def story():
        async with (
            chain(tmp_path, access=keys.settings) as running,
            connected(running, keys, "p") as publisher,
            connected(running, keys, "bob", "c") as bob,
        ):
            mine = await bob.subscribe("n >= 0")
            await publisher.publish({"n": 1, "secret": False})
            keys.write(p="publish = 'TRUE'", bob="subscribe = 'secret = FALSE'")
            reload(running)
            await until(lambda: mine.effective != mine.filter)
            for n, secret in ((2, True), (3, False)):
                await publisher.publish({"n": n, "secret": secret})
            assert [e["n"] for e in await received(mine, 2)] == [1, 3]
            keys.write(p="publish = 'TRUE'", bob="subscribe = 'TRUE'")
            reload(running)
            await until(lambda: mine.effective == mine.filter)
            attributes = {"n": 4, "secret": True}  # a change is told when the client's broker has made it
            await until(lambda: running.node("a").broker.router.destinations(attributes, "p"))
            await publisher.publish({"n": 4, "secret": True})
            assert [e["n"] for e in await received(mine, 1)] == [4]

    run(story())


def test_a_right_that_is_withdrawn_while_events_wait(tmp_path, keys):
    """What waits for a client that is away is taken out: from its own connection, from a reader's, and from disk."""
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'TRUE'")

    async def story():
        async with chain(tmp_path, access=keys.settings) as running:
            async with connected(running, keys, "bob", "c", state_dir=tmp_path / "bob") as bob:
                await bob.subscribe("n >= 0", name="mine")
            async with connected(running, keys, "p") as publisher:
                for n in range(20):
                    await publisher.publish({"n": n, "secret": n % 2 == 1})
                await until(lambda: running.node("c").endpoint.sessions["bob"].unconfirmed >= 20)
            keys.write(p="publish = 'TRUE'", bob="subscribe = 'secret = FALSE'")
            reload(running)
            waiting = b"".join(p for _, p in running.node("c").endpoint.sessions["bob"].payloads(0))
            assert b"secret\xc3" not in waiting
            await running.stop("c")
            await running.start("c", neighbours=("b",), access=keys.settings)
            async with connected(running, keys, "bob", "c", state_dir=tmp_path / "bob") as bob:
                mine = await bob.subscribe("n >= 0", name="mine")
                assert [e["n"] for e in await received(mine, 10)] == list(range(0, 20, 2))

    run(story())


def test_who_may_no_longer_use_its_name_is_disconnected(tmp_path, keys):
    keys.write(alice=EVERYTHING, bob=EVERYTHING)

    async def story():
        async with one(tmp_path, keys) as running, connected(running, keys, "bob") as bob:
            alice = await connected(running, keys, "alice").__aenter__()
            keys.write(bob=EVERYTHING)
            reload(running)
            with pytest.raises(AccessDeniedError):
                await publish_for_ever(alice)
            with contextlib.suppress(AccessDeniedError):
                await alice.close()
            await bob.publish({"n": 1})

    run(story())


def test_a_reload_of_a_broken_file_changes_nothing(tmp_path, keys):
    keys.write(alice=EVERYTHING)

    async def story():
        async with one(tmp_path, keys) as running, connected(running, keys, "alice") as alice:
            mine = await alice.subscribe("TRUE")
            keys.file.write_text("[principals.alice\n")
            reload(running)
            await alice.publish({"n": 1})
            assert await received(mine, 1) == [{"n": 1}]
            assert running.node("a").counters.door.reloads_refused == 1
            async with connected(running, keys, "alice-2", principal="alice") as denied:  # pragma: no cover
                raise AssertionError(denied)

    with pytest.raises(AccessDeniedError):
        run(story())


def test_rights_last_through_a_restart(tmp_path, keys):
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'n < 5'")

    async def story():
        async with chain(tmp_path, access=keys.settings) as running:
            async with connected(running, keys, "bob", "c", state_dir=tmp_path / "bob") as bob:
                await bob.subscribe("n >= 0", name="mine")
            await running.stop("c")
            keys.write(p="publish = 'TRUE'", bob="subscribe = 'n < 3'")  # while it is down
            await running.start("c", neighbours=("b",), access=keys.settings)
            async with (
                connected(running, keys, "p") as publisher,
                connected(running, keys, "bob", "c", state_dir=tmp_path / "bob") as bob,
            ):
                mine = await bob.subscribe("n >= 0", name="mine")
                for n in (6, 4, 2, 1):
                    await publisher.publish({"n": n})
                assert [e["n"] for e in await received(mine, 2)] == [2, 1]

    run(story())


def test_what_waits_when_an_access_file_is_given_is_kept_for_who_logs_in(tmp_path, keys):
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'n < 3'")

    async def story():
        running = Running(tmp_path)
        try:
            await running.start("a")
            place = address(running, "a")
            async with pleach.connect(place, name="bob", state_dir=tmp_path / "bob") as bob:
                await bob.subscribe("n >= 0", name="mine")
            async with pleach.connect(place, name="p") as publisher:
                for n in (5, 1, 4, 2):
                    await publisher.publish({"n": n})
            await running.stop("a")
            await running.start("a", access=keys.settings)
            async with connected(running, keys, "p") as publisher:
                await publisher.publish({"n": 0})
                reload(running)
                async with connected(running, keys, "bob", state_dir=tmp_path / "bob") as bob:
                    mine = await bob.subscribe("n >= 0", name="mine")
                    assert [e["n"] for e in await received(mine, 3)] == [1, 2, 0]
        finally:
            await running.stop_all()

    run(story())


def test_a_reader_goes_on_when_an_access_file_is_given(tmp_path, keys):
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'n < 3'")

    async def story():
        running = Running(tmp_path)
        try:
            await running.start("a")
            place = parse_addresses(address(running, "a"))
            position = await asyncio.to_thread(Reader("bob", place, patience=5.0).subscribe, parse_filter("n >= 0"), 1)
            async with pleach.connect(address(running, "a"), name="p") as publisher:
                for n in (5, 1, 4, 2):
                    await publisher.publish({"n": n})
            await running.stop("a")
            await running.start("a", access=keys.settings)
            reader = Reader("bob", place, patience=5.0, entry=Entry(login=keys.login("bob")))
            reached = await asyncio.to_thread(reader.reach, position)
            found = await asyncio.to_thread(lambda: list(reader.events(reached, position.at, reached.at)))
            assert [event.attributes["n"] for run_of in found for event in run_of] == [1, 2]
        finally:
            await running.stop_all()

    run(story())


# Ways around a right -----------------------------------------------------------------------------------------------


def test_a_reader_needs_the_log_in_of_the_client_that_it_reads_for(tmp_path, keys):
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'n < 3'", mallory=EVERYTHING)

    async def story():
        async with one(tmp_path, keys) as running, connected(running, keys, "p") as publisher:
            place = parse_addresses(address(running, "a"))
            honest = Reader("bob", place, patience=5.0, entry=Entry(login=keys.login("bob")))
            position = await asyncio.to_thread(honest.subscribe, parse_filter("n >= 0"), 1)
            for n in range(5):
                await publisher.publish({"n": n})
            for login in (keys.login("mallory"), keys.login("")):
                thief = Reader("bob", place, patience=1.0, entry=Entry(login=login))
                with pytest.raises(ClientError):
                    await asyncio.to_thread(thief.reach, position)
            reached = await asyncio.to_thread(honest.reach, position)
            found = await asyncio.to_thread(lambda: list(honest.events(reached, position.at, reached.at)))
            assert [event.attributes["n"] for run_of in found for event in run_of] == [0, 1, 2]

    run(story())


def test_a_client_that_moves_is_judged_by_the_file_of_its_target(tmp_path, keys):
    """The target allows less than the source: from the move on that counts, also for what was handed over."""
    strict = Keyring(tmp_path / "c-access")
    (tmp_path / "c-access").mkdir()
    strict._keys = keys._keys
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'TRUE'")
    strict.write(p="publish = 'TRUE'", bob="subscribe = 'secret = FALSE'")

    async def story():
        running = Running(tmp_path)
        try:
            await running.start("a", neighbours=("b",), access=keys.settings)
            await running.start("b", peers={"a": running.ready["a"].peer}, access=strict.settings)
            async with connected(running, keys, "p") as publisher, connected(running, keys, "bob") as bob:
                mine = await bob.subscribe("n >= 0")
                await publisher.publish({"n": 0, "secret": True})
                assert [e["n"] for e in await received(mine, 1)] == [0]
                move = RequestMove("move", "bob", ["a", "b"])
                assert not (await running.node("a").operations.request(move)).refusal
                for n in range(1, 11):
                    await publisher.publish({"n": n, "secret": n % 2 == 1})
                assert [e["n"] for e in await received(mine, 5)] == [2, 4, 6, 8, 10]
        finally:
            await running.stop_all()

    run(story())


def test_a_component_has_the_rights_of_its_principal_and_no_more(tmp_path, keys):
    keys.write(
        p="publish = 'TRUE'",
        adder="names = []\ncomponents = ['sum']\nsubscribe = 'amount < 10'\npublish = 'EXISTS sums'",
        bob="subscribe = 'EXISTS sums'",
    )

    async def story():
        async with (
            one(tmp_path, keys) as running,
            connected(running, keys, "p") as publisher,
            connected(running, keys, "bob") as bob,
        ):
            mine = await bob.subscribe("TRUE")
            for name in ("sum", "other"):
                request = RequestHost(name, name, "running-sum", [parse_filter("amount >= 0")], incarnation=1)
                await running.node("a").operations.request(request)
            for amount in (1, 100, 2):
                await publisher.publish({"amount": amount})
            got = await received(mine, 2)
            assert [(e["sums"], e["total"]) for e in got] == [("sum", 1), ("sum", 3)]

    run(story())


# How much ----------------------------------------------------------------------------------------------------------


def test_quotas_of_connections_and_names(tmp_path, keys):
    quotas = "quotas = { connections = 2, subscriptions = 2, predicates = 5 }"
    keys.write(alice=f"names = ['alice-*']\n{EVERYTHING}\n{quotas}", bob=EVERYTHING)

    async def story():
        async with one(tmp_path, keys) as running:
            first, second, third = (connected(running, keys, f"alice-{n}", principal="alice") for n in range(3))
            async with first, connected(running, keys, "bob") as bob:
                async with second:
                    with pytest.raises(AccessDeniedError, match="2 connections"):
                        async with third:
                            pass
                    await first.subscribe("a = 1 AND b = 2")
                    with pytest.raises(SubscribeRefusedError, match="6 predicates"):
                        await second.subscribe("a = 1 AND b = 2 AND c = 3 AND d = 4")
                    await second.subscribe("a = 1 AND b = 2 AND c = 3")
                    with pytest.raises(SubscribeRefusedError, match="2 subscriptions"):
                        await second.subscribe("a = 1")
                await bob.subscribe("a = 1")
                async with connected(running, keys, "alice-7", principal="alice"):
                    pass

    run(story())


def test_who_publishes_faster_than_its_quota_is_slowed_and_loses_nothing(tmp_path, keys):
    keys.write(alice=f"{EVERYTHING}\nquotas = {{ events_per_second = 200 }}", bob=EVERYTHING)

    async def story():
        async with (
            one(tmp_path, keys) as running,
            connected(running, keys, "alice") as alice,
            connected(running, keys, "bob") as bob,
        ):
            mine = await bob.subscribe("EXISTS n")
            began = time.monotonic()
            for n in range(800):
                await alice.publish_windowed({"n": n})
            assert [e["n"] for e in await received(mine, 800)] == list(range(800))
            seconds = time.monotonic() - began
            assert seconds > 1.0, "200 at once, and 200 a second; what had arrived in one read counts later"
            assert running.node("a").counters.door.slowed > 0
            for _ in range(300):
                await bob.publish({"x": 1})
            assert alice.name in running.node("a").links, "it was never taken for dead"

    run(story())


def test_a_new_connection_does_not_wipe_out_what_a_principal_has_overdrawn(tmp_path, keys):
    keys.write(alice=f"{EVERYTHING}\nquotas = {{ events_per_second = 5 }}")

    async def story():
        async with one(tmp_path, keys) as running:
            async with connected(running, keys, "alice") as alice:
                sent = [await alice.publish_windowed({"n": n}) for n in range(20)]
                await asyncio.gather(*sent)
            began = time.monotonic()
            async with connected(running, keys, "alice") as alice:
                await alice.publish({"n": 20})
            assert time.monotonic() - began > 1.5, "15 events too many, at 5 a second"

    run(story())


def test_a_quota_of_the_outbox(tmp_path, keys):
    keys.write(p="publish = 'TRUE'", bob="subscribe = 'TRUE'\nquotas = { outbox_bytes = 20000 }", carol=EVERYTHING)

    async def story():
        async with one(tmp_path, keys) as running, connected(running, keys, "p") as publisher:
            for name in ("bob", "carol"):
                async with connected(running, keys, name, state_dir=tmp_path / name) as client:
                    await client.subscribe("TRUE", name="mine")
            for n in range(60):
                await publisher.publish({"n": n}, b"x" * 1_000)
            sessions = running.node("a").endpoint.sessions
            assert sessions["carol"].unconfirmed == 60
            assert sessions["bob"].unconfirmed < 30

    run(story())
