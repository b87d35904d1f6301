"""S1 §4.5.3: from any damage the network is correct again within the bound, for every policy and ordering.

`long_run.py coloured` runs the same 500 times for each.
"""

from __future__ import annotations

import pytest

from pleach.core.events.event import Event, EventId
from pleach.core.messages import Coloured, ColourStage, Forward, Install, Layer, ParentChange, Recolour, pack, unpack
from pleach.core.overlay.coloured.bounds import stabilisation
from pleach.core.overlay.coloured.broker import ColouredBroker, ColouredState
from pleach.core.overlay.coloured.keeper import ChildState, ColouredPhase, Keeper, KeeperReaction
from pleach.core.overlay.coloured.planes import Plane
from pleach.errors import ProtocolError
from pleach.faults.coloured_damage import COLOURED_PARTS
from pleach.scenario.machines import make_machine, tree_of
from pleach.scenario.stabilise_settings import colouring_of
from pleach.scenario.steps import Corrupt
from pleach.sim.run import ScenarioRun
from support.overlay.coloured import coloured_networks
from support.overlay.coloured.coloured_networks import (
    BY_NAME,
    SETTINGS,
    flaws_of_tree,
    judge_damaged,
    replay,
    running,
    struck,
)
from support.overlay.coloured.small_networks import client, directed
from support.thorough import FACTOR

SEEDS_APART = 1_000  # settings meet different networks
CASES = [(s, SEEDS_APART * (1 + i) + n) for i, s in enumerate(SETTINGS) for n in range(FACTOR)]
COVERING = BY_NAME["covering/none"]
MUTANT_SEEDS = (5, 6, 10)  # of networks in which the tree itself is damaged


def named(value):
    return value.name if isinstance(value, coloured_networks.Setting) else str(value)


@pytest.mark.parametrize(("setting", "seed"), CASES, ids=named)
def test_it_finds_back_within_the_bound_from_any_damage(setting, seed):
    judgement = judge_damaged(seed, setting)
    assert not judgement.flaws, replay(judgement)
    assert judgement.faults


# Mutants: the checks see what they are there for ----------------------------------------------------------------


def flaws(seeds=MUTANT_SEEDS):
    return [flaw for seed in seeds for flaw in judge_damaged(seed, COVERING).flaws]


def test_the_faults_do_damage():
    judged = [judge_damaged(seed, COVERING) for seed in MUTANT_SEEDS[:2]]
    assert sum(j.set_aside for j in judged), "something broke meanwhile"


def test_much_less_time_than_stated_is_not_enough():
    wrong = 0
    for seed in MUTANT_SEEDS:
        scenario = struck(seed, COVERING)
        run = running(scenario, seed)
        fault_at = next(step.at for step in scenario.steps if isinstance(step, Corrupt))
        run.advance(fault_at + 0.2 * stabilisation(colouring_of(scenario)))
        wrong += len(flaws_of_tree(run))
    assert wrong


def test_a_network_in_which_nobody_joins_again_is_seen(monkeypatch):
    monkeypatch.setattr(Keeper, "_seek", lambda keeper, _, now: KeeperReaction(keeper._reset(now)))
    assert flaws()


def test_a_network_that_keeps_its_tables_is_seen(monkeypatch):
    """Planes that do not begin anew keep what a fault has put into them."""

    def kept(planes, parent, children):
        former = planes._planes[planes.colour]
        fresh = Plane(planes._config, parent, children)
        for source, entry in former.router._subscriptions.entries():
            fresh.router.add(Layer.SUBSCRIPTIONS, source, entry, None)
        planes._planes[planes.colour] = fresh

    monkeypatch.setattr("pleach.core.overlay.coloured.planes.Planes.begin", kept)
    assert flaws()


# Single faults --------------------------------------------------------------------------------------------------

LINKS = [("a", "b"), ("a", "c"), ("b", "d"), ("b", "e")]


def healthy(**more):
    run = ScenarioRun(directed(LINKS, clients=client("s", "d", more="subscribe = ['x = 1']"), **more), 1)
    run.advance(4.5)
    return run


@pytest.mark.parametrize("part", COLOURED_PARTS)
def test_every_part_can_be_damaged_and_mends(part):
    steps = [f'at = 4.4\ndo = "corrupt"\nbroker = "{name}"\nwhat = "{part}"\nshare = 1.0' for name in "abde"]
    run = healthy(steps=steps, duration=16.0)
    result = run.finish()
    assert not result.refusals
    assert not flaws_of_tree(run)
    assert run.brokers["d"].sessions.subscriptions("s")


def test_a_part_that_a_coloured_broker_does_not_have_is_refused():
    run = healthy(steps=['at = 4.4\ndo = "corrupt"\nbroker = "b"\nwhat = "flags"'])
    assert "colours, pointers, table" in run.finish().refusals[0].reason


