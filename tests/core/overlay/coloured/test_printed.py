"""S1 §4.5 as printed: where its bounds and its algorithm do not hold, and that ours do. See decision 15."""

from __future__ import annotations

import msgspec
import pytest

from pleach.core.messages import ColourStage
from pleach.core.overlay.coloured.bounds import (
    ColouredConfig,
    period_min,
    printed_period_min,
    printed_timeout,
    stabilisation,
)
from pleach.core.overlay.coloured.broker import ColouredBroker
from pleach.core.overlay.coloured.keeper import ChildState, Keeper
from pleach.scenario.coloured_settings import colouring_of
from pleach.sim.run import ScenarioRun
from support.overlay.coloured.coloured_networks import flaws_of_tree, with_period
from support.overlay.coloured.small_networks import client, directed, noted, violations

JUST_ABOVE = 1.01


# (4.1): ξ' = ξ + h(δmax − δmin) ---------------------------------------------------------------------------------


def going_down():
    """d is moved from the root to the end of a chain: its next recolouring comes two links later than the last."""
    return directed(
        [("a", "b"), ("b", "c"), ("a", "d")],
        default=(0.02, 0.02),
        steps=['at = 2.5\ndo = "exchange"\nremove = ["a", "d"]\nadd = ["c", "d"]'],
        duration=6.0,
    )


def test_4_1_a_broker_that_is_moved_down_misses_the_root_without_any_fault(monkeypatch):
    run = ScenarioRun(going_down(), 1)
    run.advance(1.5)  # the very first recolouring is later than any other
    monkeypatch.setattr(ColouredConfig, "timeout", property(lambda c: printed_timeout(c) + 0.25 * c.high))
    run.finish()
    assert [node for _, node in noted(run, "coloured: seeking")] == ["d"]


def test_our_timeout_reckons_with_another_depth():
    run = ScenarioRun(going_down(), 1)
    run.finish()
    assert run.brokers["d"].router.parent == "c"
    assert not noted(run, "coloured: seeking")


# (4.2): ξ > ρ + 2h·δmax -----------------------------------------------------------------------------------------

# A publisher at the end of one long arm, a subscriber at the end of another, which is moved to the root, on a quick
# link. What was published just before the arm was recoloured is still on its long way when the subscriber, which is
# near the root by then, empties the table of that colour.
ARMS = [("r", "b1"), ("b1", "b2"), ("b2", "b3"), ("r", "x1"), ("x1", "x2"), ("x2", "x3")]
SLOW = "\n".join(f'"{a}-{b}" = 0.1' for a, b in ARMS)


def two_arms(period):
    scenario = directed(
        ARMS,
        clients=client("p", "b3", more='publish = { every = 0.005, from = 2.0, attributes = { t = "x" }, until = 6.0 }')
        + client("s", "x3", more="subscribe = [\"t = 'x'\"]"),
        default=(0.001, 0.001),
        latency=SLOW,
        refresh=0.03,
        period=5.0,
        stabilise="height = 3",
        steps=['at = 3.9\ndo = "exchange"\nremove = ["x2", "x3"]\nadd = ["r", "x3"]'],
        duration=8.0,
    )
    return with_period(scenario, period(colouring_of(scenario)) * JUST_ABOVE)


def test_4_2_events_under_way_lose_their_table():
    run = ScenarioRun(two_arms(printed_period_min), 1)
    run.finish()
    assert any(flaw.startswith("lost") for flaw in violations(run))


def test_our_period_waits_for_them():
    run = ScenarioRun(two_arms(period_min), 1)
    result = run.finish()
    assert not result.refusals
    assert run.brokers["x3"].router.parent == "r"
    assert not violations(run)


# Algorithm 10: a recolouring on a cycle -------------------------------------------------------------------------


def circling():
    """While a recolouring is under way from b to c, a fault makes b a child of d: b, c and d are a cycle by
    themselves."""
    run = ScenarioRun(directed([("a", "b"), ("b", "c"), ("c", "d")], default=(0.02, 0.02), duration=30.0), 1)
    run.advance(3.03)  # the third recolouring has left b at 3.02
    b, d = run.brokers["b"], run.brokers["d"]
    for stage in ColourStage:
        b.planes.of(stage).parent = "d"
        d.planes.of(stage).children = ["b"]
    d._keeper._state.standing["b"] = ChildState.FRESH
    for name in ("b", "d"):
        run.sim.perform(name, run.brokers[name].resume(now=run.sim.now))
    return run


