"""Random hostile sessions against a broker without its sockets; and, one by one, what such sessions have found."""

import asyncio

import pytest

from pleach.core.access.client_access import ClientAccess
from pleach.core.access.rights import EVERYTHING
from pleach.core.broker import Broker
from pleach.core.effects import Send
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import BROKER, CLIENT, Aside, Data, Hello
from pleach.core.messages import (
    Bulletin,
    Connect,
    ConnectNack,
    CycleRefused,
    Deliver,
    HandedClient,
    Handover,
    Install,
    Left,
    Lock,
    LockCycle,
    LockNack,
    RemoveReq,
    Withdraw,
    encode,
)
from pleach.core.messages.council import BrokerOnPath
from pleach.core.messages.runs import encode_event, encode_run
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.overlay.registry import machines
from pleach.core.routing.router import RoutingConfig
from pleach.errors import ProtocolError
from pleach.server.door.settings import AccessSettings
from pleach.server.feature import Feature
from pleach.server.links import Port
from pleach.server.node import BrokerNode
from pleach.server.settings import BrokerSettings
from pleach.server.storage.store import Store
from support.live.hostile_node import KINDS, Findings, run_block
from support.live.timed_node import Wire

EPOCH = 5


@pytest.mark.parametrize("kind", KINDS)
def test_no_random_session_raises_what_no_peer_may_cause(kind):
    found = Findings()
    for seed in range(2):
        run_block(kind, seed, found, sessions=100)
    assert not found.first, "\n".join(found.first.values())


def heard(settings, *payloads, store):
    """A node to which its neighbour "n" has sent payloads; returns the exit codes."""

    async def run():
        codes = []
        node = BrokerNode(settings, store, 1, clock=lambda: 0.0, on_end=lambda code, _: codes.append(code))
        wire = Wire()
        assert not node.accept(wire, Hello("n", EPOCH, 0, 0, 1, role=BROKER), Port.PEERS)
        for number, payload in enumerate(payloads, start=1):
            node.receive(wire=wire, peer="n", frame=Data(number, payload))
        await asyncio.sleep(0)
        node.tick()
        await node.committer.finish()
        node.committer.close()
        return codes

    return asyncio.run(run())


# Events --------------------------------------------------------------------------------------------------------


def test_a_run_that_no_broker_sends_does_no_harm(tmp_path):
    """Its ids are not validated, and do not fit into a database."""
    settings = BrokerSettings("b", neighbours=("n",))
    events = [Event(EventId("x", 2**64 - 1, number), {}) for number in (1, 2)]
    run = encode_run(Deliver, 2, b"".join(map(encode_event, events)))
    assert heard(settings, run, store=Store.open(str(tmp_path), "b", epoch=1)) == []


# Joining and leaving -------------------------------------------------------------------------------------------


def test_a_broker_that_leaves_cannot_join_before_it_has_left():
    broker = Broker("b", RoutingConfig(), neighbours=["a", "n"], machines=machines("causal"))
    broker.handle("n", RemoveReq("1"), now=0.0)
    broker.handle("n", Handover("1", []), now=0.0)
    assert broker.handle("n", Connect("2", "127.0.0.1:9"), now=0.0) == [
        Send("n", ConnectNack("2", "n has not left yet"))
    ]
    broker.peer_reset("n")
    assert broker.router.neighbours == ["a", "n"]


def test_a_broker_that_has_left_can_join_again():
    broker = Broker("b", RoutingConfig(), neighbours=["a", "n"], machines=machines("causal"))
    for message in (RemoveReq("1"), Handover("1", []), Left("1"), Connect("2", "127.0.0.1:9")):
        broker.handle("n", message, now=0.0)
    assert broker.router.neighbours == ["a", "n"]


