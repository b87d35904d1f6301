"""Flows against single events: the same costs to the last digit, the same decisions, the same course of a run."""

from itertools import combinations
from random import Random

import numpy as np
import pytest

from pleach.core.optimise.cost import tree_cost
from pleach.core.optimise.settling import best_saving
from pleach.core.overlay.plans.topology import Topology
from pleach.lab.improve.caches import Caches
from pleach.lab.improve.contenders import costs_of, name_of
from pleach.lab.improve.decisions import Known, Ledgers, cost_and_interest, decided, heaviest_goes, is_promising
from pleach.lab.improve.rounds import STATIC, Improving, Tuning, first_tree, simulate
from pleach.lab.improve.setting import TICKS_PER_SLOT, Setting, events_of, stays_of
from pleach.lab.improve.traffic import traffic_of
from pleach.lab.improve.trees import Tree, flow_costs, waves
from pleach.lab.waxman import Waxman
from support.lab.single_events import EventByEvent, flow_of, published
from support.optimise.heuristics import HEURISTICS
from support.optimise.heuristics import decided as decided_one
from support.optimise.ledgers import gathered_along, stretches
from support.optimise.priced_networks import kept
from support.thorough import FACTOR

SMALL = Setting(
    brokers=14, jobs=8, subscribers=3, ticks=4_000, network=Waxman(domains=4, nodes_per_domain=10), load_min=0.3
)


def topology_of(tree):
    return Topology.of((name_of(a), name_of(b)) for a, b in tree.links)


def of_three(common, viewer, one, other):
    return common.of_two_and(viewer, common.pair(one, other))


def single_events(setting, seed, slot):
    return list(published(stays_of(setting, seed, traffic_of(setting, seed).eras), events_of(setting, seed), slot))


