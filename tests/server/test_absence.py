"""Clients that are away: waited for as long as was promised, then forgotten, on the disk too, and told on return."""

import logging

import pytest

from pleach.core.effects import Observed
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import CLIENT, ByeReason, Hello
from pleach.core.messages import Attach, Deliver, Detach, Published, Refused, Subscribe, Unsubscribe
from pleach.server.absence import AbsentClients
from pleach.server.backpressure import Backpressure
from pleach.server.links import Port
from pleach.server.storage.store import Store
from support.live.broker_process import RawClient, clients, eventually, processes
from support.live.timed_node import ABSENCE_SECONDS, SUBSCRIBED, Wire, in_world, publish

# Away for too long -----------------------------------------------------------------------------------------------


def test_in_time_nothing_has_happened(store):
    async def scenario(world):
        await world.visit("s", *SUBSCRIBED)
        await world.wait(ABSENCE_SECONDS)
        await world.visit("p", Attach(), publish("p", 1))
        again = await world.visit("s", peer_epoch=1, received=2, first=3)
        assert again.messages() == [Deliver(publish("p", 1).event)]
        await world.wait(ABSENCE_SECONDS)  # counted anew from the last time that it was here
        assert "s" in world.known

    in_world(scenario, store)


def test_after_that_it_is_forgotten_logged_and_counted(store, caplog, monkeypatch):
    caplog.set_level(logging.WARNING, "pleach")
    monkeypatch.setattr(logging.getLogger("pleach"), "propagate", True)

    async def scenario(world):
        await world.visit("s", *SUBSCRIBED)
        await world.visit("p", Attach(), publish("p", 1))
        assert world.node.features[Backpressure].outbox_bytes > 0
        await world.wait(ABSENCE_SECONDS + 1)
        assert world.known == []
        assert world.node.broker.sessions.clients == []
        assert world.node.broker.sessions.names == 0
        assert world.node.features[Backpressure].outbox_bytes == 0
        assert world.node.features[Backpressure].of_peer == {}
        assert world.node.gate.publishers == {}
        assert world.node.counters.clients.expired == 2
        assert store is None or store.load().sessions == {}

    in_world(scenario, store)
    assert "forgotten: s, away for 101 s; 1 subscriptions" in caplog.text


@pytest.mark.parametrize("received", [0, 2])
def test_when_it_comes_back_it_is_told_and_can_start_anew(store, received):
    async def scenario(world):
        await world.visit("s", *SUBSCRIBED)
        await world.wait(ABSENCE_SECONDS + 1)
        back = await world.visit("s", peer_epoch=1, received=received, first=3)
        assert [bye.why for bye in back.byes()] == [ByeReason.BROKEN]
        anew = await world.visit("s", *SUBSCRIBED, publish("s", 1), epoch=6)
        assert [type(message).__name__ for message in anew.messages()] == [
            "Attached",
            "Subscribed",
            "Deliver",
            "Published",
        ]

    in_world(scenario, store)


def test_a_restart_gives_everybody_the_whole_time_again_and_remembers_whom_it_forgot(tmp_path):
    async def before(world):
        await world.visit("early", *SUBSCRIBED)
        await world.wait(ABSENCE_SECONDS)
        await world.visit("late", *SUBSCRIBED)
        await world.wait(1)
        assert world.known == ["late"]

    async def after(world):
        await world.wait(ABSENCE_SECONDS)
        assert world.known == ["late"]
        back = await world.visit("early", peer_epoch=1, received=0, first=3)
        assert [bye.why for bye in back.byes()] == [ByeReason.BROKEN]
        await world.wait(1)
        assert world.known == ["early"]  # as somebody that has asked for nothing

    for scenario in (before, after):
        with Store.open(tmp_path, "b", epoch=1) as store:
            in_world(scenario, store)


# Vacant ----------------------------------------------------------------------------------------------------------


def test_of_those_who_asked_for_nothing_few_are_kept(store):
    async def scenario(world):
        await world.visit("subscriber", *SUBSCRIBED)
        await world.visit("publisher", Attach(), publish("publisher", 1))
        for n in range(6):
            await world.visit(f"idle-{n}", Attach())
        await world.visit("left", *SUBSCRIBED, Unsubscribe("s"), Detach())
        await world.wait(1)
        assert world.known == ["idle-4", "idle-5", "left", "publisher", "subscriber"]
        assert world.node.counters.clients.forgotten == 4
        assert world.node.counters.clients.expired == 0

    in_world(scenario, store, vacant=3)


