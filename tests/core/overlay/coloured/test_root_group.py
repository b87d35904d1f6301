"""Roots that fail, and links: the next of the root group takes over, and steps back (S1 §4.5.3, Root Broker)."""

from __future__ import annotations

import pytest

from pleach.core.messages import ColourStage, JoinTree
from pleach.core.overlay.coloured.bounds import stabilisation
from pleach.core.overlay.coloured.keeper import ColouredPhase
from pleach.scenario.coloured_settings import colouring_of
from pleach.scenario.steps import Crash, Cut, Heal, Restart
from pleach.sim.run import ScenarioRun
from support.overlay.coloured.coloured_networks import SETTINGS, flaws_of_tree, judge_failing, network
from support.overlay.coloured.small_networks import client, directed, noted
from support.thorough import FACTOR

SEEDS = 2 * FACTOR


def root_gone(scenario, at, _every):
    return [Crash(at=at, broker=scenario.root, for_good=True)]


def two_gone(scenario, at, every):
    _, second, _ = scenario.stabilise.group
    return [*root_gone(scenario, at, every), Crash(at=at + every, broker=second, for_good=True)]


def root_comes_back(scenario, at, every):
    return [Crash(at=at, broker=scenario.root), Restart(at=at + every, broker=scenario.root)]


def root_is_soon_back(scenario, at, _every):
    return [Crash(at=at, broker=scenario.root), Restart(at=at + 0.5 * scenario.stabilise.period, broker=scenario.root)]


def link_cut(scenario, at, every):
    """Not between two of the group: they have no other way to hear of each other."""
    group = frozenset(scenario.stabilise.group)
    link = next(link for link in scenario.links if not group.issuperset(link))
    return [Cut(at=at, link=link), Heal(at=at + every, link=link)]


def seeds(count):
    """Of networks with more brokers than the group has."""
    found = [seed for seed in range(100 + 20 * count) if len(network(seed, SETTINGS[0]).brokers) > 3]
    return found[:count]


@pytest.mark.parametrize("fault", [root_gone, two_gone, root_comes_back, root_is_soon_back, link_cut])
@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_within_the_bound_there_is_one_root_and_one_tree(fault, seed):
    judgement = judge_failing(seed, SETTINGS[seed % len(SETTINGS)], fault)
    assert not judgement.flaws
    assert judgement.deliveries


LINKS = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "e")]
GROUP = 'group = ["a", "b", "c"]\nheight = 4'


def network_of_five(*steps, duration=30.0):
    clients = client("s", "d", more="subscribe = ['x = 1']")
    return ScenarioRun(directed(LINKS, clients=clients, stabilise=GROUP, steps=steps, duration=duration), 1)


CRASH_A = 'at = 4.5\ndo = "crash"\nbroker = "a"\nfor_good = true'


def test_the_first_that_lives_takes_over():
    run = network_of_five(CRASH_A)
    run.advance(4.5 + stabilisation(colouring_of(run.scenario)))
    assert run.brokers["b"].phase is ColouredPhase.ROOT
    assert not flaws_of_tree(run)
    assert [node for _, node in noted(run, "coloured: root")] == ["b"]


def test_nobody_beside_the_group_becomes_root():
    run = network_of_five(*(CRASH_A.replace('"a"', f'"{name}"') for name in "abc"))
    run.finish()
    assert {run.brokers[name].phase for name in "de"} <= {ColouredPhase.SEEKING, ColouredPhase.MEMBER}
    assert not noted(run, "coloured: root")


def test_a_root_gives_way_to_one_before_it():
    run = network_of_five(CRASH_A.replace("\nfor_good = true", ""), 'at = 14.0\ndo = "restart"\nbroker = "a"')
    run.advance(13.9)
    assert run.brokers["b"].phase is ColouredPhase.ROOT
    run.advance(14.0 + stabilisation(colouring_of(run.scenario)))
    assert run.brokers["a"].phase is ColouredPhase.ROOT
    assert run.brokers["b"].phase is ColouredPhase.MEMBER
    assert not flaws_of_tree(run)


def test_one_before_it_in_its_own_tree_takes_over_at_once():
    """Whoever is root asks those before it in the group; one of them may have joined its tree meanwhile."""
    run = network_of_five()
    run.advance(4.5)
    b = run.brokers["b"]
    b._keeper._state.root = "c"  # as if it had joined the tree of c
    effects = b.handle("c", JoinTree("c", "", 0, is_root=True), now=4.5)
    assert b.phase is ColouredPhase.ROOT
    assert b.planes.of(ColourStage.NEW).parent is None
    assert "c" in b.planes.of(ColourStage.NEW).children
    assert [type(e.message).__name__ for e in effects if getattr(e, "to", "") == "c" and hasattr(e, "message")][:1]


def test_a_damaged_pretender_steps_down():
    run = network_of_five()
    run.advance(4.5)
    state = run.brokers["c"]._keeper.capture()
    state.phase = ColouredPhase.ROOT
    run.brokers["c"]._keeper.restore(state)
    run.sim.perform("c", run.brokers["c"].resume(now=4.5))
    run.advance(4.5 + stabilisation(colouring_of(run.scenario)))
    assert run.brokers["c"].phase is ColouredPhase.MEMBER
    assert not flaws_of_tree(run)
