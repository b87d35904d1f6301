"""The gate in front of a broker: who may say what, and what is refused for want of room."""

from typing import get_args

import pytest

from pleach.core.access.rights import EVERYTHING, TRUE, Rights
from pleach.core.broker import Broker
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import Data, Hello
from pleach.core.messages import (
    OPERATOR,
    Along,
    AnyMessage,
    Attach,
    Coloured,
    ColourStage,
    Deliver,
    Farewell,
    Forward,
    Install,
    Installed,
    Layer,
    LocationReport,
    Lock,
    Mark,
    Marked,
    Message,
    OnBehalf,
    Permit,
    Presence,
    Publish,
    Rejudge,
    Renewed,
    RequestAdd,
    RequestHost,
    RequestMove,
    RequestRemove,
    RequestSwap,
    Round,
    Said,
    Seek,
    Sought,
    Subscribe,
    Swap,
    encode,
)
from pleach.core.routing.router import RoutingConfig
from pleach.core.stabilise.lease_settings import Lease
from pleach.core.stabilise.leases import RENEWAL, TICK, Leases
from pleach.errors import ProtocolError
from pleach.server.assemble import first_broker
from pleach.server.door.gate import Gate
from pleach.server.feature import Feature, Features
from pleach.server.metrics import Counters
from pleach.server.settings import BrokerSettings
from pleach.server.stabilise_settings import LeaseSettings, StabiliseKind
from pleach.server.stabilising import Stabilising

REBUILD = LeaseSettings(refresh=1.0, period=5.0, kind=StabiliseKind.REBUILD)
WANTED = parse_filter("n > 0 AND topic = 'a'")


def gate():
    made = Gate(Broker("b", RoutingConfig(), neighbours=["n"]), Counters())
    made.install(Features(()), lambda peer: peer == "c")
    made.handle("c", Attach(), now=0.0)
    made.handle("c", Subscribe("s", WANTED), now=0.0)
    return made


def event(**attributes):
    return Event(EventId("p", 0, 1), attributes)


ODD_EVENTS = [
    event(n=[1], topic="a"),
    event(n={"x": 1}),
    event(n=None),
    event(topic=["a"]),
    event(n=float("nan")),
    event(**{f"k{n}": n for n in range(300)}),
    Event(EventId("p", 0, 1), {"n": 1}, bytes(1_100_000)),
    Event(EventId("", -1, 0), {"n": 1}),
]


@pytest.mark.parametrize("odd", ODD_EVENTS, ids=range(len(ODD_EVENTS)))
def test_an_event_of_a_neighbour_is_as_good_as_one_of_a_client_or_refused(odd):
    """It is refused before it comes to the gate: where it is decoded."""
    for message in (Forward(odd), Marked("operation", Mark.FLOOD, "n", Forward(odd)), Said("c", Publish(odd))):
        endpoint = connected_endpoint()
        before = endpoint.machine.capture()
        endpoint.receive("n", Data(1, encode(message)), now=0.0)
        batch = endpoint.take_batch()
        assert [(peer, reason.partition(":")[0]) for peer, reason in batch.hangups] == [("n", "EventError")]
        assert not batch.queued
        assert endpoint.machine.capture() == before
    endpoint = connected_endpoint()
    endpoint.receive("n", Data(1, encode(Forward(event(n=1, topic="a")))), now=0.0)
    assert [queued.peer for queued in endpoint.take_batch().queued] == ["c"]


def connected_endpoint():
    endpoint = Endpoint(gate(), 1)
    endpoint.connected("n", now=0.0)
    endpoint.receive("n", Hello("n", 1, 0, 0, 1), now=0.0)
    endpoint.take_batch()
    return endpoint


def test_the_connection_ends_and_the_reason_is_given():
    endpoint = connected_endpoint()
    endpoint.receive("n", Data(1, encode(Forward(event(n=[1], topic="a")))), now=0.0)
    ((peer, reason),) = endpoint.take_batch().hangups
    assert peer == "n"
    assert "EventError: attribute 'n' is of type list" in reason


def carriers(carried):
    """Each message that has events in it, with this one."""
    forward = Forward(carried)
    return {
        type(message): message
        for message in (
            Publish(carried),
            forward,
            Deliver(carried),
            Marked("operation", Mark.FLOOD, "n", forward),
            Along("n", forward),
            Coloured(0, ColourStage(0), False, 0, forward),
            OnBehalf("c", Publish(carried)),
            Said("c", Publish(carried)),
        )
    }


def test_the_gate_knows_every_message_that_carries_events():
    assert carriers(event(n=1)).keys() == {k for k in get_args(AnyMessage) if k.events is not Message.events}
    for kind, message in carriers(event(n=1, topic="a")).items():
        if kind is not Publish:  # which its publisher may send, and no one else
            with pytest.raises(ProtocolError):
                gate().handle("c", message, now=0.0)
    for kind, message in carriers(event(n=[1])).items():
        endpoint = connected_endpoint()
        endpoint.receive("n", Data(1, encode(message)), now=0.0)
        batch = endpoint.take_batch()
        assert [peer for peer, _ in batch.hangups] == ["n"], kind
        assert not batch.journal


