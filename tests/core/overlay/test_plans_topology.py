"""Trees as values, and the three steps on them (S0 §IV; §V, property 1)."""

from itertools import combinations, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.overlay.plans import AddStep, Plan, RemoveStep, SwapStep, Topology
from pleach.core.overlay.plans.plan import STEPS_MAX
from pleach.core.overlay.plans.steps import apply, touched
from pleach.core.overlay.plans.topology import NAMES_SHOWN_MAX
from pleach.errors import CutOffError, CycleError, InvalidInputError, PlanError, StepError, TopologyError
from support.overlay.labelled_trees import all_trees, is_tree, names_of, pair, random_tree, replayed, swaps_from
from support.thorough import FACTOR

CHAIN = Topology.of([("a", "b"), ("b", "c"), ("c", "d")])


def test_a_tree_knows_its_links_neighbours_and_ways():
    assert CHAIN.brokers == ("a", "b", "c", "d")
    assert CHAIN.links == (("a", "b"), ("b", "c"), ("c", "d"))
    assert CHAIN.neighbours("b") == ("a", "c")
    assert CHAIN.path("d", "a") == ("d", "c", "b", "a")
    assert CHAIN.path("b", "b") == ("b",)
    assert CHAIN.has_link("c", "b")
    assert not CHAIN.has_link("a", "c")
    assert not CHAIN.has_link("x", "a")
    assert (CHAIN.is_leaf("a"), CHAIN.is_leaf("b"), len(CHAIN), "x" in CHAIN) == (True, False, 4, False)
    assert repr(CHAIN) == "Topology(a–b, b–c, c–d)"


def test_equal_trees_are_equal_values_however_they_came_about():
    other = Topology.of([("d", "c"), ("b", "a"), ("c", "b")])
    there_and_back = apply(apply(CHAIN, SwapStep("a", "b", "c")), SwapStep("a", "c", "b"))
    assert {CHAIN, other, there_and_back} == {CHAIN}
    assert Topology.of([("a", "b")]) != Topology.of([("a", "c")])


def test_a_tree_of_one_broker():
    alone = Topology.of([], ["a"])
    assert (alone.links, alone.brokers, alone.neighbours("a"), alone.path("a", "a")) == ((), ("a",), (), ("a",))
    assert repr(alone) == "Topology(a)"


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=8))
def test_what_is_not_a_tree_is_refused(links):
    distinct = [link for link in links if link[0] != link[1]]
    brokers = sorted({broker for link in links for broker in link})
    good = bool(brokers) and len(distinct) == len(links) and is_tree(brokers, links)
    if good:
        assert set(Topology.of(links).links) == {pair(*link) for link in links}
    else:
        with pytest.raises(TopologyError):
            Topology.of(links)