def test_algorithm_10_a_recolouring_on_a_cycle_goes_round_for_ever(monkeypatch):
    printed = Keeper._recoloured
    monkeypatch.setattr(
        Keeper,
        "_recoloured",
        lambda keeper, sender, message, now: printed(keeper, sender, msgspec.structs.replace(message, hops=1), now),
    )
    run = circling()
    run.advance(3.03 + 3 * stabilisation(colouring_of(run.scenario)))
    assert not noted(run, "coloured: seeking"), "nobody misses the root"
    assert flaws_of_tree(run)


def test_ours_ends_and_the_cycle_finds_back():
    run = circling()
    assert flaws_of_tree(run)
    run.advance(3.03 + stabilisation(colouring_of(run.scenario)))
    assert {node for _, node in noted(run, "coloured: seeking")} == {"b", "c", "d"}
    assert not flaws_of_tree(run)


# Algorithms 9, 10 and 12: children are copied before the dead ones are dropped ------------------------------------


def with_a_false_child():
    run = ScenarioRun(directed([("a", "b"), ("a", "c"), ("b", "d")], duration=12.0), 1)
    run.advance(3.5)
    b = run.brokers["b"]
    b.planes.of(ColourStage.NEW).children = ["c", "d"]  # c is a child of a, and stays one
    b._keeper._state.standing["c"] = ChildState.FRESH
    run.sim.perform("b", b.resume(now=run.sim.now))
    return run


def test_algorithm_12_a_dead_child_comes_back_with_every_turn(monkeypatch):
    turn = Keeper._turn

    def copied_first(keeper, recolour):
        children = keeper._planes.of(ColourStage.NEW).children
        effects = turn(keeper, recolour)
        keeper._planes.of(ColourStage.NEW).children = children
        return effects

    monkeypatch.setattr(Keeper, "_turn", copied_first)
    run = with_a_false_child()
    run.finish()
    assert run.brokers["b"].planes.of(ColourStage.NEW).children == ["c", "d"]


def test_ours_is_dropped_for_good():
    run = with_a_false_child()
    run.finish()
    assert run.brokers["b"].planes.of(ColourStage.NEW).children == ["d"]


# Subscriptions over links of the next tree ----------------------------------------------------------------------


def next_tree_is_quicker():
    """x, at the end of a long arm, is moved to s. The recolouring that says so comes to s at once and to x late; what
    s tells x in the new colour comes before it."""
    return directed(
        [("r", "b1"), ("b1", "b2"), ("b2", "x"), ("r", "s")],
        clients=client("p", "x", more='publish = { every = 0.01, from = 2.0, attributes = { t = "x" }, until = 8.0 }')
        + client("q", "s", more="subscribe = [\"t = 'x'\"]"),
        default=(0.001, 0.001),
        latency='"r-b1" = 0.1\n"b1-b2" = 0.1\n"b2-x" = 0.1',
        refresh=0.8,
        period=1.8,
        stabilise="height = 4\ndelay = [0.001, 0.1]",
        steps=['at = 4.9\ndo = "exchange"\nremove = ["b2", "x"]\nadd = ["s", "x"]'],
        duration=10.0,
    )


@pytest.mark.parametrize("waits", [True, False])
def test_what_comes_before_its_recolouring_must_wait_for_it(monkeypatch, waits):
    """Taken at once, it would be of a table that is about to be emptied: S1 has no rule for this."""
    if not waits:
        monkeypatch.setattr(
            ColouredBroker,
            "_tinted",
            lambda broker, sender, m: broker._entered(sender, m, broker.planes.stage_of(m.colour)),
        )
    run = ScenarioRun(next_tree_is_quicker(), 1)
    run.advance(5.65)  # s has been recoloured at 5.401, and x is going to be at 5.7
    assert [sender for sender, _ in run.brokers["x"]._early] == (["s"] if waits else [])
    run.finish()
    assert run.brokers["x"].router.parent == "s"
    assert bool(violations(run)) != waits