def test_the_vacant_take_nobodys_place():
    async def scenario(world):
        await world.visit("subscriber", *SUBSCRIBED)
        for n in range(5):
            await world.visit(f"idle-{n}", Attach())
        await world.visit("second", *SUBSCRIBED)
        refusal = world.node.accept(Wire(), Hello("third", 5, 0, 0, 1, role=CLIENT), Port.CLIENTS)
        assert refusal == "b has 2 clients, its limit"

    in_world(scenario, clients=2)


def test_who_was_sent_away_while_absent_takes_no_place():
    async def scenario(world):
        await world.visit("s", *SUBSCRIBED)
        await world.visit("p", Attach(), *(publish("p", n) for n in range(1, 50)))
        assert world.node.counters.clients.evicted == 1
        await world.visit("t", *SUBSCRIBED)
        assert world.node.features[AbsentClients].clients == 2  # p and t

    in_world(scenario, outbox_bytes_per_client=2_000)


# Room for subscriptions ------------------------------------------------------------------------------------------


def subscriptions(count):
    return [Subscribe(f"s{n}", parse_filter(f"n = {n}")) for n in range(count)]


def test_all_subscriptions_together_have_a_limit(store):
    async def scenario(world):
        await world.visit("a", Attach(), *subscriptions(3))
        full = await world.visit("b2", Attach(), *subscriptions(3))
        assert [message.subject for message in full.messages() if isinstance(message, Refused)] == ["s2"]
        assert "its limit" in full.messages()[-1].reason
        assert world.node.counters.clients.names_refused == 1
        await world.visit("a", Unsubscribe("s0"), peer_epoch=1, received=4, first=5)
        again = await world.visit("c", Attach(), *subscriptions(1))
        assert not [message for message in again.messages() if isinstance(message, Refused)]

    in_world(scenario, store, subscriptions=5)


def test_with_a_lower_limit_a_restart_still_keeps_what_was_confirmed_and_not_what_was_refused(tmp_path):
    async def before(world):
        await world.visit("a", Attach(), *subscriptions(7))
        assert world.node.broker.sessions.names == 5

    async def after(world):
        assert sorted(world.node.broker.sessions.subscriptions("a")) == [f"s{n}" for n in range(5)]
        full = await world.visit("b2", Attach(), *subscriptions(1))
        assert isinstance(full.messages()[-1], Refused)

    for scenario, limit in ((before, 5), (after, 2)):
        with Store.open(tmp_path, "b", epoch=1) as store:
            in_world(scenario, store, subscriptions=limit)


def test_while_too_much_waits_nothing_is_subscribed():
    async def scenario(world):
        await world.visit("s", *SUBSCRIBED)
        await world.visit("p", Attach(), *(publish("p", n) for n in range(1, 50)))
        assert world.node.features[Backpressure].is_tight
        refused = await world.visit("t", *SUBSCRIBED)
        assert "try again later" in refused.messages()[-1].reason
        again = await world.visit("p", publish("p", 50), peer_epoch=1, received=50, first=51)
        assert isinstance(again.messages()[-1], Published)

    in_world(scenario, outbox_bytes_high=1_000, outbox_bytes_low=500)


# As a process ----------------------------------------------------------------------------------------------------


def test_a_durable_broker_forgets_and_says_so(tmp_path):
    settings = tmp_path / "b.toml"
    settings.write_text("heartbeat = 0.2\n[limits]\nclient_absence_seconds = 1\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings, durable=True)
        with clients(RawClient("s", broker)) as (s,):
            s.subscribe("all", "n >= 0")
            s.disconnect()
            eventually(lambda: broker.status()["counters"]["expired"] == 1)
            assert "forgotten: s, away for" in broker.log()
            assert "pleach_expired_total 1" in broker.get("/metrics")[1]
            assert "pleach_sessions 0" in broker.get("/metrics")[1]
            eventually(lambda: s.byes, pumping=[s])
            assert s.byes[0].why is ByeReason.BROKEN
        broker.kill()
        broker.start()
        assert broker.status()["clients"] == {}
        with clients(RawClient("t", broker)) as (t,):
            t.subscribe("all", "n >= 0")
            t.publish(n=1)
            eventually(lambda: t.seen(Observed.DELIVER), pumping=[t])
