"""A neighbour that has lost its memory numbers its requests anew: old answers must not fit new questions."""

from pleach.core.broker import Broker
from pleach.core.effects import Send
from pleach.core.events.language import parse_filter
from pleach.core.messages import Install, Installed, Layer
from pleach.core.routing.router import RoutingConfig

SUBSCRIPTIONS = Layer.SUBSCRIPTIONS


def answers(effects):
    return [e for e in effects if isinstance(e, Send) and isinstance(e.message, Installed)]


def test_what_was_owed_to_a_former_life_is_not_answered_in_the_next():
    """The neighbour's second request of its new life may be under way when the answer to that of the old one comes."""
    broker = Broker("b", RoutingConfig("simple"), neighbours=["n", "m"])
    asked = broker.handle("n", Install(SUBSCRIPTIONS, 2, "c/1", parse_filter("x = 1")), now=0.0)
    number = next(e.message.number for e in asked if e.to == "m")
    broker.peer_reset("n")
    again = broker.handle("n", Install(SUBSCRIPTIONS, 1, "c/2", parse_filter("x = 2")), now=0.0)
    later = next(e.message.number for e in again if e.to == "m" and isinstance(e.message, Install))
    assert answers(broker.handle("m", Installed(SUBSCRIPTIONS, number), now=0.0)) == []
    assert answers(broker.handle("m", Installed(SUBSCRIPTIONS, later), now=0.0)) == [
        Send("n", Installed(SUBSCRIPTIONS, 1))
    ]
