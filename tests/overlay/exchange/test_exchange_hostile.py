"""What a neighbour that means harm, or has a bug, can say of an exchange: it is told so, and nothing happens."""

import msgspec
import pytest

from pleach.broker import Broker
from pleach.errors import ProtocolError
from pleach.messages import LockCycle, RequestExchange, decode, encode
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
        LockCycle("x", ["b", "c", "a"], 0, "path"),  # as if we had begun it
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
