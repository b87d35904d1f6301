"""Without faults: reconfigurations under load, with clients that change their minds, lose, double and misplace nothing.

`long_run.py coloured --faultless` runs the same by the hundred.
"""

from __future__ import annotations

import pytest

from pleach.core.overlay.coloured import broker, holding
from pleach.core.overlay.coloured.holding import Holding, Released
from pleach.scenario.stabilise_settings import check_stabilising
from pleach.sim.run import ScenarioRun
from pleach.trace import judge
from support.overlay.coloured import coloured_networks
from support.overlay.coloured.coloured_networks import SETTINGS, judge_reweaving, replay
from support.overlay.coloured.small_networks import client, directed, noted, parents, violations
from support.thorough import FACTOR

SEEDS_APART = 1_000  # settings meet different networks
CASES = [(s, SEEDS_APART * (1 + i) + n) for i, s in enumerate(SETTINGS) for n in range(FACTOR)]


def named(value):
    return value.name if isinstance(value, coloured_networks.Setting) else str(value)


@pytest.mark.parametrize(("setting", "seed"), CASES, ids=named)
def test_reconfigurations_under_load_break_no_promise(setting, seed):
    judgement = judge_reweaving(seed, setting)
    assert not judgement.flaws, replay(judgement)
    assert judgement.deliveries or not judgement.published


def test_most_requests_are_carried_out():
    judgements = [judge_reweaving(seed, SETTINGS[0]) for seed in range(3)]
    done, refused = sum(j.changes for j in judgements), sum(len(j.refusals) for j in judgements)
    assert done > refused


# Mutants: the checks see what they are there for ----------------------------------------------------------------


def test_a_period_below_the_bound_is_seen(monkeypatch):
    monkeypatch.setattr(coloured_networks, "TIGHT", 0.5)
    monkeypatch.setattr(coloured_networks, "check_stabilising", lambda _: None)
    assert any(judge_reweaving(seed, SETTINGS[3]).flaws for seed in range(4))
    assert coloured_networks.check_stabilising is not check_stabilising


# Order (S1 §4.5.4) ----------------------------------------------------------------------------------------------

# The subscriber is moved from the end of a slow arm to the publisher's broker, on a quick link.
ARM = [("r", "a"), ("a", "b"), ("b", "c")]
SLOW = "\n".join(f'"{x}-{y}" = 0.1' for x, y in ARM)


def shortcut(ordering):
    return directed(
        ARM,
        clients=client("once", "r")
        + client("p", "r", more='publish = { every = 0.02, from = 2.0, until = 8.0, attributes = { t = "x" } }')
        + client("s", "c", more="subscribe = [\"t = 'x'\", \"t = 'y'\"]")
        + client("q", "r", more="subscribe = [\"t = 'x'\"]\nreply = { to = \"t = 'x'\", with = { t = 'y' } }"),
        ordering=ordering,
        default=(0.001, 0.001),
        latency=SLOW,
        steps=[
            'at = 4.2\ndo = "exchange"\nremove = ["b", "c"]\nadd = ["r", "c"]',
            'at = 5.9985\ndo = "publish"\nclient = "once"\nattributes = { t = "x" }',  # the answer is of another colour
        ],
        duration=12.0,
    )


def rules(ordering):
    run = ScenarioRun(shortcut(ordering), 1)
    result = run.finish()
    verdict = judge(result.records)
    assert parents(run)["c"] == "r"
    assert not verdict.violations
    assert not verdict.unusable
    return {str(found.rule) for found in verdict.tolerated}


def test_without_order_events_overtake_each_other():
    assert rules("none") == {"fifo", "causal"}


def test_fifo_holds_what_would_pass_an_added_link():
    assert "fifo" not in rules("fifo")


def test_causal_holds_all_that_is_published():
    assert not rules("causal")


@pytest.mark.parametrize(("ordering", "method"), [("fifo", "passed"), ("causal", "holds")])
def test_without_holding_order_is_lost(monkeypatch, ordering, method):
    free = {"passed": lambda _, sends, __: list(sends), "holds": lambda *_: False}
    monkeypatch.setattr(Holding, method, free[method])
    run = ScenarioRun(shortcut(ordering), 1)
    run.finish()
    assert violations(run)


def test_events_are_held_for_one_period_at_most():
    run = ScenarioRun(shortcut("causal"), 1)
    run.advance(5.5)
    assert run.brokers["r"].held_count == 0
    run.advance(6.5)
    assert run.brokers["r"].held_count > 0
    run.advance(7.5)
    assert run.brokers["r"].held_count == 0


def test_a_run_does_not_end_while_events_are_held():
    """They wait for a recolouring, which is no more than upkeep: without it the run would seem to be quiet."""
    scenario = shortcut("causal")
    changed = [step for step in scenario.steps if step.at == 4.2]
    assert changed
    run = ScenarioRun(scenario, 1)
    run.advance(6.5)
    run.sim._agenda.clear()
    held = run.brokers["r"].held_count
    result = run.finish()
    assert held
    assert result.quiet
    assert not any(broker.held_count for broker in run.brokers.values())


def test_what_is_released_keeps_its_order():
    order = Holding(holding.Order.CAUSAL)
    order.state.is_changed = True
    publishes = [object() for _ in range(3)]
    assert all(order.holds("p", publish) for publish in publishes)
    assert order.turn(is_changed=False) == Released([("p", publish) for publish in publishes], [])
    assert not order.holds("p", publishes[0])


def test_more_than_a_broker_can_hold_is_refused(monkeypatch):
    monkeypatch.setattr(broker, "HELD_MAX", 3)
    run = ScenarioRun(shortcut("causal"), 1)
    run.finish()
    refused = [r for r in run.recorder.records if r.kind == "publish_fail"]
    assert refused
    assert "too many events wait" in refused[0].detail
    assert not violations(run)


# Confirmations --------------------------------------------------------------------------------------------------


def test_a_subscription_is_confirmed_when_no_colour_is_without_it():
    scenario = directed(
        [("a", "b")],
        clients=client("s", "b", more="subscribe = ['x = 1']"),
        steps=["at = 4.5\ndo = 'subscribe'\nclient = 's'\nfilter = 'x = 2'"],
    )
    run = ScenarioRun(scenario, 1)
    result = run.finish()
    acks = [r.at for r in result.records if r.kind == "subscribe_ack"]
    assert len(acks) == 2
    assert 2.0 < acks[0] < 2.3, "two recolourings, and a renewal"
    assert 6.0 < acks[1] < 6.3
    assert not noted(run, "coloured: seeking")
