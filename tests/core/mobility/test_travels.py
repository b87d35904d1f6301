"""The oracle over networks whose clients move under load (S4 §3.4): every policy, mode and order.

`long_run.py mobility` runs the same by the ten thousand.
"""

from __future__ import annotations

import pytest

from pleach.core.effects import Send
from pleach.core.messages import Approve
from pleach.core.mobility.source import MovementSource
from pleach.core.mobility.target import MovementTarget, nobody
from pleach.core.overlay.seam import Reaction
from pleach.scenario.model import Span, Stabilise, Stabiliser
from pleach.scenario.steps import MoveClient, SubscribeStep
from pleach.scenario.timeline import check_steps
from pleach.scenario.validate import check_clients, check_settings, check_tree
from pleach.sim.run import run_scenario
from support.mobility.movement_chain import MOVE, MOVES_AT, Trip, route
from support.mobility.moving_clients import judge_travels, misplaced, replay, travels
from support.overlay.changing_trees import SETTINGS, Manner, manner_of, setting_of, under
from support.thorough import FACTOR

SEEDS_PER_SETTING = FACTOR
MANNERS = 4


def seeds_of(setting):
    """The settings in a row go through the manners: of one setting, each has the next manner in the next seed."""
    index = SETTINGS.index(setting)
    return [
        index + len(SETTINGS) * ((index + n) % MANNERS + MANNERS * (n // MANNERS)) for n in range(SEEDS_PER_SETTING)
    ]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_no_event_is_lost_doubled_spurious_or_out_of_order(setting):
    for seed in seeds_of(setting):
        assert setting_of(seed) == setting
        judgement = judge_travels(seed)
        assert not judgement.flaws, replay(judgement)
        assert judgement.drains, "nothing was looked at"


def test_together_the_samples_have_every_manner_and_most_moves_are_made():
    seeds = [seed for setting in SETTINGS[::5] for seed in seeds_of(setting)]
    assert {manner_of(seed) for seed in seeds} == set(Manner)
    judgements = [judge_travels(seed) for seed in seeds]
    assert sum(len(j.refusals) for j in judgements) < sum(j.moves for j in judgements) / 2


@pytest.mark.parametrize("seed", range(0, len(SETTINGS) * MANNERS, 61))
def test_the_networks_are_scenarios_that_a_file_could_hold(seed):
    scenario = under(travels(seed), setting_of(seed))
    assert any(isinstance(step, MoveClient) for step in scenario.steps)
    check_tree(scenario)
    check_settings(scenario)
    check_clients(scenario)
    if manner_of(seed) is Manner.ONE_BY_ONE:  # else a client may be sent to a broker that has left by then
        check_steps(scenario)


# Mutants: the checks see what they are there for ----------------------------------------------------------------


def flaws_of(seeds):
    return [flaw for seed in seeds for flaw in judge_travels(seed).flaws]


@pytest.fixture
def some_seeds():
    return range(0, len(SETTINGS), 11)


def test_without_the_list_of_what_was_delivered_events_come_twice(monkeypatch, some_seeds):
    take = MovementTarget._take
    monkeypatch.setattr(MovementTarget, "_take", lambda self, client, _: take(self, client, []))
    assert any(flaw.startswith("duplicate") for flaw in flaws_of(some_seeds))


def test_without_what_was_queued_events_are_lost(monkeypatch, some_seeds):
    monkeypatch.setattr("pleach.core.mobility.target.lacking", lambda *_: [])
    assert any(flaw.startswith("lost") for flaw in flaws_of(some_seeds))


def test_a_target_that_installs_only_when_the_client_comes_loses_events(monkeypatch, some_seeds):
    """There would be no second configuration beside the first."""
    take = MovementTarget._take

    def late(self, client, delivered):
        taken = take(self, client, delivered)
        return taken._replace(effects=[*self._change(nobody(client.name), client), *taken.effects])

    def bare(self, _):
        return Reaction([Send(self._movement.before, Approve(self._movement.operation))])

    monkeypatch.setattr(MovementTarget, "_take", late)
    monkeypatch.setattr(MovementTarget, "approve", bare)
    assert any(flaw.startswith("lost") for flaw in flaws_of(some_seeds))


def test_a_source_that_keeps_its_entries_is_seen(monkeypatch, some_seeds):
    commit = MovementSource._commit

    def forgetful(self):
        handled = commit(self)
        return handled._replace(effects=[e for e in handled.effects if "Withdraw" not in str(e)])

    monkeypatch.setattr(MovementSource, "_commit", forgetful)
    assert any("told" in flaw for flaw in flaws_of(some_seeds))


def test_a_client_that_nobody_negotiates_for_again_is_seen(monkeypatch):
    """It changes its mind while it moves, and the target goes by what it wanted before."""
    changes_its_mind = SubscribeStep(at=MOVES_AT + 0.005, client="mover", filter="said < 2")
    assert not Trip(route(MOVE, changes_its_mind)).finish()
    halted = MovementSource._halted

    def hasty(self):
        self._movement.is_outdated = False
        return halted(self)

    monkeypatch.setattr(MovementSource, "_halted", hasty)
    assert Trip(route(MOVE, changes_its_mind)).finish()


def test_a_client_at_two_brokers_is_seen():
    seen = []

    def watch(brokers):
        names = sorted(brokers)
        at = {client: name for name in names for client in brokers[name].sessions.clients}
        before = misplaced(brokers, at)
        client, first = next(iter(at.items()))
        other = next(name for name in names if name != first)
        handed = brokers[first].sessions.hand_over(client)
        brokers[other].sessions.take_over(handed)
        seen.append((before, misplaced(brokers, at)))
        raise AssertionError("damaged")

    with pytest.raises(AssertionError, match="damaged"):
        run_scenario(under(travels(0), SETTINGS[0]), 0, watch=watch)
    before, after = seen[0]
    assert not before
    assert after


# Leases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refresh", [0.02, 0.05])
def test_while_entries_are_renewed_those_of_a_client_on_its_way_stay(refresh):
    """The target mends its tables: entries of nobody go, and the client is not there yet."""
    leases = Stabilise(kind=Stabiliser.LEASES, refresh=refresh, period=4 * refresh, delay=Span(0.001, 0.001))
    trip = Trip(route(MOVE, stabilise=leases, duration=0.5))
    assert not trip.finish()
    assert trip.place == ["t"]
