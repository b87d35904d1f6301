"""Any tree into any other (S1 Theorem 2), against a breadth-first search over all trees."""

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from pleach.core.overlay.plans import AddStep, Plan, RemoveStep, SwapStep, Topology, describe, remove_broker, transform
from pleach.core.overlay.plans.search import _gains, _ways, descend, least_swaps, regions
from pleach.core.overlay.plans.steps import apply
from support.overlay.labelled_trees import (
    all_trees,
    any_order,
    check_plan,
    names_of,
    pair,
    random_tree,
    replayed,
    swap_distances,
)
from support.thorough import FACTOR


def check_transformation(start, target, **options):
    plan = transform(start, target, **options)
    check_plan(plan)
    assert (plan.start, plan.result) == (start, target)
    swaps = [step for step in plan.steps if isinstance(step, SwapStep)]
    assert not {*target.links} & {pair(step.a, step.b) for step in swaps}, "a link that the target has was removed"
    return plan


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_every_pair_of_small_trees(size):
    """The quick search for all pairs; `width=None` on top of it in the tests below, and here when there is time."""
    trees = {links: Topology.of(links) for links in all_trees(names_of(size))}
    width = None if size < 5 or FACTOR > 1 else 1
    for start, tree in trees.items():
        for target, wanted in trees.items():
            brokers, links = frozenset(names_of(size)), start
            for step in transform(tree, wanted, width=width).steps:
                brokers, links = replayed(brokers, links, step)
                assert links in trees
            assert links == target


def shapes(names):
    """One tree of each shape (degrees tell shapes of up to five brokers apart) and how many trees have it."""
    found = {}
    for links in all_trees(names):
        degrees = Counter(broker for link in links for broker in link)
        found.setdefault(tuple(sorted(degrees.values())), []).append(links)
    return [(min(same, key=sorted), len(same)) for same in found.values()]


@pytest.mark.parametrize("size", [3, 4, 5])
def test_no_plan_for_small_trees_has_a_swap_too_many(size):
    names = names_of(size)
    for target, _ in shapes(names):
        for start, least in swap_distances(target).items():
            assert transform(Topology.of(start), Topology.of(target)).swaps == least


def test_few_plans_for_trees_of_six_have_a_swap_too_many():
    """docs/reference/plans.md has the figures for all pairs; this is a sample of them."""
    names = names_of(6)
    targets = Random(6).sample(all_trees(names), 2)
    excess = Counter()
    for target in targets:
        distances = swap_distances(target)
        starts = Random(1).sample(all_trees(names), min(100 * FACTOR, len(distances)))
        for start, least in ((start, distances[start]) for start in starts):
            excess[transform(Topology.of(start), Topology.of(target)).swaps - least] += 1
    assert set(excess) <= {0, 1}
    assert excess[1] <= 0.01 * excess.total()


def test_the_wider_search_is_never_worse_and_sometimes_better():
    saved = 0
    for seed in range(8 * FACTOR):
        random = Random(seed)
        start, target = (random_tree(random, names_of(16)) for _ in range(2))
        quick, wide = (check_transformation(start, target, width=width) for width in (1, 16))
        assert wide.swaps <= quick.swaps
        saved += quick.swaps - wide.swaps
    assert saved > 0


def test_random_trees_of_up_to_sixty_brokers():
    for seed in range(12 * FACTOR):
        random = Random(seed)
        names = names_of(random.randint(2, 60))
        start, target = (random_tree(random, names) for _ in range(2))
        missing = {*target.links} - {*start.links}
        plan = check_transformation(start, target, width=2)
        assert len(plan.steps) == plan.swaps
        assert plan.swaps >= (least_swaps(start, missing) if missing else 0)


def test_a_single_exchange_takes_the_least_number_of_swaps():
    for seed in range(30 * FACTOR):
        random = Random(seed)
        start = random_tree(random, names_of(25))
        u, v = random.choice(
            [(a, b) for a in start.brokers for b in start.brokers if a < b and not start.has_link(a, b)]
        )
        way = start.path(u, v)
        i = random.randrange(len(way) - 1)
        removed = tuple(sorted(way[i : i + 2]))
        target = Topology.of([*({*start.links} - {removed}), (u, v)])
        assert check_transformation(start, target).swaps == len(way) - 2


def test_where_no_swap_gains_anything_one_link_is_exchanged():
    """The smallest such pair of trees: two stars of three, joined, and a path that leads to and fro between them."""
    start = Topology.of([("a1", "b"), ("a2", "b"), ("b", "c"), ("c", "q1"), ("c", "q2")])
    target = Topology.of([("c", "a1"), ("a1", "a2"), ("a2", "q1"), ("q1", "q2"), ("q2", "b")])
    assert descend(start, target.links, frozenset(target.links))[0] == SwapStep("a1", "b", "a2")
    for width in (1, None):
        check_transformation(start, target, width=width)
    assert transform(start, target).swaps == swap_distances(frozenset(target.links))[frozenset(start.links)]


