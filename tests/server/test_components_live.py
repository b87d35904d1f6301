"""Components of running brokers: sums are exact through movements, kill -9, and the removal of their broker."""

import asyncio
import json
import signal

import pytest
from typer.testing import CliRunner

import pleach
from pleach.cli.main import app
from pleach.core.hosting.running_sum import RunningSum
from pleach.core.messages import RequestMove
from pleach.errors import ConnectError, InvalidInputError, SettingsError
from pleach.net.http_client import ask
from pleach.server.assemble import factories
from pleach.server.settings import BrokerSettings, load_settings
from support.live.broker_process import chain as process_chain
from support.live.broker_process import processes
from support.live.daemons import chain
from support.live.numbered_events import address, run
from support.live.tiny_broker import take, until

EVENTS = 200
SUMS = {"name": "k", "kind": "running-sum", "subscribe": ["EXISTS amount"]}


async def heard(subscription, count):
    """The totals that come next, in order."""
    return [event.attributes["total"] for event in await take(subscription, count)]


def expected(count):
    return [n * (n + 1) // 2 for n in range(1, count + 1)]


async def publish(publisher, first, count):
    for n in range(first, first + count):
        await publisher.publish({"amount": n})


async def post(running, broker, path, body):
    return await ask(str(running.ready[broker].admin), path, body, seconds_max=30.0)


def test_it_goes_to_and_fro_under_load_and_through_a_restart(tmp_path):
    async def story():
        async with (
            chain(tmp_path) as running,
            pleach.connect(address(running, "c"), name="p") as publisher,
            pleach.connect(address(running, "b"), name="s") as subscriber,
        ):
            sums = await subscriber.subscribe("sums = 'k'")
            assert (await post(running, "a", "/components", SUMS)).is_ok
            for turn in range(4):
                here, there = ("a", "c") if turn % 2 == 0 else ("c", "a")
                load = asyncio.create_task(publish(publisher, 1 + 50 * turn, 50))
                request = RequestMove(f"move {turn}", "k", [here, "b", there])
                assert not (await running.node(here).operations.request(request)).refusal
                await load
            await running.stop("a")
            await running.start("a", neighbours=("b",))
            await publish(publisher, EVENTS + 1, 20)
            assert await heard(sums, EVENTS + 20) == expected(EVENTS + 20)
            assert [sorted(running.node(name).broker.hosting.here) for name in "abc"] == [["k"], [], []]
            assert "k" not in running.node("a").endpoint.sessions, "it has no link"

    run(story())


def test_what_is_wrong_is_said(tmp_path):
    async def story():
        async with chain(tmp_path) as running:
            assert (await post(running, "a", "/components", {**SUMS, "kind": "x"})).code == 409
            assert (await post(running, "a", "/components", {**SUMS, "subscribe": ["="]})).code == 400
            assert (await post(running, "a", "/components", {"name": "k"})).code == 400
            assert (await post(running, "a", "/components", SUMS)).is_ok
            with pytest.raises(ConnectError, match="a component that a hosts"):
                async with pleach.connect(address(running, "a"), name="k", connect_timeout=3.0):
                    pass
            status = (await ask(str(running.ready["a"].admin), "/status")).value
            assert status["components"] == {"k": {"kind": "running-sum", "failed": False, "complaint": ""}}
            assert status["clients"]["k"]["up"]
            assert (await post(running, "a", "/components/end", {"name": "k"})).is_ok
            assert (await post(running, "a", "/components/end", {"name": "k"})).code == 409

    run(story())


def test_a_component_that_fails_is_logged_and_seen(tmp_path, caplog):
    async def story():
        kinds = {"moody": "test_components_live:Moody"}
        async with (
            chain(tmp_path, components=kinds) as running,
            pleach.connect(address(running, "a"), name="p") as publisher,
        ):
            assert (await post(running, "a", "/components", {**SUMS, "kind": "moody"})).is_ok
            await publisher.publish({"amount": 1})
            shown = (await ask(str(running.ready["a"].admin), "/components")).value
            assert shown["k"]["failed"]
            assert "not in the mood" in shown["k"]["complaint"]

    run(story())
    assert any("component k has failed" in record.message for record in caplog.records)


class Moody(RunningSum):
    def on_event(self, event):
        raise RuntimeError("not in the mood")


@pytest.mark.parametrize("place", ["nowhere:Sum", "pleach.core.hosting.running_sum:Nothing", "pleach:__version__"])
def test_a_kind_that_is_not_to_be_found_is_an_error_of_the_settings(place):
    with pytest.raises(SettingsError, match=r"components\.sum"):
        factories(BrokerSettings("a", components={"sum": place}))


def test_kinds_come_from_file_environment_and_flags(tmp_path):
    file = tmp_path / "b.toml"
    file.write_text('name = "b"\ncomponents = { one = "m:One" }\n')
    settings = load_settings(file, {"PLEACH_COMPONENTS": "two=m:Two"}, {"components": {"three": "m:Three"}})
    assert settings.components == {"one": "m:One", "two": "m:Two", "three": "m:Three"}
    for wrong in ("m", ":One", "m:"):
        with pytest.raises(SettingsError, match="MODULE:FACTORY"):
            load_settings(file, {}, {"components": {"one": wrong}})
    with pytest.raises(SettingsError, match="names no kind"):
        load_settings(file, {"PLEACH_COMPONENTS": "two"}, {})


def test_kill_9_and_the_removal_of_its_broker(tmp_path):
    """By the commands: a hosts it and is killed under load; then a leaves the tree, and it lives on at b."""

    def command(*arguments):
        return CliRunner().invoke(app, [*arguments], env={"PLEACH_VIA": b.ready["admin"], "COLUMNS": "200"})

    async def story():
        url = f"pleach://{b.ready['client']}"
        async with pleach.connect(url, name="p") as publisher, pleach.connect(url, name="s") as subscriber:
            sums = await subscriber.subscribe("sums = 'k'")
            load = asyncio.create_task(publish(publisher, 1, EVENTS))
            first = await heard(sums, 20)
            a.signal(signal.SIGKILL)
            await asyncio.to_thread(a.wait)
            await load
            await asyncio.to_thread(a.start)
            await until(b.is_ready)
            refused = await asyncio.to_thread(command, "overlay", "remove", "a")
            removed = await asyncio.to_thread(command, "overlay", "remove", "a", "--moving")
            await publish(publisher, EVENTS + 1, 20)
            return refused, removed, [*first, *await heard(sums, EVENTS)]

    with processes() as start:
        a, b, _ = process_chain(start, tmp_path, durable=True)
        hosted = command("component", "host", "k", "running-sum", "--at", "a", "--subscribe", "EXISTS amount")
        assert hosted.exit_code == 0, hosted.output
        refused, removed, totals = run(story())
        assert isinstance(refused.exception, InvalidInputError)
        assert "would end with it: k" in str(refused.exception)
        assert removed.exit_code == 0, removed.output
        assert totals == expected(EVENTS + 20)
        rows = json.loads(command("component", "list", "--json").stdout)
        assert [(row["component"], row["broker"]) for row in rows] == [("k", "b")]
        assert command("component", "end", "k").exit_code == 0
        assert command("component", "list", "--json").stdout.strip() == "[]"
