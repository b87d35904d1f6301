"""Clients of running brokers are moved, and follow by themselves: nothing is lost, doubled or out of order."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

import pleach
from pleach.cli.main import app
from pleach.core.messages import RequestMove
from pleach.errors import SurveyError, TopologyError
from support.live.broker_process import chain as process_chain
from support.live.broker_process import processes
from support.live.daemons import chain
from support.live.numbered_events import EVENTS, address, numbers, publish, run
from support.live.tiny_broker import until


async def move(running, client, *path):
    request = RequestMove(f"{client} by {' '.join(path)}", client, list(path))
    return (await running.node(path[0]).operations.request(request)).refusal


@pytest.mark.parametrize("state", [None, "state"])
def test_a_subscriber_and_a_publisher_follow_under_load(tmp_path, state):
    async def story():
        async with chain(tmp_path) as running:
            state_dir = tmp_path / state if state else None
            async with (
                pleach.connect(address(running, "a"), name="p") as publisher,
                pleach.connect(address(running, "c"), name="s", state_dir=state_dir) as subscriber,
            ):
                mine = await subscriber.subscribe("n >= 0")
                load = asyncio.create_task(publish(publisher, 0, EVENTS))
                ends = await asyncio.gather(move(running, "s", "c", "b", "a"), move(running, "p", "a", "b", "c"))
                assert ends == ["", ""]
                await load
                await publish(publisher, EVENTS, EVENTS)
                assert await numbers(mine, 2 * EVENTS) == list(range(2 * EVENTS))
                assert [running.node(name).broker.sessions.clients for name in "abc"] == [["s"], [], ["p"]]

    run(story())


def test_to_and_fro(tmp_path):
    async def story():
        async with (
            chain(tmp_path) as running,
            pleach.connect(address(running, "b"), name="p") as publisher,
            pleach.connect(address(running, "a"), name="s") as subscriber,
        ):
            mine = await subscriber.subscribe("n >= 0")
            for turn in range(6):
                here, there = ("a", "c") if turn % 2 == 0 else ("c", "a")
                load = asyncio.create_task(publish(publisher, 50 * turn, 50))
                assert not await move(running, "s", here, "b", there)
                await load
            assert await numbers(mine, 300) == list(range(300))
            for node in map(running.node, "abc"):
                await until(lambda node=node: "s" not in node.endpoint.upkeep.links)
                assert not node.directory.is_broker("s"), "to whom it has been, it is a client"

    run(story())


def test_one_that_is_not_there_stays_where_it_is(tmp_path, monkeypatch):
    """It is away, so it cannot say that it halts; when it is back, it goes on as if nothing had been."""

    async def story():
        async with chain(tmp_path) as running:
            async with pleach.connect(address(running, "a"), name="s", state_dir=tmp_path / "s") as subscriber:
                await subscriber.subscribe("n >= 0", name="numbers")
            with monkeypatch.context() as hurried:
                hurried.setattr("pleach.core.mobility.source.PATIENCE_SECONDS", 0.3)
                assert "s does not answer" in await move(running, "s", "a", "b", "c")
            async with (
                pleach.connect(address(running, "c"), name="p") as publisher,
                pleach.connect(address(running, "a"), name="s", state_dir=tmp_path / "s") as subscriber,
            ):
                mine = await subscriber.subscribe("n >= 0", name="numbers")
                await publish(publisher, 0, 20)
                assert await numbers(mine, 20) == list(range(20))
                await until(lambda: not running.node("a").broker.operation)
                assert not await move(running, "s", "a", "b", "c")
                await publish(publisher, 20, 20)
                assert await numbers(mine, 20) == list(range(20, 40))

    run(story())


# The command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with processes() as start:
        yield process_chain(start, tmp_path_factory.mktemp("moves"))


def command(broker, *arguments):
    return CliRunner().invoke(app, ["client", *arguments], env={"PLEACH_VIA": broker.ready["admin"], "COLUMNS": "200"})


def test_the_command_moves_a_client_that_is_connected(brokers):
    a, b, c = brokers

    async def story():
        async with pleach.connect(f"pleach://{a.ready['client']}", name="k") as client:
            mine = await client.subscribe("n >= 0")
            done = await asyncio.to_thread(command, b, "move", "k", "--to", "c", "--json")
            assert done.exit_code == 0, done.output
            told = json.loads(done.stdout)
            assert (told["path"], told["state"]) == (["a", "b", "c"], "done")
            assert "k" in c.status()["clients"]
            await publish(client, 0, 3)
            assert await numbers(mine, 3) == [0, 1, 2]
            again = await asyncio.to_thread(command, b, "move", "k", "--to", "c")
            assert again.exit_code == 1
            assert "k is at c already" in again.stderr

    run(story())


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["move", "nobody", "--to", "c"], SurveyError, "no broker has a client 'nobody'"),
        (["move", "k", "--to", "z"], TopologyError, "'z' is not a broker of this tree; there are a, b, c"),
    ],
)
def test_what_makes_no_sense_is_refused(brokers, arguments, error, says):
    done = command(brokers[0], *arguments)
    assert isinstance(done.exception, error)
    assert says in str(done.exception)
