"""`pleach overlay drain`: all clients of a running broker go elsewhere under load, and who cannot is named."""

import asyncio
import json

import pytest
from typer.testing import CliRunner

import pleach
from pleach.cli.main import app
from pleach.errors import InvalidInputError, SurveyError, TopologyError
from pleach.operate.drain import BrokerDrain
from pleach.operate.survey import BrokerStatus, ClientStatus, Survey
from pleach.trace import RecordKind, judge
from support.live.broker_process import chain, processes
from support.live.fleet import Witness
from support.live.tiny_broker import until

SECONDS_MAX = 200
CLIENTS = [f"k{number}" for number in range(10)]
PER_SECOND = 20.0


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with processes() as start:
        yield chain(start, tmp_path_factory.mktemp("drain"))


def drain(broker, *arguments):
    environment = {"PLEACH_VIA": broker.ready["admin"], "COLUMNS": "200"}
    return CliRunner().invoke(app, ["overlay", "drain", *arguments], env=environment)


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, SECONDS_MAX))


def where(brokers):
    return {broker.name: [name for name in sorted(broker.status()["clients"]) if name in CLIENTS] for broker in brokers}


def deliveries(witness):
    return sum(record.kind is RecordKind.DELIVER for record in witness.recorder.records)


async def settle(witness, broker):
    """Ten clients of one broker, all subscribed, three of them publishing; and a publisher elsewhere."""
    for number, name in enumerate(CLIENTS):
        filters = f"topic = 'even' AND n >= {number}" if number % 2 == 0 else f"topic = 'odd' AND n >= {number}"
        await witness.connect(name, f"pleach://{broker.ready['client']}", subscribe=filters)
    for number, name in enumerate(("outside", *CLIENTS[:3])):
        witness.load(name, PER_SECOND, topic="odd" if number % 2 else "even")


def test_ten_clients_leave_under_load_and_miss_nothing(brokers):
    a, b, c = brokers

    async def story():
        async with Witness("drain") as witness:
            await witness.connect("outside", f"pleach://{a.ready['client']}")
            await settle(witness, b)
            await until(lambda: deliveries(witness) > 50)
            done = await asyncio.to_thread(drain, c, "b", "--rate", "10", "--json")
            seen = deliveries(witness)
            await until(lambda: deliveries(witness) > seen + 50)
            assert await witness.drain()
            return done, where(brokers), judge(witness.recorder.records)

    done, places, verdict = run(story())
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["complete"]
    assert [end["client"] for end in told["moved"]] == CLIENTS
    assert places == {"a": CLIENTS[::2], "b": [], "c": CLIENTS[1::2]}, "by turns to its neighbours"
    assert verdict.clean, verdict.to_dict()
    assert verdict.counts.deliveries > 100


def test_a_rehearsal_changes_nothing_and_who_is_absent_is_named(brokers, tmp_path):
    a, b, _ = brokers

    async def story():
        async with pleach.connect(f"pleach://{a.ready['client']}", name="away", state_dir=tmp_path / "away") as client:
            await client.subscribe("n >= 0", name="numbers")
        async with pleach.connect(f"pleach://{a.ready['client']}", name="k0") as client:
            await client.subscribe("n >= 0")
            await until(lambda: not a.status()["clients"]["away"]["up"])
            rehearsed = await asyncio.to_thread(drain, b, "a", "--to", "c", "--dry-run", "--json")
            before = where(brokers)
            done = await asyncio.to_thread(drain, b, "a", "--to", "c")
            return rehearsed, before, done, where(brokers)

    rehearsed, before, done, after = run(story())
    assert rehearsed.exit_code == 0
    moves = [{"client": "k0", "path": ["a", "b", "c"]}]
    assert json.loads(rehearsed.stdout) == {"broker": "a", "moves": moves, "absent": ["away"]}
    assert (before["a"], before["c"]) == (["k0"], [])
    assert (after["a"], after["c"]) == ([], ["k0"])
    assert done.exit_code == 1, "one is left"
    assert "away stays: it is not connected" in done.stdout
    assert "1 of 2 clients have left a" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["z"], TopologyError, "'z' is not a broker of this tree; there are a, b, c"),
        (["a", "--to", "z"], TopologyError, "'z' is not a broker of this tree"),
        (["a", "--to", "b", "--to", "a"], InvalidInputError, "clients of a cannot move to a"),
    ],
)
def test_what_makes_no_sense_is_refused(brokers, arguments, error, says):
    done = drain(brokers[0], *arguments)
    assert isinstance(done.exception, error)
    assert says in str(done.exception)


# Planning ---------------------------------------------------------------------------------------------------------


def alone(clients):
    status = BrokerStatus("a", ready=True, durable=False, reasons=[], neighbours={}, clients=clients)
    return Survey({"a": status}, {"a": "127.0.0.1:1"})


def test_a_broker_without_neighbours_has_nowhere_to_send_its_clients():
    with pytest.raises(InvalidInputError, match="nowhere to go; add one first"):
        BrokerDrain.planned(alone({"k": ClientStatus(up=True, queued=0, subscriptions_count=1)}), "a")


def test_where_nobody_answers_nothing_is_planned():
    with pytest.raises(SurveyError, match="no broker answers"):
        BrokerDrain.planned(Survey(), "a")
