"""S1 §2.2.1 to §2.2.3 (the policies), statement by statement, on a tree of seven brokers (see `small_tree.py`).

Each test cites the section it holds us to. Where the text leaves something open, the docstring says what we chose.
"""

from __future__ import annotations

import pytest

from pleach.core.effects import Observed
from pleach.core.events.language import parse_filter
from pleach.core.messages import Install, Withdraw
from pleach.core.routing.router import RoutingConfig
from support.papers.small_tree import CONFIGS, NARROW, ROUTED, WIDE, SmallTree, config_id, from_, kinds, links


def ready(config: RoutingConfig, **clients: str) -> SmallTree:
    """A network in which `P`, if there is one, may publish what has a price."""
    tree = SmallTree(config, clients)
    if "P" in clients and config.advertisements:
        tree.advertise("P", "EXISTS price")
    return tree


# §2.2.1 System model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
class TestSubscribingIsIdempotent:
    """S1 (2.1), (2.2): S ← S ∪ {s} and S ← S \\ {s}; sets know no twice."""

    def test_subscribing_twice_has_no_effect(self, config):
        tree = ready(config, P="B5", S="B6")
        tree.subscribe("S", NARROW)
        tables = tree.tables()
        assert tree.subscribe("S", NARROW) == []
        assert tree.tables() == tables
        tree.publish("P", price=60)
        assert tree.delivered("S") == ["P/0/1"]

    def test_both_requests_are_confirmed(self, config):
        """Left open by S1; an application that asked must not wait for ever."""
        tree = ready(config, P="B5", S="B6")
        tree.subscribe("S", NARROW)
        tree.subscribe("S", NARROW)
        assert len(tree.seen("S", Observed.SUBSCRIBE_ACK)) == 2

    def test_one_unsubscription_ends_it(self, config):
        tree = ready(config, P="B5", S="B6")
        tree.subscribe("S", NARROW)
        tree.subscribe("S", NARROW)
        tree.unsubscribe("S", NARROW)
        tree.publish("P", price=60)
        assert tree.delivered("S") == []
        assert tree.tables() == {}

    def test_unsubscribing_what_is_not_subscribed_has_no_effect(self, config):
        tree = ready(config, P="B5", S="B6", T="B6")
        tree.subscribe("S", NARROW)
        tables = tree.tables()
        assert tree.unsubscribe("T", NARROW) == []
        assert tree.unsubscribe("S", WIDE) == []
        assert tree.tables() == tables
        assert len(tree.seen("T", Observed.UNSUBSCRIBE_ACK)) == 1
        tree.publish("P", price=60)
        assert tree.delivered("S") == ["P/0/1"]

    def test_advertising_is_analogous(self, config):
        """§2.2.1: "The semantics of the operations are analogous to those of the respective operations"."""
        tree = ready(config, P="B5", S="B6")
        tree.advertise("P", WIDE)
        assert tree.advertise("P", WIDE) == []
        tree.unadvertise("P", WIDE)
        assert tree.unadvertise("P", WIDE) == []


# §2.2.2 System architecture --------------------------------------------------------------------------------------


def test_routing_entries_point_towards_the_subscriber():
    """§2.2.2, Figure 2.2: entries are ⟨filter, destination⟩; all are remote but that at the subscriber's broker."""
    tree = SmallTree(RoutingConfig("simple"), {"S": "B5"})
    tree.subscribe("S", NARROW)
    assert tree.tables() == {there: {here: [NARROW]} for here, there in from_("B5")}
    assert "B5" not in tree.tables(), "the entry at B5 is local"


# §2.2.3 Flooding and simple routing ------------------------------------------------------------------------------


def test_flooding_sends_every_event_to_all_brokers():
    """§2.2.3: "every notification is sent to all brokers"; they match against their local subscriptions."""
    tree = SmallTree(RoutingConfig("flooding"), {"P": "B5", "S": "B6", "T": "B7"})
    assert tree.subscribe("S", NARROW) == []
    assert tree.subscribe("T", "price < 10") == []
    hops = tree.publish("P", price=60)
    assert links(hops, "Forward") == from_("B5")
    assert kinds(hops) == {"Forward"}
    assert tree.delivered("S") == ["P/0/1"]
    assert tree.delivered("T") == []


def test_simple_routing_floods_subscriptions():
    """§2.2.3: "subscriptions are flooded in the broker network" …"""
    tree = SmallTree(RoutingConfig("simple"), {"S": "B6"})
    assert links(tree.subscribe("S", NARROW), "Install") == from_("B6")
    assert links(tree.unsubscribe("S", NARROW), "Withdraw") == from_("B6")


@pytest.mark.parametrize("second", [NARROW, WIDE, "price > 70"])
def test_simple_routing_treats_each_subscription_in_isolation(second):
    """… "each subscription is treated in isolation from other subscriptions": equal, wider and narrower alike."""
    tree = SmallTree(RoutingConfig("simple"), {"S": "B6", "T": "B6"})
    tree.subscribe("S", NARROW)
    hops = tree.subscribe("T", second)
    assert links(hops, "Install") == from_("B6")
    assert not links(hops, "Withdraw")
    assert all(len(filters) == 2 for table in tree.tables().values() for filters in table.values())


