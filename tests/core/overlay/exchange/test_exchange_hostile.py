"""What a neighbour that means harm, or has a bug, can say of an exchange: it is told so, and nothing happens."""

from typing import get_args

import msgspec
import pytest

from pleach.core.broker import Broker
from pleach.core.messages import (
    OPERATOR,
    Activate,
    Begin,
    Begun,
    CycleAbandoned,
    CycleEnded,
    CycleForgotten,
    CycleRefused,
    Done,
    EndOfRelay,
    ExchangeMessage,
    Flush,
    Layer,
    LockCycle,
    Reconfigure,
    Reconfigured,
    RelayRouting,
    RelayTables,
    Removed,
    RequestExchange,
    Separator,
    Unlock,
    Withdraw,
    decode,
    encode,
)
from pleach.core.overlay.registry import CYCLES, MISPRINTS, PRINTED, machines
from pleach.core.routing.router import RoutingConfig
from pleach.errors import ProtocolError


def broker():
    return Broker("b", RoutingConfig(), neighbours=["a", "c", "stranger"], machines=machines("causal"))


@pytest.mark.parametrize(
    "lock",
    [
        LockCycle("x", ["a", "c", "d"], 0, "path"),  # we are not on it
        LockCycle("x", ["a", "d", "b"], 0, "path"),  # from whom it should not come
        LockCycle("x", ["a", "b"], 0, "path"),
        LockCycle("x", ["a", "b", "c"], 7, "path"),
        LockCycle("x", ["a", "b", "c", "a"], 0, "path"),
    ],
)
def test_a_lock_that_cannot_be_is_a_fault_of_who_sent_it(lock):
    machine = broker()
    before = machine.capture()
    with pytest.raises(ProtocolError):
        machine.handle("a", lock, now=0.0)
    assert machine.capture() == before


def test_a_protocol_that_is_not_known_here_is_refused_in_words():
    (refusal,) = broker().handle("a", LockCycle("x", ["a", "b", "c"], 0, "swop"), now=0.0)
    assert (refusal.to, refusal.message.is_busy) == ("a", False)
    assert refusal.message.reason.startswith("b knows no 'swop', but strawman, ")


@pytest.mark.parametrize("message", [RequestExchange("x", [], 0, "path"), LockCycle("x", [], 0, "path")])
def test_a_cycle_of_nobody_is_no_message(message):
    with pytest.raises(msgspec.ValidationError):
        decode(encode(message))


# A broker that is locked -------------------------------------------------------------------------------------------

PLACES = {  # of b: the path, and which link of it goes
    "u": (["b", "c", "d", "e"], 1),
    "between": (["a", "b", "c", "d", "e"], 2),
    "x": (["a", "b", "c", "d"], 1),
    "y": (["a", "b", "c", "d"], 0),
    "v": (["d", "e", "a", "b"], 1),
    "u = x": (["b", "c", "d"], 0),
    "y = v": (["d", "a", "b"], 1),
}
MESSAGES = [
    Begin("1"),
    RelayTables("1", [], [], is_settled=True),
    RelayRouting("1", Withdraw(Layer.SUBSCRIPTIONS, "", "price > 1")),
    Separator("1", "b"),
    Separator("1", "c"),
    Separator("1", "a", is_relayed=True),
    EndOfRelay("1"),
    Unlock("1"),
    Activate("1"),
    Flush("1", "d"),
    Begun("1"),
    Reconfigure("1"),
    Reconfigured("1"),
    Removed("1"),
    Done("1", "b"),
    Done("1", "c"),
    CycleRefused("1", "no"),
    CycleAbandoned("1"),
]
AT_BOTH_LINKS = {CycleRefused, Removed, Done}
ALONG_COLOURS = {CycleRefused, Begin, RelayTables, RelayRouting, Separator, EndOfRelay}
OBEYED = {  # what a part knows
    "strawman": AT_BOTH_LINKS | {Activate, Begin},
    "deferred": AT_BOTH_LINKS | {Activate, Begin},
    "coordinated": AT_BOTH_LINKS | {Activate, Flush},
    "informed": AT_BOTH_LINKS | {Begin, Begun, RelayTables},
    "path": AT_BOTH_LINKS | {Begin, Activate, Reconfigure, Reconfigured},
    "path-printed": AT_BOTH_LINKS | {Begin, Activate, Reconfigure, Reconfigured},
    "advanced-coordinated": ALONG_COLOURS,
    PRINTED: ALONG_COLOURS | {Unlock},
}


