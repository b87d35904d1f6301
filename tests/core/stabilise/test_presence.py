"""Rules 5 and 6 of the leases: nothing runs out but on the evidence of a whole round; none goes to the deaf."""

import pytest

from pleach.core.broker import Broker
from pleach.core.effects import Send
from pleach.core.events.language import parse_filter
from pleach.core.messages import OPERATOR, Attach, Attached, Install, Layer, Presence, Renewed, Round, Subscribe
from pleach.core.routing.router import RoutingConfig
from pleach.core.stabilise.lease_settings import Lease
from pleach.core.stabilise.leases import RENEWAL, TICK, Leases
from pleach.errors import ProtocolError

WANTED = parse_filter("x > 0")
OTHER = parse_filter("y > 0")
LEASE = Lease(refresh=1.0, period=2.0)
INSTALL = Install(Layer.SUBSCRIPTIONS, 0, "", WANTED)


def broker():
    """b with neighbours a and c; a wants something, client s something else."""
    made = Broker(
        "b",
        RoutingConfig("simple", refresh=1.0),
        neighbours=["a", "c"],
        machines=[lambda layers: Leases(layers, LEASE)],
    )
    hear(made, ("s", Attach()), ("s", Subscribe("s1", OTHER)), ("a", INSTALL), "tick")
    assert sources(made) == ["a", "s"]
    return made


def hear(made, *what):
    """Messages with their senders, and ticks."""
    for each in what:
        if each == "tick":
            made.handle_timer(TICK, now=0.0)
        else:
            made.handle(*each, now=0.0)


def tell(made, away=(), back=()):
    return made.handle(OPERATOR, Presence(list(away), list(back)), now=0.0)


def told(effects, kind=Install):
    return sorted({e.to for e in effects if isinstance(e, Send) and isinstance(e.message, kind)})


def sources(made):
    return sorted({source for source, _ in made.router._subscriptions.entries()})


BEGIN, END = ("a", Round(ends=False)), ("a", Round(ends=True))
S_BEGIN, S_END = ("s", Attach()), ("s", Renewed())


@pytest.mark.parametrize(
    ("script", "left"),
    [
        (["tick"] * 9, ["a", "s"]),  # no time is long enough
        ([BEGIN, END, "tick"], ["s"]),
        ([S_BEGIN, S_END, "tick"], ["a"]),
        ([BEGIN, ("a", INSTALL), END, "tick"], ["a", "s"]),
        ([BEGIN, "tick", "tick"], ["a", "s"]),  # not whole
        ([END, "tick"], ["a", "s"]),
        ([BEGIN, ("a", INSTALL), "tick", END, "tick"], ["a", "s"]),  # in part before the tick
        ([BEGIN, ("a", INSTALL), "tick", END, BEGIN, END, "tick"], ["s"]),  # the second one is whole
        ([S_BEGIN, ("s", Subscribe("s1", OTHER, renews=True)), S_END, "tick"], ["a", "s"]),
    ],
)
def test_what_a_whole_round_does_not_bring_goes(script, left):
    made = broker()
    hear(made, *script)
    assert sources(made) == left
    assert made.machine(Leases).lapsed == 2 - len(left)


@pytest.mark.parametrize("script", [[BEGIN], [BEGIN, END]])
def test_rounds_are_captured(script):
    made, again = broker(), broker()
    hear(made, *script)
    again.restore(made.capture())
    hear(made, END, "tick")
    hear(again, END, "tick")
    assert sources(again) == sources(made) == ["s"]


def test_a_round_has_all_that_a_neighbour_should_have_between_its_ends():
    effects = broker().handle_timer(RENEWAL, now=0.0)
    kinds = [type(e.message).__name__ for e in effects if isinstance(e, Send) and e.to == "c"]
    assert kinds == ["Round", "Install", "Install", "Settle", "Round"]


def test_nothing_is_renewed_to_those_who_are_away():
    made = broker()
    assert told(made.handle_timer(RENEWAL, now=0.0)) == ["a", "c"]
    tell(made, away=["c"])
    effects = made.handle_timer(RENEWAL, now=0.0)
    assert told(effects) == told(effects, Round) == ["a"]


def test_a_neighbour_that_is_back_is_told_at_once_and_a_client_how_often_to_renew():
    made = broker()
    tell(made, away=["a", "c", "s"])
    effects = tell(made, back=["c", "s"])
    assert told(effects) == told(effects, Round) == ["c"]
    assert Send("s", Attached(1.0)) in effects


def test_who_is_away_is_captured():
    made, again = broker(), broker()
    tell(made, away=["a"])
    again.restore(made.capture())
    assert told(again.handle_timer(RENEWAL, now=0.0)) == ["c"]


@pytest.mark.parametrize("sender", ["a", "s", "stranger"])
def test_only_its_driver_tells_a_broker_who_is_there(sender):
    made = broker()
    before = made.capture()
    with pytest.raises(ProtocolError):
        made.handle(sender, Presence(["a"], []), now=0.0)
    assert made.capture() == before