# Improving -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", Port)
def test_an_aside_of_arrays_within_arrays_is_ignored(port):
    bulletin = encode(Bulletin(b"", "", [BrokerOnPath("n", 0.0, 1, 0.0, 0)], []))
    deep = bytes([bulletin[0] + 1]) + bulletin[1:] + b"\x91" * 100_000 + b"\xc0"

    async def run():
        settings = BrokerSettings("b", neighbours=("n",), improve=CouncilSettings())
        node = BrokerNode(settings, None, 1, clock=lambda: 0.0, on_end=lambda *_: None)
        name, role = ("n", BROKER) if port is Port.PEERS else ("c", CLIENT)
        wire = Wire()
        assert not node.accept(wire, Hello(name, EPOCH, 0, 0, 1, role=role), port)
        node.receive(name, wire, Aside(deep))

    asyncio.run(run())


# Swaps ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", ["a", "c", "n", ""])
def test_a_lock_of_who_is_no_neighbour_or_no_third_broker_is_refused(a):
    broker = Broker("b", RoutingConfig(), neighbours=["a", "n"], machines=machines("causal"))
    broker.handle("n", RemoveReq("1"), now=0.0)
    broker.handle("n", Handover("1", []), now=0.0)
    broker.handle("n", Left("1"), now=0.0)
    try:
        answer = broker.handle("n", Lock("2", a, "n", "b", "127.0.0.1:9"), now=0.0)
    except ProtocolError:
        return
    assert answer == [Send("n", LockNack("2", "b and n are not linked"))]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (["c", "n", "b"], "b and n are not linked"),
        (["n", "b", "a"], "b and n are not linked"),
        (["a", "n", "b"], "a and b are linked already"),
    ],
)
def test_a_lock_of_a_cycle_that_is_none_is_refused(path, reason):
    broker = Broker("b", RoutingConfig(), neighbours=["a", "n"], machines=machines("causal"))
    for message in (RemoveReq("1"), Handover("1", []), Left("1")):
        broker.handle("n", message, now=0.0)
    answer = broker.handle("n", LockCycle("2", path, 1, "advanced-coordinated", "127.0.0.1:9"), now=0.0)
    assert answer == [Send("n", CycleRefused("2", reason))]
    assert not broker.operation


def test_a_lock_for_a_link_that_is_there_is_refused():
    broker = Broker("b", RoutingConfig(), neighbours=["a", "n"], machines=machines("causal"))
    answer = broker.handle("n", Lock("2", "a", "n", "b", "127.0.0.1:9"), now=0.0)
    assert answer == [Send("n", LockNack("2", "a and b are linked already"))]
    assert not broker.operation


# Rights --------------------------------------------------------------------------------------------------------


def test_who_arrives_is_judged_behind_the_message_that_brings_it(tmp_path):
    """In the journal as on links: else a neighbour is told of the wider subscription last."""
    (tmp_path / "access.toml").write_text("[principals.alice]\nsubscribe = 'n > 5'\n")
    access = AccessSettings(str(tmp_path / "access.toml"))
    settings = BrokerSettings("b", neighbours=("a", "n"), access=access)
    everything = parse_filter("TRUE")
    alice = HandedClient("alice", True, {"s": everything}, {}, ["s"], [], ClientAccess("alice", EVERYTHING))
    saved = []

    async def run(store, *payloads):
        node = BrokerNode(settings, store, 1, clock=lambda: 0.0, on_end=lambda *_: None)
        wires = {name: Wire() for name in ("a", "n")}
        if payloads:
            for start in node.features.hooks(Feature.start):
                start()
            for name, wire in wires.items():
                assert not node.accept(wire, Hello(name, EPOCH, 0, 0, 1, role=BROKER), Port.PEERS)
        for number, payload in enumerate(payloads, start=1):
            node.receive("n", wires["n"], Data(number, payload))
        saved.append(node.broker.capture())
        await node.committer.finish()
        node.committer.close()
        return [message for message in wires["a"].messages() if isinstance(message, Install | Withdraw)]

    handed = [encode(RemoveReq("1")), encode(Handover("1", [alice]))]
    told = asyncio.run(run(Store.open(str(tmp_path / "data"), "b", epoch=1), *handed))
    standing = set()
    for message in told:
        (standing.add if isinstance(message, Install) else standing.discard)(message.filter.text)
    assert standing == {"n > 5 AND NOT EXISTS pleachtenant"}
    asyncio.run(run(Store.open(str(tmp_path / "data"), "b", epoch=1)))
    assert saved[0] == saved[1]