@pytest.mark.parametrize("policy", ROUTED)
def test_events_go_only_where_someone_wants_them(policy):
    """§2.2.3: against flooding, "suboptimal … when there is a significant number of brokers not having a local
    client that is interested"."""
    tree = SmallTree(RoutingConfig(policy), {"P": "B5", "S": "B6"})
    tree.subscribe("S", NARROW)
    assert links(tree.publish("P", price=60), "Forward") == [("B1", "B3"), ("B2", "B1"), ("B3", "B6"), ("B5", "B2")]
    assert tree.publish("P", price=40) == []


# §2.2.3 Identity-based routing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["identity", "covering", "merging"])
def test_an_identical_subscription_is_not_forwarded(policy):
    """§2.2.3: not forwarded "if an identical subscription has already been sent there … which is still active"."""
    tree = SmallTree(RoutingConfig(policy), {"S": "B6", "T": "B6"})
    tree.subscribe("S", "price > 10 AND price <= 20")
    assert tree.subscribe("T", "NOT (price <= 10 OR price > 20)") == []
    assert tree.unsubscribe("S", "price > 10 AND price <= 20") == [], "T's is still active"
    assert links(tree.unsubscribe("T", "NOT (price <= 10 OR price > 20)"), "Withdraw") == from_("B6")
    assert tree.tables() == {}


@pytest.mark.parametrize("policy", ["identity", "covering", "merging"])
def test_an_identical_subscription_from_elsewhere_goes_only_where_none_was_sent(policy):
    """S at B6 and T at B7 meet at B3: beyond B3 one is enough, and each end learns of the other."""
    tree = SmallTree(RoutingConfig(policy), {"S": "B6", "T": "B7"})
    tree.subscribe("S", NARROW)
    assert links(tree.subscribe("T", NARROW), "Install") == [("B3", "B6"), ("B7", "B3")]
    assert links(tree.unsubscribe("S", NARROW), "Withdraw") == [("B3", "B7"), ("B6", "B3")]


def test_identity_based_routing_does_not_look_at_covers():
    tree = SmallTree(RoutingConfig("identity"), {"S": "B6", "T": "B6"})
    tree.subscribe("S", WIDE)
    assert links(tree.subscribe("T", NARROW), "Install") == from_("B6")


# §2.2.3 Covering-based routing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["covering", "merging"])
def test_a_covered_subscription_is_not_forwarded(policy):
    """§2.2.3: s "does not need to be forwarded to a neighbor broker if a covering subscription has been sent there"."""
    tree = SmallTree(RoutingConfig(policy), {"S": "B6", "T": "B6", "P": "B5"})
    tree.subscribe("S", WIDE)
    assert tree.subscribe("T", NARROW) == []
    tree.publish("P", price=60)
    assert tree.delivered("S") == tree.delivered("T") == ["P/0/1"]


@pytest.mark.parametrize("policy", ["covering", "merging"])
def test_a_wider_subscription_takes_the_place_of_the_narrow_one(policy):
    """The tables hold what is needed and no more: the wide one goes out, the covered one is taken back after it."""
    tree = SmallTree(RoutingConfig(policy), {"S": "B6", "T": "B6"})
    tree.subscribe("S", NARROW)
    hops = tree.subscribe("T", WIDE)
    assert links(hops, "Install") == links(hops, "Withdraw") == from_("B6")
    for link in from_("B6"):
        assert [h.kind for h in hops if (h.sender, h.receiver) == link] == ["Install", "Withdraw"]
    assert tree.tables() == {there: {here: [WIDE]} for here, there in from_("B6")}


def test_what_only_overlaps_is_not_covered():
    tree = SmallTree(RoutingConfig("covering"), {"S": "B6", "T": "B6"})
    tree.subscribe("S", "price < 60")
    assert links(tree.subscribe("T", NARROW), "Install") == from_("B6")


@pytest.mark.parametrize("policy", ROUTED)
def test_a_withdrawn_wide_subscription_uncovers_what_it_hid(policy):
    """Decision 2: withdrawing a wide filter must re-export what it hid; first that, then the withdrawal."""
    tree = SmallTree(RoutingConfig(policy), {"S": "B6", "T": "B6", "P": "B5"})
    tree.subscribe("S", WIDE)
    tree.subscribe("T", NARROW)
    hops = tree.unsubscribe("S", WIDE)
    assert tree.tables() == {there: {here: [NARROW]} for here, there in from_("B6")}
    for here, there in from_("B6"):
        sent = [hop.message for hop in hops if (hop.sender, hop.receiver) == (here, there)]
        withdrawn = [i for i, message in enumerate(sent) if isinstance(message, Withdraw)]
        installed = [i for i, message in enumerate(sent) if isinstance(message, Install)]
        assert len(withdrawn) == 1
        assert all(i < withdrawn[0] for i in installed), "there is a moment at which too little is known"
        assert sent[withdrawn[0]].filter == parse_filter(WIDE)
    tree.publish("P", price=60)
    assert tree.delivered("T") == ["P/0/1"]


