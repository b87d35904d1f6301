"""S1 §2.2.3 (hierarchical, peer-to-peer, advertisements) and Definition 5, on a tree of seven brokers.

Each test cites the section it holds us to. Where the text leaves something open, the docstring says what we chose.
"""

from __future__ import annotations

import pytest

from pleach.core.effects import Observed
from pleach.core.events.language import parse_filter
from pleach.core.routing.router import RoutingConfig
from support.papers.small_tree import BROKERS, CONFIGS, NARROW, ROUTED, WIDE, SmallTree, config_id, from_, links

# §2.2.3 Hierarchical and peer-to-peer routing (Figure 2.3) --------------------------------------------------------


@pytest.mark.parametrize("policy", ROUTED)
def test_hierarchical_subscriptions_go_only_towards_the_root(policy):
    """§2.2.3: "every subscription is sent only towards a dedicated root broker R which does not forward them"."""
    tree = SmallTree(RoutingConfig(policy, hierarchical=True), {"S": "B6"})
    assert links(tree.subscribe("S", NARROW), "Install") == [("B3", "B1"), ("B6", "B3")]
    assert tree.tables() == {"B1": {"B3": [NARROW]}, "B3": {"B6": [NARROW]}}
    assert links(tree.unsubscribe("S", NARROW), "Withdraw") == [("B3", "B1"), ("B6", "B3")]


@pytest.mark.parametrize("policy", ROUTED)
def test_hierarchical_subscriptions_at_the_root_go_nowhere(policy):
    tree = SmallTree(RoutingConfig(policy, hierarchical=True), {"S": "B1"})
    assert tree.subscribe("S", NARROW) == []


@pytest.mark.parametrize("policy", ROUTED)
def test_hierarchical_events_go_at_least_to_the_root(policy):
    """§2.2.3: "all notifications published are also forwarded at least to R", wanted or not."""
    tree = SmallTree(RoutingConfig(policy, hierarchical=True), {"P": "B5"})
    assert links(tree.publish("P", price=1), "Forward") == [("B2", "B1"), ("B5", "B2")]


@pytest.mark.parametrize("policy", ROUTED)
def test_figure_2_3a(policy):
    """B6 has subscribed, B5 publishes: the event climbs to R and comes down to B6, and goes nowhere else."""
    tree = SmallTree(RoutingConfig(policy, hierarchical=True), {"P": "B5", "S": "B6"})
    tree.subscribe("S", NARROW)
    hops = tree.publish("P", price=60)
    assert links(hops, "Forward") == [("B1", "B3"), ("B2", "B1"), ("B3", "B6"), ("B5", "B2")]
    assert tree.delivered("S") == ["P/0/1"]


@pytest.mark.parametrize("policy", ROUTED)
def test_hierarchical_events_turn_off_below_the_root_too(policy):
    """A neighbour below the same inner broker gets the event on its way up."""
    tree = SmallTree(RoutingConfig(policy, hierarchical=True), {"P": "B5", "S": "B4"})
    tree.subscribe("S", NARROW)
    assert links(tree.publish("P", price=60), "Forward") == [("B2", "B1"), ("B2", "B4"), ("B5", "B2")]
    assert tree.delivered("S") == ["P/0/1"]


@pytest.mark.parametrize("policy", ROUTED)
def test_figure_2_3b(policy):
    """Peer-to-peer: entries "have to be installed in the whole broker network"; events need not pass a root."""
    tree = SmallTree(RoutingConfig(policy), {"P": "B5", "S": "B6", "T": "B4"})
    assert links(tree.subscribe("S", NARROW), "Install") == from_("B6")
    assert set(tree.tables()) == set(BROKERS) - {"B6"}
    tree.subscribe("T", "price < 10")
    assert links(tree.publish("P", price=5), "Forward") == [("B2", "B4"), ("B5", "B2")], "B1 need not see it"


# §2.2.3 Advertisements (Figure 2.4) -------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ROUTED)
def test_figure_2_4(policy):
    """B5's advertisement goes everywhere; B6's subscription "is only sent towards B5"."""
    tree = SmallTree(RoutingConfig(policy, advertisements=True), {"P": "B5", "S": "B6"})
    assert links(tree.advertise("P", WIDE), "Install") == from_("B5")
    assert tree.tables() == {}, "an advertisement is no subscription"
    assert links(tree.subscribe("S", NARROW), "Install") == [("B1", "B2"), ("B2", "B5"), ("B3", "B1"), ("B6", "B3")]
    assert set(tree.tables()) == {"B3", "B1", "B2", "B5"}
    tree.publish("P", price=60)
    assert tree.delivered("S") == ["P/0/1"]