def test_a_child_that_does_not_answer_is_dropped_after_a_second_chance():
    run = healthy()
    b = run.brokers["b"]
    b.planes.of(ColourStage.NEW).children = ["c", "d", "e"]  # c is a child of a
    b._keeper._state.standing["c"] = ChildState.FRESH
    run.sim.perform("b", b.resume(now=run.sim.now))
    run.advance(5.5)
    assert "c" in b.planes.of(ColourStage.CURRENT).children, "it was asked"
    run.advance(6.5)
    assert "c" not in b.planes.of(ColourStage.CURRENT).children, "and has not answered"
    assert run.brokers["c"].planes.of(ColourStage.CURRENT).parent == "a"


def test_a_broker_whose_parent_has_forgotten_it_joins_again():
    run = healthy()
    run.brokers["b"].planes.of(ColourStage.NEW).children = ["e"]
    run.advance(6.5)
    assert run.brokers["d"].phase is ColouredPhase.MEMBER
    run.advance(8.5)
    assert not flaws_of_tree(run)
    assert run.brokers["d"].planes.of(ColourStage.CURRENT).parent == "a", "there is room at the root"


def test_whoever_is_full_sends_joiners_on_to_confirmed_children():
    run = healthy(stabilise="degree = 2")
    run.brokers["b"].planes.of(ColourStage.NEW).children = ["e"]
    run.advance(8.5)
    assert not flaws_of_tree(run)
    assert run.brokers["d"].planes.of(ColourStage.CURRENT).parent in ("c", "b")


@pytest.mark.parametrize("due", [float("nan"), float("inf"), -1.0, 1e300, 4.6])
def test_a_damaged_clock_is_late_by_one_period_at_most(due):
    run = healthy()
    for name, phase in (("a", ColouredPhase.ROOT), ("b", ColouredPhase.MEMBER)):
        broker = run.brokers[name]
        broker._keeper._state.due = due
        timer = broker.resume(now=4.5)[-1]
        limit = colouring_of(run.scenario).period if phase is ColouredPhase.ROOT else colouring_of(run.scenario).timeout
        assert 0 <= timer.after <= limit


def test_state_survives_a_restart_byte_for_byte():
    """With a message of a colour that the broker does not have yet, which waits for it."""
    run = healthy()
    for name, broker in run.brokers.items():
        neighbour, colour = next(iter(broker._planes.neighbours())), broker._planes.colour_of(ColourStage.OLD)
        event = Forward(Event(EventId("p", 1, 1), {}))
        broker.handle(neighbour, Coloured(colour, ColourStage.NEW, is_downward=True, hops=1, message=event), now=4.5)
        data = broker.capture()
        assert len(unpack(data, ColouredState).early) == 1
        twin = make_machine(run.scenario, tree_of(run.scenario), name)
        twin.restore(data)
        assert twin.capture() == data
        assert unpack(pack(unpack(data, ColouredState)), ColouredState)


def test_who_cannot_be_root_does_not_take_itself_for_it():
    run = healthy()
    state = run.brokers["b"]._keeper.capture()
    state.phase = ColouredPhase.ROOT
    run.brokers["b"]._keeper.restore(state)
    assert run.brokers["b"].phase is ColouredPhase.SEEKING


def test_nobody_leaves_unasked():
    """A recolouring that a fault has altered takes a broker out of the tree: it comes back by itself."""
    run = healthy()
    c = run.brokers["c"]
    turn = Recolour(c.planes.colour + 1, "a", 1, is_changed=False, moves=[ParentChange("c", "")])
    run.sim.perform("c", c.handle("a", turn, now=4.5))
    assert c.phase is ColouredPhase.MEMBER
    assert c.planes.of(ColourStage.NEW).parent is None
    run.advance(4.5 + stabilisation(colouring_of(run.scenario)))
    assert not flaws_of_tree(run)


def test_nobody_is_taken_in_too_far_from_the_root():
    """All brokers are full; d would be sent down the chain for ever, if h did not end it."""
    chain = ScenarioRun(directed([("a", "b"), ("b", "c"), ("a", "d")], stabilise="height = 2\ndegree = 1"), 1)
    chain.advance(4.5)
    chain.brokers["a"].planes.of(ColourStage.NEW).children = ["b"]
    chain.advance(8.5)
    assert not flaws_of_tree(chain)
    assert chain.brokers["d"].planes.of(ColourStage.CURRENT).parent == "b"


def test_messages_without_a_colour_are_not_legal():
    broker = healthy().brokers["b"]
    assert isinstance(broker, ColouredBroker)
    with pytest.raises(ProtocolError, match="not a message of a coloured broker"):
        broker.handle("a", Install(Layer.SUBSCRIPTIONS, 1, "", next(iter(_filters(broker)))), now=0.0)


def _filters(broker):
    return [entry.filter for _, entry in broker.router._subscriptions.entries()]


def test_an_event_on_a_cycle_ends():
    """A parent and a child that take each other for their parent: the direction says that one of them is wrong."""
    run = healthy()
    for x, y in (("b", "d"), ("d", "b")):
        for stage in ColourStage:
            run.brokers[x].planes.of(stage).children = []
            run.brokers[x].planes.of(stage).parent = y
    hops = run.sim.hops
    run.advance(4.9)
    assert run.sim.hops - hops < 50
    assert not any(r.message == Forward.__name__ for r in run.recorder.records)
