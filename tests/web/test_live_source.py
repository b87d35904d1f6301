"""The snapshot of brokers that run, in this loop over real sockets."""

import asyncio

import pleach
from pleach.core.events.language import parse_filter
from pleach.core.overlay.plans import SwapStep
from pleach.net.http_client import ask
from pleach.server.http.caller import Caller
from pleach.server.http.status import NETWORK
from pleach.server.leaving import Leaving
from pleach.web.live_source import LiveSource
from pleach.web.site import seen_by
from pleach.web.snapshot import plain
from support.live.daemons import Running, chain
from support.live.tiny_broker import until


def source_at(running, *names):
    return LiveSource(lambda: [running.ready[name].admin for name in names], "test")


def test_the_tree_its_zones_clients_and_traffic(tmp_path):
    async def test():
        async with chain(tmp_path, zone="here") as running:
            source = source_at(running, "a")
            await source.snapshot()
            address = f"pleach://{running.ready['a'].client}"
            async with (
                pleach.connect(address, name="reader") as reader,
                pleach.connect(f"pleach://{running.ready['c'].client}", name="writer") as writer,
            ):
                got = []
                await reader.subscribe("x > 1", name="s", callback=got.append)
                for number in range(20):
                    await writer.publish({"x": number})
                await until(lambda: len(got) == 18)
                snapshot = await source.snapshot()
                interested = await source.interested(parse_filter("x = 5"))
                nobody = await source.interested(parse_filter("x = 1"))
                detail = await source.detail("a")
        assert set(snapshot.brokers) == {"a", "b", "c"}
        assert {broker.zone for broker in snapshot.brokers.values()} == {"here"}
        assert set(snapshot.links) == {"a\nb", "b\nc"}
        link = snapshot.links["b\nc"]
        assert link.up
        assert link.back > 100  # bytes per second, from c to b
        assert 0 < link.round_trip < 30
        assert {name: client.broker for name, client in snapshot.clients.items()} == {"reader": "a", "writer": "c"}
        assert snapshot.counters.published == 20
        assert snapshot.counters.delivered == 18
        assert snapshot.counters.publish_rate > 0
        assert interested == {"reader": ["x > 1"]}
        assert nobody == {}
        assert detail["clients"]["reader"]["subscriptions"] == {"s": "x > 1"}

    asyncio.run(test())


def test_a_swap_is_drafted_carried_out_and_told_step_by_step(tmp_path):
    async def test():
        async with chain(tmp_path) as running:
            source = source_at(running, "b")
            draft = await source.draft(SwapStep("a", "b", "c"))
            before = await source.snapshot()
            told = []
            left = await draft.carry_out(lambda *step: told.append(step))
            after = await source.snapshot()
        assert left == ""
        assert told == [(0, "running", ""), (0, "done", "")]
        assert draft.steps == ("swap a, b, c",)
        assert set(before.links) == {"a\nb", "b\nc"}
        assert set(after.links) == {"a\nc", "b\nc"}
        (operation,) = after.operations.values()
        assert (operation.what, operation.brokers, operation.state) == ("swap", ("a", "b", "c"), "done")
        assert {step.broker for step in operation.steps.values()} == {"a", "b", "c"}
        assert operation.held is not None

    asyncio.run(test())


def test_one_that_is_silent_stays_in_the_picture_with_the_reason(tmp_path):
    async def test():
        async with chain(tmp_path) as running:
            source = source_at(running, "c")
            async with pleach.connect(f"pleach://{running.ready['c'].client}", name="reader") as reader:
                await reader.subscribe("x > 1", name="s", callback=lambda _event: None)
                await source.snapshot()
            await running.stop("c")  # where the walk begins
            await until(lambda: not running.node("b").links.is_up("c"))
            without = await source.snapshot()
            await running.start("c", neighbours=("b",))
            await until(lambda: running.node("b").links.is_up("c"))
            again = await source.snapshot()
        silent = without.brokers["c"]
        assert not silent.answers
        assert silent.trouble
        assert without.brokers["a"].answers
        assert "no link to c" in without.brokers["b"].trouble
        assert not without.links["b\nc"].up
        assert (without.clients["reader"].broker, without.clients["reader"].up) == ("c", False)
        assert [notice.text for notice in without.notices.values()] == [f"c does not answer: {silent.trouble}"]
        assert without.source.trouble == ""
        assert again.brokers["c"].answers

    asyncio.run(test())


def test_one_that_was_removed_is_gone(tmp_path):
    async def test():
        async with chain(tmp_path) as running:
            source = source_at(running, "a")
            await source.snapshot()
            await running.remove("c")
            await running.ended("c")
            return await source.snapshot()

    snapshot = asyncio.run(test())
    assert set(snapshot.brokers) == {"a", "b"}
    assert set(snapshot.links) == {"a\nb"}
    assert "c has left the tree" in [notice.text for notice in snapshot.notices.values()]


def test_nobody_answers(tmp_path):
    snapshot = asyncio.run(LiveSource(lambda: ["127.0.0.1:1"], "test").snapshot())
    assert not snapshot.brokers
    assert "no broker answers" in snapshot.source.trouble


def test_where_a_broker_runs_and_where_its_copies_are(tmp_path):
    def has_standbys(daemon):
        told = {"machine": "m1#7", "view": 3, "covered": False, "holds": {"z": {}}, "runs": {}}
        copies = {"c#1": {"behind": {"records": 1_200}}, "d#1": {"behind": {"records": 0}}, "e#1": {"behind": None}}
        daemon.node.features[Leaving].status = lambda: {"standby": {**told, "copies": copies}}

    async def test():
        running = Running(tmp_path)
        try:
            await running.start("a", has_standbys)
            snapshot = await source_at(running, "a").snapshot()
            glance = (await ask(running.ready["a"].admin, "/glance")).value
        finally:
            await running.stop_all()
        shown = snapshot.brokers["a"]
        assert (shown.machine, shown.is_covered) == ("m1", False)
        assert shown.copies == {"c": "1,200 behind", "d": "", "e": "being brought up"}
        assert "holds" not in glance["standby"]

    asyncio.run(test())


def test_what_is_under_way_and_what_it_waits_for(tmp_path):
    """Tenants' operators are not told: the texts name clients."""

    async def test():
        running = Running(tmp_path)
        try:
            await running.start("a")
            body = {"to": "gone", "address": "127.0.0.1:1", "operation": "x", "timeout": 0}
            await ask(running.ready["a"].admin, "/overlay/add", body)
            shown = plain(await source_at(running, "a").snapshot())
        finally:
            await running.stop_all()
        told = shown["brokers"]["a"]["under_way"]
        assert told["x"].startswith("joining asked, for ")
        assert told["x"].endswith(" s, waits for gone (down); may be abandoned")
        assert seen_by(NETWORK, shown)["brokers"] == shown["brokers"]
        assert seen_by(Caller("", frozenset(), tenant="t"), shown)["brokers"]["a"]["under_way"] == {}

    asyncio.run(test())