@pytest.mark.parametrize("policy", ROUTED)
def test_a_subscription_that_nobody_serves_stays_at_home(policy):
    """§2.2.3: only "in directions, where brokers with publishers reside which may publish" what matches."""
    tree = SmallTree(RoutingConfig(policy, advertisements=True), {"P": "B5", "S": "B6"})
    tree.advertise("P", "price < 10")
    assert tree.subscribe("S", NARROW) == []
    assert len(tree.seen("S", Observed.SUBSCRIBE_ACK)) == 1, "there is nothing to wait for"


@pytest.mark.parametrize("policy", ROUTED)
def test_a_later_advertisement_draws_subscriptions_to_it(policy):
    """Left open by S1: who subscribed before the publisher came is served all the same."""
    tree = SmallTree(RoutingConfig(policy, advertisements=True), {"P": "B5", "S": "B6"})
    tree.subscribe("S", NARROW)
    hops = tree.advertise("P", WIDE)
    ways = [("B1", "B2"), ("B2", "B5"), ("B3", "B1"), ("B6", "B3")]
    assert links(hops, "Install") == sorted([*from_("B5"), *ways])
    tree.publish("P", price=60)
    assert tree.delivered("S") == ["P/0/1"]


@pytest.mark.parametrize("policy", ROUTED)
def test_unadvertising_takes_the_entries_back(policy):
    tree = SmallTree(RoutingConfig(policy, advertisements=True), {"P": "B5", "S": "B6"})
    tree.advertise("P", WIDE)
    tree.subscribe("S", NARROW)
    tree.unadvertise("P", WIDE)
    assert tree.tables() == {}


@pytest.mark.parametrize("policy", ROUTED)
def test_what_is_not_advertised_is_refused(policy):
    """What cannot be kept is refused with an error, never dropped in silence."""
    tree = SmallTree(RoutingConfig(policy, advertisements=True), {"P": "B5", "S": "B6"})
    tree.advertise("P", "price < 10")
    tree.subscribe("S", NARROW)
    tree.publish("P", price=60)
    assert [seen.event_id for seen in tree.seen("P", Observed.PUBLISH_FAIL)] == ["P/0/1"]
    assert tree.delivered("S") == []


def test_the_same_algorithms_serve_advertisements():
    """§2.2.3: "For advertisements, the same routing algorithms can be used as for subscriptions": here covering."""
    tree = SmallTree(RoutingConfig("covering", advertisements=True), {"P": "B5", "Q": "B5", "S": "B6"})
    tree.advertise("P", WIDE)
    assert tree.advertise("Q", NARROW) == []
    tree.subscribe("S", NARROW)
    hops = tree.unadvertise("P", WIDE)
    assert links(hops, "Install") == links(hops, "Withdraw") == from_("B5"), "what it hid takes its place"
    tree.publish("Q", price=60)
    assert tree.delivered("S") == ["Q/0/1"]


# §3.2 Definition 5: a correct publish/subscribe system ------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_definition_5(config):
    """Safety: at most once (a), only what was published (b), only what is subscribed to (c). Liveness: all of that.

    Clients at every broker, two publishers, three filters each of which someone shares, covers or overlaps.
    """
    texts = ("price > 50", "price BETWEEN 20 AND 70", "EXISTS price")
    wants = {f"S{i}": texts[i % 3] for i in range(len(BROKERS))}
    homes = dict(zip(wants, BROKERS, strict=True)) | {"P": "B5", "Q": "B1"}
    tree = SmallTree(config, homes)
    for publisher in ("P", "Q"):
        tree.advertise(publisher, "EXISTS price")
    for client, text in wants.items():
        tree.subscribe(client, text)
    prices = range(0, 100, 7)
    for i, price in enumerate(prices):
        tree.later(0.004 * i, "P", "publish", {"price": price})
        tree.later(0.004 * i, "Q", "publish", {"price": price})
    tree.settle()
    for client, text in wants.items():
        wanted = [n for n, price in enumerate(prices, start=1) if parse_filter(text).matches({"price": price})]
        expected = sorted(f"{publisher}/0/{n}" for publisher in ("P", "Q") for n in wanted)
        assert sorted(tree.delivered(client)) == expected
    assert tree.delivered("P") == tree.delivered("Q") == []