@pytest.mark.parametrize("config", CONFIGS, ids=config_id)
def test_nothing_is_lost_while_a_wide_subscription_goes_and_comes(config):
    """S1 Definition 5 (2): S stays subscribed all the time, and misses no event, whenever published."""
    tree = ready(config, P="B5", S="B6", T="B6", U="B7")
    tree.subscribe("S", NARROW)
    for round_ in range(3):
        for i, client in enumerate(("T", "U")):
            tree.later(0.2 * round_ + 0.05 * i, client, "subscribe", WIDE, parse_filter(WIDE))
            tree.later(0.2 * round_ + 0.05 * i + 0.1, client, "unsubscribe", WIDE)
    for i in range(250):
        tree.later(0.003 * i, "P", "publish", {"price": 60})
    tree.settle()
    assert tree.delivered("S") == [f"P/0/{i}" for i in range(1, 251)]
    assert 0 < len(tree.delivered("T")) < 250


# §2.2.3 Merging-based routing -----------------------------------------------------------------------------------


def test_perfect_merging_sends_the_union():
    """§2.2.3: the new filter "perfectly matches the set of notifications covered by the constituent filters"."""
    tree = SmallTree(RoutingConfig("merging"), {"S": "B6", "T": "B6", "P": "B5"})
    tree.subscribe("S", "price BETWEEN 0 AND 10")
    tree.subscribe("T", "price BETWEEN 10 AND 20")
    assert tree.table("B1") == {"B3": ["price BETWEEN 0 AND 20"]}
    assert tree.publish("P", price=21) == []
    for price in (5, 10, 15):
        tree.publish("P", price=price)
    assert tree.delivered("S") == ["P/0/2", "P/0/3"]
    assert tree.delivered("T") == ["P/0/3", "P/0/4"]


def test_a_merger_serves_like_a_covering_subscription():
    """§2.2.3: it "can accordingly be used to perform subscription forwarding optimizations similar to covering"."""
    tree = SmallTree(RoutingConfig("merging"), {"S": "B6", "T": "B6", "U": "B6"})
    tree.subscribe("S", "price BETWEEN 0 AND 10")
    tree.subscribe("T", "price BETWEEN 10 AND 20")
    assert tree.subscribe("U", "price BETWEEN 8 AND 12") == [], "neither part covers it, the merger does"


def test_a_merger_comes_apart_when_a_part_is_withdrawn():
    tree = SmallTree(RoutingConfig("merging"), {"S": "B6", "T": "B6", "P": "B5"})
    tree.subscribe("S", "price BETWEEN 0 AND 10")
    tree.subscribe("T", "price BETWEEN 10 AND 20")
    tree.unsubscribe("S", "price BETWEEN 0 AND 10")
    assert tree.table("B5") == {"B2": ["price BETWEEN 10 AND 20"]}
    assert tree.publish("P", price=5) == []


def test_imperfect_merging_carries_more_and_delivers_no_more():
    """§2.2.3: "or it covers a superset of those notifications (imperfect merging)"; Definition 5 (1c) still holds."""
    tree = SmallTree(RoutingConfig("merging", merge_bound=0.3), {"S": "B6", "T": "B6", "P": "B5"})
    tree.subscribe("S", "price BETWEEN 0 AND 10")
    tree.subscribe("T", "price BETWEEN 12 AND 22")
    assert tree.table("B5") == {"B2": ["price BETWEEN 0 AND 22"]}
    assert len(links(tree.publish("P", price=11), "Forward")) == 4, "nobody asked for 11, but it travels"
    assert tree.delivered("S") == tree.delivered("T") == []


def test_imperfect_merging_keeps_its_bound():
    """The gap is most of what the merger would match: the two stay apart."""
    tree = SmallTree(RoutingConfig("merging", merge_bound=0.3), {"S": "B6", "T": "B6", "P": "B5"})
    tree.subscribe("S", "price BETWEEN 0 AND 1")
    tree.subscribe("T", "price BETWEEN 21 AND 22")
    assert tree.publish("P", price=11) == []


def test_merging_never_needs_more_entries_than_covering():
    """Not in S1: a merger that was made early is covered by no single filter later, though each of its parts is.

    B6 merges a and b; B7's two filters cover one of them each, but not the merger, and do not merge with each other.
    They cover it together.
    """
    parts = ("x BETWEEN 1 AND 2 AND y = 1", "x BETWEEN 2 AND 3 AND y = 1")
    covers = ("x BETWEEN 1 AND 2 AND y IN (1, 2)", "x BETWEEN 2 AND 3 AND y IN (1, 3)")
    held = {}
    for policy in ("covering", "merging"):
        tree = SmallTree(RoutingConfig(policy), {"S": "B6", "T": "B7"})
        for client, texts in (("S", parts), ("T", covers)):
            for text in texts:
                tree.subscribe(client, text)
        held[policy] = len(tree.table("B1")["B3"])
    assert held == {"covering": 2, "merging": 2}