def test_events_are_counted_whatever_wraps_them():
    settings = BrokerSettings(name="b", neighbours=("n",), stabilise=REBUILD)
    counters = Counters()
    door = Gate(first_broker(settings), counters)
    door.handle("n", Along("n", Forward(event(n=1, topic="a"))), now=0.0)
    assert counters.events.matches == 1


@pytest.mark.parametrize(
    "message",
    [
        Forward(event(n=1)),
        Install(Layer.SUBSCRIPTIONS, 1, "", WANTED),
        Installed(Layer.SUBSCRIPTIONS, 1),
        RequestSwap("operation", "a", "b", "c"),
        Lock("operation", "a", "b", "c"),
        Swap("operation"),
        Marked("operation", Mark.FLOOD, "x", Forward(event(n=1))),
        Permit("c", "alice", EVERYTHING),
        Rejudge(),
        LocationReport({}, {}),
    ],
    ids=lambda message: type(message).__name__,
)
def test_who_came_by_the_clients_door_cannot_speak_as_a_broker_or_an_operator(message):
    door = gate()
    before = door.capture()
    with pytest.raises(ProtocolError):
        door.handle("c", message, now=0.0)
    assert door.capture() == before


REMOVE = RequestRemove("operation", "b")


@pytest.mark.parametrize(
    "message",
    [
        Permit("c", "alice", EVERYTHING),
        Rejudge(),
        REMOVE,
        Seek(REMOVE),
        Seek(RequestSwap("operation", "b", "n", "c")),
        Seek(RequestRemove("operation", "z")),
        Sought("operation", is_found=True),
        RequestAdd("operation", "n", "127.0.0.1:1"),
        RequestMove("operation", "c", ["b", "n"]),
        Presence(["n"], []),
        RequestHost("operation", "c", "running-sum"),
    ],
    ids=lambda m: type(m).__name__,
)
def test_a_neighbour_is_no_operator(message):
    door = Gate(first_broker(BrokerSettings(name="b", neighbours=("n",))), Counters())
    with pytest.raises(ProtocolError, match="no broker sends this to another one"):
        door.handle("n", message, now=0.0)


def test_what_clients_say_passes():
    door = gate()
    assert door.handle("c", Subscribe("t", WANTED, network_wide=False), now=0.0)
    with pytest.raises(ProtocolError, match="no protocol here owns"):  # past the door: this broker has no protocols
        door.handle("c", Farewell(), now=0.0)


# Leases ---------------------------------------------------------------------------------------------------------


class FullOfNames(Feature):
    reason = ""

    def refuse_name(self, sender, wanted):
        return self.reason


def leased_gate(**config):
    broker = Broker("b", RoutingConfig(refresh=1.0, **config), neighbours=["n"], machines=[leases_of])
    counters, names = Counters(), FullOfNames()
    made = Gate(broker, counters)
    made.handle("c", Attach(), now=0.0)
    made.handle("c", Subscribe("s", WANTED), now=0.0)
    settings = LeaseSettings(refresh=1.0, period=2.0)
    leases = broker.machine(Leases)
    stabilising = Stabilising(broker, Endpoint(made, 1), leases, settings, counters, clock=lambda: 0.0)
    made.install(Features([stabilising, names]), lambda _: False)
    return made, counters, names


def leases_of(layers):
    return Leases(layers, Lease(refresh=1.0, period=2.0))


def test_a_full_broker_takes_renewals_of_what_it_has_and_of_nothing_else():
    door, _, names = leased_gate()
    names.reason = "full"
    known, unknown = Subscribe("s", WANTED, renews=True), Subscribe("more", WANTED, renews=True)
    assert door.handle("c", known, now=0.0) == []
    assert door.is_changed_by("c", known)
    assert door.handle("c", Subscribe("s", WANTED), now=0.0) == [], "asked for again: it waits for its neighbour"
    (refused,) = door.handle("c", unknown, now=0.0)
    assert type(refused.message).__name__ == "Refused"
    assert not door.is_changed_by("c", unknown)
    assert not door.is_changed_by("stranger", known)
    assert door.broker.sessions.subscriptions("c") == {"s": WANTED}


def test_a_full_broker_takes_again_what_it_has_narrowed():
    door, _, names = leased_gate()
    door.handle(OPERATOR, Permit("c", "alice", Rights(TRUE, parse_filter("n > 5"), TRUE)), now=0.0)
    names.reason = "full"
    assert door.broker.sessions.subscriptions("c") != {"s": WANTED}
    assert door.is_changed_by("c", Subscribe("s", WANTED, renews=True))
    assert door.handle("c", Subscribe("s", WANTED, renews=True), now=0.0) == []


def test_what_leases_do_is_counted():
    door, counters, _ = leased_gate()
    door.handle("c", Subscribe("s", WANTED, renews=True), now=0.0)
    door.handle("n", Install(Layer.SUBSCRIPTIONS, 0, "", WANTED), now=0.0)
    counted = counters.leases
    assert (counted.renewals_received, counted.lease_restored) == (2, 1), "the neighbour's entry was missing"
    door.handle_timer(RENEWAL, now=0.0)
    assert counted.renewals_sent == 1
    door.handle_timer(TICK, now=0.0)
    for sender, message in (("c", Attach()), ("c", Renewed()), ("n", Round(ends=False)), ("n", Round(ends=True))):
        door.handle(sender, message, now=0.0)
    door.handle_timer(TICK, now=0.0)
    assert counted.lease_expired == 2
