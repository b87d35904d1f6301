"""A broker of a council, over real sockets: what it hears, measures, counts and asks for."""

import asyncio
import time

import pytest

import pleach
from pleach.core.links.frames import Aside
from pleach.core.messages import Attach, Bulletin, encode, wire_tag
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.optimise.distances import PROCESSING_MILLISECONDS
from pleach.server.council import LOAD_MAX, Council, Load
from pleach.server.http.status import gauges
from pleach.server.metrics import render
from support.live.daemons import chain
from support.live.tiny_broker import until

QUICK = CouncilSettings(every=0.2, window=3.0, saving_min=0.0)
PATIENT = 1.0  # seconds between signs of life: a link that must stay is not to end because the machine is busy
STORY_SECONDS_MAX = 200.0


def told(story):
    asyncio.run(asyncio.wait_for(story, STORY_SECONDS_MAX))


def test_brokers_hear_of_each_other_and_measure_how_far_they_are(tmp_path):
    async def story():
        began = time.monotonic()
        async with chain(tmp_path, improve=QUICK) as running:
            councils = {name: running.node(name).features[Council] for name in "abc"}
            await until(lambda: {*councils["a"].reached} == {"b", "c"} and {*councils["c"].reached} == {"a", "b"})
            milliseconds = 1_000.0 * (time.monotonic() - began)
            assert all(0.0 < cost < milliseconds for cost in councils["a"].reached.values()), "it was measured here"
            text = render(gauges(running.node("a")), running.node("a").counters)
            assert 'pleach_improve_reach_milliseconds{broker="c"}' in text
            assert "pleach_improve_bulletins_total" in text

    told(story())


async def publish_until(client, is_enough):
    number = 0
    while not is_enough():
        number += 1
        await client.publish({"topic": "t", "n": number})
        await asyncio.sleep(0.005)
    return number


@pytest.mark.parametrize("is_dry", [False, True])
def test_a_relay_that_wants_nothing_is_passed_by(tmp_path, is_dry):
    """a–b–c, events from a to c. Measured costs are given here: what else runs beside the test must not decide it."""

    async def story():
        conduct = CouncilSettings(every=0.2, window=3.0, saving_min=0.0, dry_run=is_dry)
        async with chain(tmp_path, improve=conduct) as running:
            for name in "abc":
                running.node(name).features[Council].reach = lambda _broker, *, is_linked: 10.0
            nodes = [running.node(name) for name in "abc"]
            got = []
            async with (
                pleach.connect(f"pleach://{running.ready['c'].client}", name="reader") as reader,
                pleach.connect(f"pleach://{running.ready['a'].client}", name="writer") as writer,
            ):
                await reader.subscribe("topic = 't'", callback=lambda event: got.append(event.attributes["n"]))
                decided = lambda: sum(node.counters.improve.improve_decisions for node in nodes)  # noqa: E731
                is_linked = lambda: "c" in nodes[0].broker.router.neighbours  # noqa: E731
                sent = await publish_until(writer, decided if is_dry else is_linked)
                await until(lambda: len(got) == sent)
            assert got == [*range(1, sent + 1)]
            assert is_linked() != is_dry

    told(story())


@pytest.mark.parametrize("payload", [b"", b"\xc1", bytes([0x92, 0xCC, wire_tag(Bulletin), 1]), encode(Attach())])
def test_what_is_neither_bulletin_nor_motion_is_ignored(tmp_path, payload):
    async def story():
        async with chain(tmp_path, improve=QUICK, heartbeat=PATIENT) as running:
            running.node("b").links["a"].wire.send(Aside(payload))
            council = running.node("a").features[Council]
            await until(lambda: "b" in council.councillor.addresses)  # a later one has come, over the same link
            assert running.node("a").links.is_up("b")

    told(story())


def frames_in(daemon):
    daemon.count_traffic()
    return daemon.node.counters.frames.frames_in


def test_a_broker_that_is_not_of_the_council_bears_with_it(tmp_path):
    async def story():
        async with chain(tmp_path, heartbeat=PATIENT) as running:
            wire = running.node("b").links["a"].wire
            wire.send(Aside(b"what a broker of another mind may say"))
            before = frames_in(running.daemons["a"])
            await until(lambda: frames_in(running.daemons["a"]) > before + 1)  # the aside, and a sign of life behind it
            assert running.node("b").links["a"].wire is wire

    told(story())


def test_an_event_costs_more_at_a_broker_that_is_busy():
    load = Load()
    assert load.milliseconds == PROCESSING_MILLISECONDS
    load._share = 0.5
    assert load.milliseconds == pytest.approx(2 * PROCESSING_MILLISECONDS)
    load._share = 7.0
    assert load.milliseconds == pytest.approx(PROCESSING_MILLISECONDS / (1 - LOAD_MAX))
