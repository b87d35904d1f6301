"""What a neighbour that means harm, or has a bug, can say of an exchange: it is told so, and nothing happens."""

import msgspec
import pytest

from pleach.broker import Broker
from pleach.errors import ProtocolError
from pleach.messages import (
    Activate,
    Begin,
    CycleEnded,
    CycleForgotten,
    CycleRefused,
    Done,
    LockCycle,
    Reconfigure,
    Reconfigured,
    Removed,
    RequestExchange,
    Separator,
    decode,
    encode,
)
from pleach.overlay.registry import machines
from pleach.routing.router import RoutingConfig


def broker():
    return Broker("b", RoutingConfig(), neighbours=["a", "c"], machines=machines("causal"))


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


@pytest.mark.parametrize(
    "late",
    [
        LockCycle("x", ["b", "c", "a"], 0, "path"),  # back over the new link: we have begun it in a former life
        CycleRefused("x", "a is locked"),
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