def test_a_cycle_is_named_and_one():
    for seed in range(50 * FACTOR):
        random = Random(seed)
        tree = random_tree(random, names_of(random.randint(3, 20)))
        u, v = random.choice([(a, b) for a in tree.brokers for b in tree.brokers if a < b and not tree.has_link(a, b)])
        with pytest.raises(CycleError) as caught:
            Topology.of([*tree.links, (u, v)])
        cycle = caught.value.cycle
        assert set(cycle) == set(tree.path(u, v))
        assert all(tree.has_link(a, b) or {a, b} == {u, v} for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
        assert cycle[0] in str(caught.value)


def test_of_many_cycles_always_the_same_is_named():
    """Neighbours are sets, whose order differs from process to process; what is said does not."""
    everybody = combinations(names_of(10), 2)
    with pytest.raises(CycleError, match="links close a cycle: b1–b0–b2–b1; leave one of these links out"):
        Topology.of(everybody)


def test_a_part_that_is_cut_off_is_named():
    with pytest.raises(CutOffError, match=r"no link joins \{x, y\} to the rest of the tree; add one, for example x–a"):
        Topology.of([*CHAIN.links, ("x", "y")])
    with pytest.raises(CutOffError) as caught:
        Topology.of([("a", "b")], ["z"])
    assert caught.value.part == ("z",)


@pytest.mark.parametrize(
    ("links", "brokers", "reason"),
    [
        ([], [], "at least one broker"),
        ([("a", "a")], [], "joins a broker to itself"),
        ([("a", "b"), ("b", "a")], [], "there twice"),
        ([("a", "")], [], "is no name of a broker; 1 to 255 bytes"),
        ([("a", "b\n")], [], "is no name"),
        ([("a", "\ud800")], [], "is no name"),
        ([("a", "x" * 256)], [], "is no name"),
        ([("hub", f"b{i}") for i in range(10_000)], [], "10,001 brokers; a tree has at most 10,000"),
    ],
)
def test_refusals_say_what_would_be_right(links, brokers, reason):
    with pytest.raises(TopologyError, match=reason):
        Topology.of(links, brokers)


def test_unknown_brokers_are_refused_with_the_one_probably_meant():
    tree = Topology.of([("paris", "london")])
    with pytest.raises(TopologyError, match="'pariss' is not a broker of this tree; did you mean 'paris'"):
        tree.path("london", "pariss")
    with pytest.raises(TopologyError, match="'zz' is not a broker of this tree; there are london, paris"):
        tree.neighbours("zz")


@pytest.mark.parametrize("more", [0, 1])
def test_of_many_brokers_some_are_named_and_it_is_said_whether_there_are_more(more):
    names = [f"{n:03}" for n in range(NAMES_SHOWN_MAX + more)]
    with pytest.raises(TopologyError) as refused:
        Topology.of(pairwise(names)).neighbours("zz")
    shown = ", ".join(names[:NAMES_SHOWN_MAX])
    assert str(refused.value).endswith(f"there are {shown}{', …' if more else ''}")


# Steps -----------------------------------------------------------------------------------------------------------


def every_step(names):
    yield from (SwapStep(a, b, c) for a in names for b in names for c in names)
    yield from (AddStep(broker, to) for broker in names for to in names)
    yield from (RemoveStep(broker) for broker in names)


def fits(brokers, links, step):
    try:
        replayed(brokers, links, step)
    except (AssertionError, ValueError):
        return False
    return True


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_step_on_every_small_tree_is_carried_out_or_refused_as_defined(size):
    """Names one more than brokers, so that each step meets a broker that is not there."""
    names = names_of(size + 1)
    for links in all_trees(names[:-1]):
        brokers, tree = frozenset(names[:-1]), Topology.of(links)
        for step in every_step(names):
            if fits(brokers, links, step):
                expected = replayed(brokers, links, step)
                assert (frozenset(apply(tree, step).brokers), frozenset(apply(tree, step).links)) == expected
                assert Topology.of(expected[1], expected[0]) == apply(tree, step)
            else:
                with pytest.raises(StepError):
                    apply(tree, step)


def test_a_refused_step_says_why():
    with pytest.raises(StepError, match=r"^swap a, b, d: there is no link b–d; neighbours of b: a, c$"):
        apply(CHAIN, SwapStep("a", "b", "d"))
    with pytest.raises(StepError, match="name three brokers in a row"):
        apply(CHAIN, SwapStep("a", "b", "a"))
    with pytest.raises(StepError, match=r"b is not a leaf \(neighbours of b: a, c\); swap links away"):
        apply(CHAIN, RemoveStep("b"))
    with pytest.raises(StepError, match="the last broker stays"):
        apply(Topology.of([], ["a"]), RemoveStep("a"))
    with pytest.raises(StepError, match="is no name of a broker"):
        apply(CHAIN, AddStep("x\ty", "a"))
    with pytest.raises(InvalidInputError, match=r"step 2 \(add x at b\): x is in the tree already"):
        Plan.of(CHAIN, [AddStep("x", "a"), AddStep("x", "b")])


def test_who_takes_part():
    assert touched(CHAIN, SwapStep("a", "b", "c")) == ("a", "b", "c")
    assert touched(CHAIN, AddStep("x", "d")) == ("x", "d")
    assert touched(CHAIN, RemoveStep("d")) == ("d", "c")


# Plans -----------------------------------------------------------------------------------------------------------


def test_steps_that_share_a_broker_wait_for_each_other_and_no_others_do():
    tree = Topology.of([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")])
    plan = Plan.of(tree, [SwapStep("a", "b", "c"), SwapStep("f", "e", "d"), AddStep("x", "a"), SwapStep("c", "d", "f")])
    assert plan.dependencies == ((), (), (0,), (0, 1))
    assert plan.waves == ((0, 1), (2, 3))
    assert plan.swaps == 3


def test_a_plan_explains_for_which_tree_it_is():
    plan = Plan.of(CHAIN, [SwapStep("a", "b", "c")])
    assert plan.fits(Topology.of(CHAIN.links[::-1]))
    assert str(plan.difference(CHAIN)) == "no difference"
    other = Topology.of([("a", "b"), ("b", "d"), ("d", "x")])
    assert not plan.fits(other)
    expected = (
        "planned and not there: broker c, link b–c, link c–d; there and not planned: broker x, link b–d, link d–x"
    )
    assert str(plan.difference(other)) == expected
    many = Topology.of([("hub", name) for name in names_of(9)])
    assert "link b4–hub, 4 more" in str(plan.difference(many))


def test_a_plan_has_a_bounded_number_of_steps():
    with pytest.raises(PlanError, match="10,001 steps; a plan has at most 10,000"):
        Plan.of(CHAIN, [SwapStep("a", "b", "c")] * (STEPS_MAX + 1))


def test_random_walks_stay_trees():
    for seed in range(20 * FACTOR):
        random = Random(seed)
        tree = random_tree(random, names_of(30))
        for _ in range(50):
            tree = apply(tree, SwapStep(*random.choice(swaps_from(tree.links))))
            assert is_tree(tree.brokers, tree.links)
            assert Topology.of(tree.links) == tree
