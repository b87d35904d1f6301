"""What the explorer finds, and does not find, on chains of three brokers."""

from functools import partial
from itertools import product
from pathlib import Path

import pytest

from pleach.core.effects import Send
from pleach.core.messages import Forward
from pleach.core.routing.policies import POLICIES
from pleach.errors import LivenessError, ScenarioError
from pleach.explore import search
from pleach.explore.search import ExploreOutcome, explore
from pleach.scenario import load_scenario
from pleach.scenario.planted_bugs import PlantedBroker
from pleach.scenario.schedule import Act, HandOver
from support.explore.chains import (
    ADVERTISING,
    ANSWERING,
    CHURN,
    RESTLESS,
    SUBSCRIPTION,
    TINY,
    WITHDRAWAL,
    crash,
    restart,
)
from support.thorough import FACTOR

EXAMPLES = Path(__file__).parents[2] / "examples"
NETWORKS = list(product(POLICIES, [False, True], [False, True]))


def network(chain, policy, hierarchical, advertisements):
    return chain.but(routing=policy, hierarchical=hierarchical, advertisements=advertisements).scenario()


@pytest.mark.parametrize(("policy", "hierarchical", "advertisements"), NETWORKS)
@pytest.mark.parametrize("chain", [WITHDRAWAL, ADVERTISING, ANSWERING], ids=["withdrawal", "advertising", "answering"])
def test_nothing_fails_in_any_order(chain, policy, hierarchical, advertisements):
    found = explore(network(chain, policy, hierarchical, advertisements))
    assert found.outcome is ExploreOutcome.CLEAN
    assert found.failing == 0
    assert found.quiet > 1
    assert found.schedules > found.states > 100


@pytest.mark.parametrize(("policy", "hierarchical", "advertisements"), NETWORKS)
def test_nothing_fails_wherever_the_middle_broker_crashes(policy, hierarchical, advertisements):
    chain = WITHDRAWAL.but(steps=(*WITHDRAWAL.steps, crash("b"), restart("b")))
    found = explore(network(chain, policy, hierarchical, advertisements))
    assert found.outcome is ExploreOutcome.CLEAN
    assert found.quiet == 3 * 23  # what is quiet without a crash is so before, during and after it


@pytest.mark.heavy
@pytest.mark.parametrize("policy", POLICIES if FACTOR > 1 else ["covering"])
def test_a_subscription_an_unsubscription_and_two_events(policy):
    found = explore(CHURN.but(routing=policy).scenario())
    assert found.outcome is ExploreOutcome.CLEAN
    if policy == "covering":
        assert (found.states, found.transitions, found.quiet) == (159_610, 637_247, 159)
        assert (found.shortest, found.longest) == (24, 32)


def test_the_example_has_the_counts_that_the_reference_page_gives():
    found = explore(load_scenario(EXAMPLES / "chain-of-three.toml"))
    assert (found.states, found.transitions, found.schedules, found.quiet) == (7_634, 25_334, 6_363_219_110, 23)
    assert found.outcome is ExploreOutcome.CLEAN


@pytest.mark.parametrize(
    ("chain", "plant", "kind"),
    [
        (WITHDRAWAL, "overtaking-unsubscription", "lost"),
        (WITHDRAWAL, "forgotten-reexport", "lost"),
        (SUBSCRIPTION, "hasty-ack", "lost"),
        (SUBSCRIPTION, "doubled-forward", "duplicate"),
        (RESTLESS, "deaf-ear", "spurious"),
    ],
)
def test_planted_bugs_are_found(chain, plant, kind):
    found = explore(chain.scenario(), plant=plant)
    assert found.outcome is ExploreOutcome.FAILING
    assert found.failing > 0
    assert kind in found.kinds
    assert kind in found.finding.kinds
    assert {violation.rule for violation in found.finding.verdict.violations} == {kind}


def test_a_bug_that_no_client_has_seen_yet_shows_in_the_tables():
    """Without any event the forgotten export costs nobody anything, but the two ends of a link disagree."""
    chain = TINY.but(steps=TINY.steps[1:])
    found = explore(chain.scenario(), plant="forgotten-reexport")
    assert found.outcome is ExploreOutcome.FAILING
    assert found.finding.verdict is None
    assert found.finding.kinds == ("tables disagree", "never answered")
    assert "a lacks price > 50" in found.finding.reason


def planted(monkeypatch, spoil):
    monkeypatch.setattr("pleach.scenario.planted_bugs.PLANTS", {"test": partial(PlantedBroker, spoil=spoil)})


def test_a_machine_that_raises_is_a_finding(monkeypatch):
    def raise_on_events(broker, sender, message, now):
        if isinstance(message, Forward):
            raise KeyError("planted")
        return broker.handle(sender, message, now=now)

    planted(monkeypatch, raise_on_events)
    found = explore(TINY.scenario(), plant="test")
    assert found.kinds == {"raised": found.failing}
    assert found.finding.reason == "KeyError: 'planted'"
    assert [step.move for step in found.finding.schedule.steps] == [Act("p"), HandOver("p", "a"), HandOver("a", "b")]


def test_a_protocol_that_goes_round_in_circles_is_refused(monkeypatch):
    def send_back(broker, sender, message, now):
        return [Send(sender, message)] if isinstance(message, Forward) else broker.handle(sender, message, now=now)

    planted(monkeypatch, send_back)
    with pytest.raises(LivenessError, match="a state is its own successor"):
        explore(TINY.scenario(), plant="test")


def test_an_unknown_plant_is_refused():
    with pytest.raises(
        ScenarioError,
        match="unknown plant 'weed'; known: deaf-ear, doubled-forward, forgotten-reexport, hasty-ack, over",
    ):
        explore(TINY.scenario(), plant="weed")


def test_where_the_bound_comes_first_the_outcome_is_unknown():
    found = explore(WITHDRAWAL.scenario(), states_max=100)
    assert found.outcome is ExploreOutcome.UNKNOWN
    assert not found.complete
    assert found.states == 101


def test_what_was_found_before_the_bound_is_reported():
    whole = explore(WITHDRAWAL.scenario(), plant="overtaking-unsubscription")
    part = explore(WITHDRAWAL.scenario(), plant="overtaking-unsubscription", states_max=whole.states - 1)
    assert part.outcome is ExploreOutcome.FAILING
    assert not part.complete
    assert part.finding.verdict.violations
    assert len(part.finding.schedule.steps) >= len(whole.finding.schedule.steps)


def test_progress_is_reported():
    reports = []
    explore(WITHDRAWAL.scenario(), on_progress=lambda states, depth: reports.append((states, depth)))
    assert [states for states, _ in reports] == [search.PROGRESS_STATES]
    assert 0 < reports[0][1] <= 22


def test_two_searches_find_the_same_schedule():
    first, second = (explore(WITHDRAWAL.scenario(), plant="overtaking-unsubscription") for _ in range(2))
    assert first.finding.schedule == second.finding.schedule
    assert first == second
