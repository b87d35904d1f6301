"""Peers that cannot be reached (rule 5 of the leases): nothing of them runs out, and nothing is renewed to them."""

import pytest

from pleach.broker import Broker
from pleach.effects import Send
from pleach.errors import ProtocolError
from pleach.events.language import parse_filter
from pleach.messages import OPERATOR, Attach, Attached, Install, Layer, Presence, Subscribe
from pleach.routing.entries import Entry
from pleach.routing.router import RoutingConfig
from pleach.stabilise.lease import Lease
from pleach.stabilise.machine import RENEWAL, TICK, Leases

WANTED = parse_filter("x > 0")
OTHER = parse_filter("y > 0")
LEASE = Lease(refresh=1.0, period=2.0)


def broker():
    """b with neighbours a and c; a wants something, client s something else."""
    made = Broker(
        "b",
        RoutingConfig("simple", refresh=1.0),
        neighbours=["a", "c"],
        machines=[lambda layers: Leases(layers, LEASE)],
    )
    made.handle("s", Attach(), now=0.0)
    made.handle("s", Subscribe("s1", OTHER), now=0.0)
    made.handle("a", Install(Layer.SUBSCRIPTIONS, 1, "", WANTED), now=0.0)
    return made


def tell(made, away=(), back=()):
    return made.handle(OPERATOR, Presence(list(away), list(back)), now=0.0)


def tick(made, times=2):
    for _ in range(times):
        made.handle_timer(TICK, now=0.0)


def renewed_to(effects):
    return sorted({e.to for e in effects if isinstance(e, Send) and isinstance(e.message, Install)})


def sources(made):
    return sorted({source for source, _ in made.router._subscriptions.entries()})


def test_what_is_not_renewed_runs_out():
    made = broker()
    tick(made)
    assert sources(made) == []
    assert made.machine(Leases).lapsed == 2


@pytest.mark.parametrize("away", [["a"], ["s"], ["a", "s"]])
def test_nothing_of_those_who_are_away_runs_out(away):
    made = broker()
    tell(made, away=away)
    tick(made, times=5)
    assert sources(made) == away


@pytest.mark.parametrize(("ticks", "left"), [(1, ["a"]), (2, [])])
def test_who_is_back_has_a_period_to_renew(ticks, left):
    made = broker()
    tell(made, away=["a"])
    tick(made, times=5)
    tell(made, back=["a"])
    tick(made, times=ticks)
    assert sources(made) == left


def test_nothing_is_renewed_to_those_who_are_away():
    made = broker()
    assert renewed_to(made.handle_timer(RENEWAL, now=0.0)) == ["a", "c"]
    tell(made, away=["c"])
    assert renewed_to(made.handle_timer(RENEWAL, now=0.0)) == ["a"]


def test_a_neighbour_that_is_back_is_told_at_once_and_a_client_how_often_to_renew():
    made = broker()
    tell(made, away=["a", "c", "s"])
    effects = tell(made, back=["c", "s"])
    assert renewed_to(effects) == ["c"]
    assert Send("s", Attached(1.0)) in effects


def test_who_is_away_is_captured():
    made, again = broker(), broker()
    tell(made, away=["a"])
    again.restore(made.capture())
    tick(again, times=5)
    assert sources(again) == ["a"]
    assert again.router.has(Layer.SUBSCRIPTIONS, "a", Entry("", WANTED))


@pytest.mark.parametrize("sender", ["a", "s", "stranger"])
def test_only_its_driver_tells_a_broker_who_is_there(sender):
    made = broker()
    before = made.capture()
    with pytest.raises(ProtocolError):
        made.handle(sender, Presence(["a"], []), now=0.0)
    assert made.capture() == before
