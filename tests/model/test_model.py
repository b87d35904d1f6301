"""The closed forms against the check values and against the recursion; the recursion against brute force."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.errors import InvalidInputError
from pleach.model import complete, recursion
from pleach.model.complete import CompleteTree, Demand, Publishers, as_network
from pleach.model.costs import break_even
from pleach.model.network import FilterClass, Network, Rates

TREE = CompleteTree(3, 5)


def demand(subscriptions, *, publications=1000.0, lifetime=600.0, refresh=60.0):
    return Demand(subscriptions, 1000, lifetime, refresh, publications)


# Check values of the thesis, as computed from its closed forms -----------------------------------------------


def test_the_tree_of_the_thesis():
    assert (TREE.brokers, TREE.leaves, TREE.links) == (121, 81, 120)


@pytest.mark.parametrize(("lifetime", "most"), [(600.0, 99.33), (60.0, 993.3)])
def test_most_toggles_are_at_one_subscription_per_leaf_and_class(lifetime, most):
    assert complete.toggles(TREE, demand(81_000, lifetime=lifetime)) == pytest.approx(most, rel=1e-4)
    for elsewhere in (80_000, 82_000):
        assert complete.toggles(TREE, demand(elsewhere, lifetime=lifetime)) < most


@pytest.mark.parametrize(("lifetime", "most"), [(600.0, 117.35), (60.0, 1173.5)])
def test_most_toggle_messages(lifetime, most):
    def messages(subscriptions):
        return complete.costs(TREE, demand(subscriptions, lifetime=lifetime)).toggles

    assert messages(57_390) == pytest.approx(most, rel=1e-4)
    best = max(range(50_000, 65_000, 10), key=messages)
    assert best == pytest.approx(57_390, abs=20)


@pytest.mark.parametrize(("refresh", "limit"), [(60.0, 2_000), (600.0, 200)])
def test_leases_tend_to_a_limit(refresh, limit):
    """S1 swaps the two periods in its text around (3.26)."""
    assert complete.costs(TREE, demand(5_000_000, refresh=refresh)).leases == pytest.approx(limit, rel=1e-9)


@pytest.mark.parametrize(
    ("publications", "lifetime", "refresh", "published"),
    [
        (1000, 600, 60, 299_172),
        (1000, 600, 600, 483_799),
        (1000, 60, 60, 289_926),
        (1000, 60, 600, 467_912),
        (100, 600, 60, 122_460),
        (100, 600, 600, 289_926),
        (100, 60, 60, 92_475),
        (100, 60, 600, 184_450),
    ],
)
def test_break_even_with_publishers_at_leaves(publications, lifetime, refresh, published):
    found = break_even(
        lambda n: (
            complete.costs(
                TREE, demand(n, publications=publications, lifetime=lifetime, refresh=refresh), Publishers.LEAVES
            ).saved
        )
    )
    assert found == pytest.approx(published, abs=1)


# The two forms agree -----------------------------------------------------------------------------------------


@given(
    st.integers(1, 4),
    st.integers(1, 5),
    st.floats(0, 1e6),
    st.integers(1, 2000),
    st.floats(1, 1e4),
    st.floats(1, 1e4),
    st.floats(0, 1e4),
    st.sampled_from(Publishers),
)
def test_the_recursion_equals_the_closed_forms_on_complete_trees(
    m, k, subscriptions, z, lifetime, refresh, omega, where
):
    tree, load = CompleteTree(m, k), Demand(subscriptions, z, lifetime, refresh, omega)
    closed, walked = complete.costs(tree, load, where), recursion.costs(as_network(tree, load, where))
    for one, other in zip(closed, walked, strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9 * max(1.0, *closed))


# The recursion against all states of a small network ---------------------------------------------------------

rates = st.builds(Rates, st.floats(0, 2), st.floats(0.1, 2), st.floats(0, 3))


@st.composite
def networks(draw):
    names = [f"b{i}" for i in range(draw(st.integers(1, 5)))]
    children = {}
    for place, name in enumerate(names[1:], start=1):
        children.setdefault(names[draw(st.integers(0, place - 1))], []).append(name)
    somewhere = st.dictionaries(st.sampled_from(names), rates)
    classes = draw(st.lists(st.builds(FilterClass, somewhere), min_size=1, max_size=2))
    return Network(names[0], children, classes, draw(st.floats(0.5, 5)))


def brute_force(network, *, hierarchical):
    """Every broker wants each class or not: all combinations, weighed; every link looked at."""
    brokers = list(network.top_down())
    parent = {child: above for above, below in network.children.items() for child in below}

    def under(broker):
        return {broker}.union(*(under(child) for child in network.children.get(broker, ())))

    entries = notifications = toggles = 0.0
    for each in network.classes:
        rate = {broker: each.at.get(broker, Rates()) for broker in brokers}
        for state in itertools.product([False, True], repeat=len(brokers)):
            wanting = {broker for broker, wants in zip(brokers, state, strict=True) if wants}
            weight = math.prod(
                1 - math.exp(-rate[b].subscriptions) if b in wanting else math.exp(-rate[b].subscriptions)
                for b in brokers
            )
            for child in parent:
                sides = [under(child)] if hierarchical else [under(child), set(brokers) - under(child)]
                for side in sides:
                    told = bool(side & wanting)
                    entries += weight * told
                    toggles += 0 if told else weight * 2 * sum(rate[b].arrivals for b in side)
                    for publisher in brokers:
                        crosses_up = hierarchical and publisher in side
                        comes = told if hierarchical or publisher not in side else False
                        notifications += (
                            weight * rate[publisher].publications * (1 if crosses_up and not told else comes)
                        )
    return entries, notifications, toggles


@given(networks(), st.booleans())
def test_the_recursion_equals_brute_force(network, hierarchical):
    found = recursion.costs(network, hierarchical=hierarchical)
    entries, notifications, toggles = brute_force(network, hierarchical=hierarchical)
    assert found.entries == pytest.approx(entries, abs=1e-9)
    assert found.notifications == pytest.approx(notifications, abs=1e-9)
    assert found.toggles == pytest.approx(toggles, abs=1e-9)
    assert found.leases == pytest.approx(entries / network.refresh, abs=1e-9)


# Covering ----------------------------------------------------------------------------------------------------


@given(networks(), st.booleans())
def test_a_probability_of_cover_that_is_almost_nothing_changes_almost_nothing(network, hierarchical):
    identity = recursion.costs(network, hierarchical=hierarchical)
    covering = recursion.costs(network, hierarchical=hierarchical, cover=1e-12)
    for one, other in zip(identity, covering, strict=True):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)


@given(networks(), st.booleans(), st.floats(0, 0.9))
def test_covering_never_needs_more_entries_and_wants_no_fewer_events(network, hierarchical, cover):
    identity = recursion.costs(network, hierarchical=hierarchical)
    covering = recursion.costs(network, hierarchical=hierarchical, cover=cover)
    assert covering.entries <= identity.entries + 1e-9
    assert covering.notifications >= identity.notifications - 1e-9


def test_two_classes_that_may_cover_each_other_by_hand():
    """One link, one leaf that wants two classes with n = ln 2 each, so that nobody wants either with p = 1/2."""
    here = {"leaf": Rates(math.log(2), 1.0)}
    network = Network("root", {"root": ["leaf"]}, [FilterClass(here, count=2)], refresh=1.0)
    found = recursion.costs(network, cover=0.4)
    uncovered = 0.6 + 0.4 * 0.5
    assert found.entries == pytest.approx(2 * 0.5 * uncovered)
    changes = math.log(2) * 0.5 * uncovered + 0.5 * 0.4 * math.log(2) * 0.5
    assert found.toggles == pytest.approx(2 * 2 * changes)


# Bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: CompleteTree(0, 3),
        lambda: CompleteTree(10, 100),
        lambda: Demand(-1, 1, 1, 1, 1),
        lambda: Demand(1, 0, 1, 1, 1),
        lambda: Demand(1, 1, 0, 1, 1),
        lambda: Network("a", {"a": ["b"], "b": ["a"]}, [], 1.0),
        lambda: Network("a", {"a": ["b", "c"], "c": ["b"]}, [], 1.0),
        lambda: Network("a", {}, [FilterClass({"z": Rates()})], 1.0),
        lambda: Network("a", {}, [FilterClass({"a": Rates(1, 0)})], 1.0),
        lambda: Network("a", {}, [], 0.0),
        lambda: recursion.costs(Network("a", {}, [], 1.0), cover=1.0),
    ],
)
def test_what_makes_no_sense_is_refused(make):
    with pytest.raises(InvalidInputError):
        make()