def locked(protocol, place):
    """b takes part, at this place of the cycle; nothing has begun."""
    path, cut = PLACES[place]
    machine = broker()
    if path[0] == "b":
        machine.handle(OPERATOR, RequestExchange("1", path, cut, protocol), now=0.0)
    else:
        machine.handle("a", LockCycle("1", path, cut, protocol), now=0.0)
    assert machine.operation == "1"
    return machine


def test_every_message_of_an_exchange_is_tried():
    apart = {LockCycle, RequestExchange, CycleForgotten, CycleEnded}
    assert {type(message) for message in MESSAGES} == {*get_args(ExchangeMessage)} - apart
    assert set(OBEYED) == set(CYCLES) - set(MISPRINTS) | {PRINTED}  # its errors one by one are the same code


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("protocol", "message"),
    [(protocol, message) for protocol in OBEYED for message in MESSAGES],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_neighbour_that_is_not_on_the_cycle_has_no_say(protocol, message, place):
    machine = locked(protocol, place)
    before = machine.capture()
    with pytest.raises(ProtocolError):
        machine.handle("stranger", message, now=0.0)
    assert machine.capture() == before


@pytest.mark.parametrize("place", ["u", "u = x"])
@pytest.mark.parametrize("protocol", OBEYED)
def test_an_exchange_begins_once(protocol, place):
    """Over a the lock comes back to u, which says that all are locked; who says so again has a bug."""
    path, cut = PLACES[place]
    machine = locked(protocol, place)
    machine.handle(path[-1], LockCycle("1", path, cut, protocol), now=0.0)
    before = machine.capture()
    with pytest.raises(ProtocolError):
        machine.handle(path[-1], LockCycle("1", path, cut, protocol), now=0.0)
    assert machine.capture() == before


@pytest.mark.parametrize("protocol", [name for name in OBEYED if Begin in OBEYED[name]])
@pytest.mark.parametrize(("sender", "message"), [("c", CycleRefused("1", "late")), ("a", CycleAbandoned("1"))])
def test_nobody_refuses_or_gives_up_what_has_begun(protocol, sender, message):
    machine = locked(protocol, "x")
    machine.handle("a", Begin("1"), now=0.0)
    before = machine.capture()
    with pytest.raises(ProtocolError):
        machine.handle(sender, message, now=0.0)
    assert machine.capture() == before


@pytest.mark.parametrize("place", PLACES)
def test_only_who_asked_for_the_lock_gives_it_up(place):
    machine = locked("path", place)
    before = machine.capture()
    with pytest.raises(ProtocolError):
        machine.handle("c" if place != "v" and place != "y = v" else "d", CycleAbandoned("1"), now=0.0)
    assert machine.capture() == before


# What is late, or misplaced -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "late",
    [
        LockCycle("x", ["b", "c", "a"], 0, "path"),  # back over the new link: we have begun it in a former life
        CycleRefused("x", "a is locked"),
        CycleAbandoned("x"),
        Begin("x"),
        Activate("x"),
        Separator("x", "a"),
        Reconfigure("x"),
        Reconfigured("x"),
        Removed("x"),
        Done("x", "a"),
    ],
)
def test_what_is_said_of_an_exchange_that_is_not_known_here_is_dropped(late):
    machine = broker()
    before = machine.capture()
    assert machine.handle("a", late, now=0.0) == []
    assert machine.capture() == before


@pytest.mark.parametrize("misplaced", [Removed("x"), Reconfigured("x")])
@pytest.mark.parametrize("protocol", ["strawman", "path"])
def test_what_only_one_other_can_say_is_a_fault_of_anybody_else(protocol, misplaced):
    machine = broker()
    machine.handle("a", LockCycle("x", ["a", "b", "c"], 1, protocol), now=0.0)  # the old link is b–c
    before = machine.capture()
    with pytest.raises(ProtocolError, match="does not fit"):
        machine.handle("a", misplaced, now=0.0)
    assert machine.capture() == before


@pytest.mark.parametrize(
    "aside",
    [
        CycleForgotten("x", ["a", "c", "d"], 0, "path", "", "a"),  # we are not on it
        CycleForgotten("x", ["a", "c", "b", "d"], 0, "path", "", "c"),  # the sender is not next to us
        CycleEnded("x", ["a", "b"], 0, "path", "", "a", is_done=True),
    ],
)
def test_the_end_of_an_exchange_comes_along_its_cycle(aside):
    machine = broker()
    before = machine.capture()
    with pytest.raises(ProtocolError):
        machine.handle("a", aside, now=0.0)
    assert machine.capture() == before
