"""Clients that are moved from the dashboard: the preview, what is refused beforehand, and how it goes."""

import asyncio

import pytest

import pleach
from pleach.errors import InvalidInputError, SurveyError, TopologyError
from pleach.operate.survey import BrokerStatus, ClientStatus, NeighbourStatus, Survey
from pleach.web import simulated_source
from pleach.web.drafts import NAMED_MAX, Draft, planned_drain, planned_move
from pleach.web.forms import Drain, Move
from pleach.web.live_source import LiveSource
from pleach.web.simulated_source import SimulatedSource
from support.live.daemons import chain


def broker(name, neighbours, **clients):
    there = {client: ClientStatus(up, queued=3, subscriptions_count=2) for client, up in clients.items()}
    links = {other: NeighbourStatus(up=True, queued=0) for other in neighbours}
    return BrokerStatus(name, ready=True, durable=False, reasons=[], neighbours=links, clients=there)


def found(**clients):
    """a – b – c, and these clients at a; whether they are connected."""
    brokers = [broker("a", "b", **clients), broker("b", "ac", elsewhere=True), broker("c", "b")]
    return Survey({status.name: status for status in brokers}, {name: f"127.0.0.1:{ord(name)}" for name in "abc"})


# The preview -----------------------------------------------------------------------------------------------------


def test_a_move_shows_its_path_and_what_goes_along():
    shown = planned_move(found(k=True), Move("k", "c")).shown
    assert shown.lines[0] == "k moves from a to c"
    assert "with 2 subscriptions and 3 unconfirmed messages" in shown.lines
    assert "k: a – b – c" in shown.lines
    assert shown.paths == [("a", "b", "c")]
    assert shown.arrivals == {"c": 1}


def test_a_drain_shows_who_goes_where_how_long_it_takes_and_who_stays():
    shown = planned_drain(found(k1=True, k2=True, k3=True, gone=False), Drain("a", ("b", "c"), rate=2.0)).shown
    assert shown.lines[0] == "3 clients leave a"
    assert "2 a second: 1.5 s or more" in shown.lines[1]
    assert {"k1: a – b", "k2: a – b – c", "k3: a – b"} <= set(shown.lines)
    assert "gone: it is not connected" in shown.lines[-1]
    assert shown.arrivals == {"b": 2, "c": 1}
    assert shown.paths == [("a", "b"), ("a", "b", "c")]
    assert shown.stays == ("gone",)


def test_a_preview_of_many_has_an_end():
    many = {f"k{number}": True for number in range(3 * NAMED_MAX)}
    shown = planned_drain(found(**many), Drain("a")).shown
    assert shown.lines[0] == f"{3 * NAMED_MAX} clients leave a"
    assert shown.lines[-1] == f"and {2 * NAMED_MAX} more"
    assert len(shown.lines) == NAMED_MAX + 3


@pytest.mark.parametrize(
    ("clients", "wanted", "error", "says"),
    [
        ({}, Move("k", "c"), SurveyError, "no broker has a client 'k'"),
        ({"k": True}, Move("k", "z"), TopologyError, "'z' is not a broker of this tree; there are a, b, c"),
        ({"k": True}, Move("k", "a"), InvalidInputError, "k is at a already; choose another broker"),
        ({"k": False}, Move("k", "c"), InvalidInputError, "it is not connected, so it cannot be told where to go"),
        ({"k": True}, Drain("z"), TopologyError, "'z' is not a broker of this tree"),
        ({"k": True}, Drain("a", ("z",)), TopologyError, "'z' is not a broker of this tree"),
        ({"k": True}, Drain("a", ("a",)), InvalidInputError, "clients of a cannot move to a"),
        ({}, Drain("a"), InvalidInputError, "no client of a can move: it has no clients"),
        ({"k": False}, Drain("a"), InvalidInputError, "no client of a can move: k: it is not connected"),
    ],
)
def test_what_makes_no_sense_is_refused_with_help(clients, wanted, error, says):
    planned = planned_move if isinstance(wanted, Move) else planned_drain
    with pytest.raises(error) as refusal:
        planned(found(**clients), wanted)
    assert says in str(refusal.value)


# Brokers that run ------------------------------------------------------------------------------------------------


def test_clients_are_moved_drained_and_refused(tmp_path):
    async def carried(draft: Draft):
        told = []
        left = await draft.carry_out(lambda *step: told.append(step))
        return left, told

    async def operation():
        async with chain(tmp_path) as running:
            source = LiveSource(lambda: [running.ready["a"].admin], "test")
            address = f"pleach://{running.ready['a'].client}"
            async with pleach.connect(address, name="k1") as one, pleach.connect(address, name="k2") as two:
                for client in (one, two):
                    await client.subscribe("x > 1", callback=lambda _event: None)
                move = await source.draft(Move("k1", "c"))
                late = await source.draft(Move("k1", "b"))
                moved, overtaken = await carried(move), await carried(late)
                drained = await carried(await source.draft(Drain("a", rate=1_000.0)))
                clients = {name: sorted(running.node(name).broker.sessions.clients) for name in "abc"}
            return moved, overtaken, drained, clients

    moved, overtaken, drained, clients = asyncio.run(operation())
    assert moved == ("", [(0, "running", ""), (0, "done", "")])
    reason, told = overtaken
    assert told == [(0, "running", ""), (0, "refused", reason)]
    assert "k1" in reason
    assert drained == ("", [(0, "done", "")])
    assert clients == {"a": [], "b": ["k2"], "c": ["k1"]}


# Simulated ones --------------------------------------------------------------------------------------------------


def test_simulated_clients_move_too(monkeypatch):
    monkeypatch.setattr(simulated_source, "PHASE_SECONDS", 0.0)

    async def operation():
        source = SimulatedSource(10, 1)
        before = await source.snapshot()
        home = before.clients["client-0"].broker
        await (await source.draft(Drain(home, rate=1_000.0))).carry_out(lambda *_: None)
        return home, before, await source.snapshot()

    home, before, after = asyncio.run(operation())
    assert before.brokers[home].clients > 0
    assert after.brokers[home].clients == 0
    assert before.brokers.keys() == after.brokers.keys()
    assert sum(b.clients for b in after.brokers.values()) == len(after.clients)
    assert any(operation.what == "move client-0" for operation in after.operations.values())