@pytest.mark.parametrize("seed", range(5))
def test_flows_cost_what_their_events_cost_one_by_one(seed):
    traffic, tree = traffic_of(SMALL, seed), first_tree(SMALL, Random(seed))
    costs, slots = traffic.eras[0], (3, 9, 15)
    for slot in slots:
        flows = traffic.between(slot, slot + 1)
        found = flow_costs(tree, flows, costs.costs) @ flows.events
        events = [flow_of(stay) for _, stay in single_events(SMALL, seed, slot)]
        assert found == pytest.approx(tree_cost(events, topology_of(tree), costs_of(costs)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [100, 400, 4608])
def test_what_caches_have_in_common_is_what_single_events_in_rings_of_that_size_have(seed, size):
    """Within a slot events do not come quite evenly: a few more or less."""
    traffic, now = traffic_of(SMALL, seed), 14
    common = Caches(traffic, traffic.remembered_since(size)).in_common(now, np.full(SMALL.brokers, now))
    caches = [[] for _ in range(SMALL.brokers)]
    for slot in range(now):
        for event, stay in single_events(SMALL, seed, slot):
            for broker in stay.members:
                caches[broker] = [*caches[broker], event][-size:]
    kept = [set(cache) for cache in caches]
    for i, j, k in combinations(range(SMALL.brokers), 3):
        assert common.pairs[i, j] == pytest.approx(len(kept[i] & kept[j]), abs=0.15 * size)
        assert of_three(common, i, j, k) == pytest.approx(len(kept[i] & kept[j] & kept[k]), abs=0.15 * size)
    if size == 4608:  # nothing is forgotten: nothing is estimated
        assert common.pairs[0, 1] == len(kept[0] & kept[1])


@pytest.mark.parametrize("size", [100, 4608])
def test_what_is_kept_from_step_to_step_makes_no_difference(size):
    """One that goes through a run has the same as one that looks for the first time."""
    traffic, draw = traffic_of(SMALL, 2), Random(size)
    since, told_at = traffic.remembered_since(size), np.full(SMALL.brokers, 3)
    caches = Caches(traffic, since)
    one, other = np.triu_indices(SMALL.brokers, 1)
    viewer = np.arange(SMALL.brokers)[:, None]
    for slot in range(4, SMALL.slots):
        for _ in range(2):
            told_at[draw.sample(range(SMALL.brokers), 4)] = slot
            known, anew = caches.in_common(slot, told_at), Caches(traffic, since).in_common(slot, told_at)
            assert np.array_equal(known.pairs, anew.pairs)
            assert np.array_equal(of_three(known, viewer, one, other), of_three(anew, viewer, one, other))


def test_broadcasts_reach_everyone_within_their_hops_in_order():
    tree, looks = first_tree(SMALL, Random(8)), {5: 2, 0: 4, 9: 1}
    found = waves(tree, looks)
    for number, (origin, hops) in enumerate(looks.items()):
        paths = [(origin,)]
        for wave in found[:hops]:
            paths = [(b, *path) for path in paths for b in sorted(tree.around[path[0]]) if b not in path[1:2]]
            assert [tuple(path) for path in wave.paths[wave.broadcast == number].tolist()] == paths
    for wave in found:
        assert wave.broadcast.tolist() == sorted(wave.broadcast.tolist())
    assert [sorted(set(wave.broadcast.tolist())) for wave in found] == [[0, 1, 2], [0, 1], [1], [1]]


def knowledge(traffic, size):
    """Some have told what they know just now, some a slot ago."""
    told_at = 15 - np.arange(SMALL.brokers) % 2
    return Caches(traffic, traffic.remembered_since(size)).in_common(15, told_at)


class KnownAsView:
    """What the flows know, as one broker's view."""

    def __init__(self, known):
        self._known = known

    def common(self, *brokers):
        where = tuple(int(b[1:]) for b in brokers)
        return float(self._known.common.pairs[where] if len(where) == 2 else of_three(self._known.common, *where))

    def processing(self, broker):
        return float(self._known.costs.processing[int(broker[1:])])

    def communication(self, a, b):
        return float(self._known.costs.communication[int(a[1:]), int(b[1:])])


def paths_of(tree, length):
    return waves(tree, dict.fromkeys(range(SMALL.brokers), 5))[length - 2].paths


@pytest.mark.parametrize("length", [3, 4, 6])
@pytest.mark.parametrize(
    ("name", "totals"),
    [
        ("ci", cost_and_interest),
        ("lmst", lambda paths, known: heaviest_goes(paths, known.costs.communication)),
        ("lmit", lambda paths, known: heaviest_goes(paths, -known.common.pairs)),
    ],
)
def test_many_paths_are_decided_as_one_by_one(length, name, totals):
    traffic = traffic_of(SMALL, 1)
    known = Known(traffic.eras[0].costs, knowledge(traffic, 300))
    paths = paths_of(first_tree(SMALL, Random(2)), length)
    place, gain = decided(totals(paths, known))
    view, heuristic = KnownAsView(known), HEURISTICS[name]
    agreed = 0
    for path, where, gained in zip(paths.tolist(), place, gain, strict=True):
        names = [name_of(b) for b in path]
        sums = np.sum([heuristic.removal_costs(me, names, view) for me in names], axis=0)
        exchange = decided_one(names, sums.tolist())
        assert gained == pytest.approx(sums[-1] - sums[:-1].min())
        if exchange is not None:
            agreed += 1
            assert sums[where] == pytest.approx(sums.min())
    assert agreed


@pytest.mark.parametrize("length", [3, 4])
def test_many_paths_promise_what_they_do_one_by_one(length):
    traffic = traffic_of(SMALL, 4)
    known = Known(traffic.eras[0].costs, knowledge(traffic, 300))
    paths = paths_of(first_tree(SMALL, Random(2)), length)
    one_by_one = [HEURISTICS["ci"].is_promising([name_of(b) for b in p], KnownAsView(known)) for p in paths.tolist()]
    assert is_promising(paths, known).tolist() == one_by_one
    assert 0 < sum(one_by_one) < len(one_by_one)


@pytest.mark.parametrize("length", [3, 4, 6])
def test_the_ledger_knows_what_every_exchange_saves(length):
    traffic, tree = traffic_of(SMALL, 6), first_tree(SMALL, Random(3))
    flows, costs = traffic.between(0, 15), traffic.eras[0].costs
    paths = paths_of(tree, length)[:40]
    before = flow_costs(tree, flows, costs) @ flows.events
    for path, place, gain, chance in zip(
        paths.tolist(), *Ledgers(tree.rooted, flows, costs).saving(paths), strict=True
    ):
        gains = []
        for removed in range(length - 1):
            after = Tree(SMALL.brokers, tree.links)
            after.exchange(tuple(path), removed)
            gains.append(before - flow_costs(after, flows, costs) @ flows.events)
        assert gain == pytest.approx(max(gains))
        assert gains[place] == pytest.approx(gain)
        assert chance > 0


def test_the_rule_of_the_core_and_that_of_the_lab_are_one():
    """Ledgers of single events, put together broker by broker, against all paths at once."""
    traffic, tree, seed = traffic_of(SMALL, 7), first_tree(SMALL, Random(5)), 7
    topology, costs = topology_of(tree), costs_of(traffic.eras[0])
    events = {event: flow_of(stay) for slot in range(4) for event, stay in single_events(SMALL, seed, slot)}
    ledgers = kept(topology, events)
    paths = paths_of(tree, 4)[:30]
    found = Ledgers(tree.rooted, traffic.between(0, 4), traffic.eras[0].costs).saving(paths)
    for path, gain, chance in zip(paths.tolist(), found.gain, found.chance, strict=True):
        names = [name_of(b) for b in path]
        touches = gathered_along(names, [ledgers[name] for name in names])
        saving = best_saving(names, stretches(touches), costs)
        assert saving.exchange.gain == pytest.approx(gain)
        assert saving.chance == pytest.approx(chance)


def test_a_static_tree_stays_and_costs_what_it_does():
    run = simulate(SMALL, 1, Tuning(STATIC))
    assert run.tree.links == first_tree(SMALL, Random("tree/1")).links
    assert sum(spent.exchanges for spent in run.slots) == 0


def both(seed, tuning):
    flows, events = Improving(SMALL, seed, tuning), EventByEvent(SMALL, seed, tuning)
    courses = [(flows.slot(slot), events.slot(slot)) for slot in range(SMALL.ticks // TICKS_PER_SLOT)]
    return flows.tree, events.tree, courses


@pytest.mark.parametrize("seed", range(2))
def test_lmst_takes_the_same_course_link_by_link(seed):
    """It depends on nothing that is estimated."""
    tree, other, courses = both(seed, Tuning("lmst"))
    assert tree.links == other.links
    for spent, (cost, exchanges) in courses:
        assert spent.exchanges == exchanges
        assert spent.forwarding == pytest.approx(cost)


@pytest.mark.parametrize("name", ["ci", "lmit"])
def test_estimates_lead_to_about_the_same_costs_and_as_many_exchanges(name):
    costs, exchanges = np.zeros(2), np.zeros(2)
    for seed in range(2 * FACTOR):
        _, _, courses = both(seed, Tuning(name, cache_size=200))
        costs += [sum(spent.forwarding for spent, _ in courses[8:]), sum(cost for _, (cost, _) in courses[8:])]
        exchanges += [sum(spent.exchanges for spent, _ in courses), sum(count for _, (_, count) in courses)]
    assert costs[0] == pytest.approx(costs[1], rel=0.1)
    assert exchanges[0] == pytest.approx(exchanges[1], rel=0.3)