def test_links_far_apart_are_exchanged_at_the_same_time():
    """Four chains of four at a hub, each to be a star: regions of their own, whose swaps share no broker."""
    arms = [names_of(4, prefix) for prefix in "pqrs"]
    chains = [link for arm in arms for link in zip(["hub", *arm], arm, strict=False)]
    stars = [("hub", arm[0]) for arm in arms] + [(arm[0], other) for arm in arms for other in arm[1:]]
    start, target = Topology.of(chains), Topology.of(stars)
    assert [len(missing) for missing, _ in regions(start, frozenset(target.links))] == [2, 2, 2, 2]
    plan = check_transformation(start, target)
    assert plan.swaps == 8
    assert [len(wave) for wave in plan.waves] == [4, 4]
    assert describe(plan)[0] == "8 swaps, in 2 waves; the tree has 17 brokers then"


def test_equal_trees_need_no_plan():
    tree = random_tree(Random(1), names_of(9))
    assert transform(tree, tree).steps == ()
    assert describe(transform(tree, tree)) == ["nothing to do: the tree is as wanted"]


def test_the_same_input_gives_the_same_plan():
    start, target = (random_tree(Random(seed), names_of(14)) for seed in (1, 2))
    shuffled = Topology.of([(b, a) for a, b in reversed(start.links)])
    assert transform(start, target).steps == transform(shuffled, target).steps


# Brokers that are only in one of the trees -------------------------------------------------------------------------


def test_brokers_come_and_go():
    for seed in range(25 * FACTOR):
        random = Random(seed)
        names = names_of(random.randint(2, 24))
        before, after = (random.sample(names, random.randint(1, len(names))) for _ in range(2))
        plan = check_transformation(random_tree(random, before), random_tree(random, after), width=4)
        added = {step.broker for step in plan.steps if isinstance(step, AddStep)}
        removed = {step.broker for step in plan.steps if isinstance(step, RemoveStep)}
        assert (added, removed) == ({*after} - {*before}, {*before} - {*after})


def test_brokers_in_common_are_not_needed():
    start, target = random_tree(Random(1), names_of(5, "old")), random_tree(Random(2), names_of(6, "new"))
    check_transformation(start, target)
    check_transformation(Topology.of([], ["old"]), Topology.of([], ["new"]))


def test_a_new_broker_in_a_link_takes_one_swap():
    start = Topology.of([("a", "b"), ("b", "c"), ("c", "d")])
    target = Topology.of([("a", "b"), ("b", "x"), ("x", "c"), ("c", "d")])
    assert check_transformation(start, target).steps == (AddStep("x", "b"), SwapStep("c", "b", "x"))


def test_a_new_broker_starts_where_its_neighbours_are_nearest():
    start = Topology.of([("a", "b"), ("b", "c")])
    target = Topology.of([("x", "a"), ("x", "b"), ("x", "c")])
    assert check_transformation(start, target).steps[0] == AddStep("x", "b")


def test_an_inner_broker_that_goes_takes_as_many_swaps_as_remove_broker():
    start = Topology.of([("hub", "x"), ("hub", "y"), ("hub", "z")])
    target = Topology.of([("x", "y"), ("y", "z")])
    plan = check_transformation(start, target)
    assert plan.swaps == remove_broker(start, "hub").swaps == 2
    assert plan.steps[-1] == RemoveStep("hub")


def test_the_page_about_plans_shows_what_is_described():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "plans.md").read_text()
    made: dict[str, Plan] = {}
    exec(page.split("```python\n")[1].split("print(")[0], made)
    assert "\n".join(describe(made["plan"])) in page


# Orders ----------------------------------------------------------------------------------------------------------


def test_any_order_that_respects_the_dependencies_gives_the_same_tree():
    for seed in range(20 * FACTOR):
        random = Random(seed)
        names = names_of(20)
        start, target = (random_tree(random, random.sample(names, 16)) for _ in range(2))
        plan = transform(start, target, width=2)
        for _ in range(5):
            brokers, links = frozenset(start.brokers), frozenset(start.links)
            for step in any_order(plan, random):
                brokers, links = replayed(brokers, links, step)
            assert (brokers, links) == (frozenset(target.brokers), frozenset(target.links))


def test_dependencies_are_needed():
    """The check above can fail: a plan in reverse order does not fit."""
    start = Topology.of([("a", "b"), ("b", "c"), ("c", "d")])
    plan = Plan.of(start, [SwapStep("a", "b", "c"), SwapStep("a", "c", "d")])
    with pytest.raises(AssertionError):
        replayed(frozenset(start.brokers), frozenset(start.links), plan.steps[1])
    assert plan.dependencies == ((), (0,))


def test_a_gain_is_what_a_swap_gains():
    """The counts behind the search against distances measured before and after."""
    for seed in range(10 * FACTOR):
        random = Random(seed)
        start, target = (random_tree(random, names_of(12)) for _ in range(2))
        missing = sorted({*target.links} - {*start.links})
        before = sum(len(start.path(*link)) for link in missing)
        for swap, gain in _gains(_ways(start, missing), frozenset(target.links)).items():
            after = apply(start, SwapStep(*swap))
            assert before - sum(len(after.path(*link)) for link in missing) == gain
