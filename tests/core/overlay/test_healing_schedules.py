"""Healing in the simulator: random networks with deaths, and what the checks of them catch."""

from __future__ import annotations

import pytest

from pleach.core.overlay.healing import stand_in as standin
from pleach.scenario.steps import Crash
from pleach.scenario.timeline import check_steps
from pleach.scenario.validate import check_clients, check_settings, check_tree
from pleach.sim.run import run_scenario
from pleach.trace import Rule
from support.overlay.dying_brokers import SETTINGS, afflicted, setting_of
from support.overlay.healing_judgement import judge_healing, replay
from support.thorough import FACTOR


def found(*seeds: int) -> str:
    return "\n".join(flaw for seed in seeds for flaw in judge_healing(seed).flaws)


@pytest.mark.parametrize("seed", range(len(SETTINGS) * FACTOR))
def test_nothing_is_lost_but_what_sat_solely_on_the_dead(seed):
    healed = judge_healing(seed)
    assert not healed.flaws, replay(healed)


def test_the_plagues_are_valid_and_deadly():
    deaths = neighbours = 0
    for seed in range(len(SETTINGS)):
        scenario = afflicted(seed, setting_of(seed))
        for check in (check_tree, check_settings, check_clients, check_steps):
            check(scenario)
        dead = {step.broker for step in scenario.steps if isinstance(step, Crash) and step.for_good}
        assert len(dead) <= max(1, len(scenario.brokers) // 3)
        deaths += len(dead)
        neighbours += sum({*link} <= dead for link in scenario.links)
    assert deaths > len(SETTINGS) // 2
    assert neighbours > 2


def test_the_same_seed_gives_the_same_run():
    scenario = afflicted(3, setting_of(3))
    assert run_scenario(scenario, 3).records == run_scenario(scenario, 3).records


class TestWhatTheChecksCatch:
    """Each mutant leaves one rule of the protocol out; those of the merge are in test_journal_and_merge.py."""

    def test_events_sent_again_to_those_who_have_them(self, monkeypatch):
        """Rule 4."""
        monkeypatch.setattr(standin, "covers", lambda _marks, _event: False)
        assert f"{Rule.DUPLICATE}:" in found(1, 3, 7)

    def test_wishes_of_absent_clients_withdrawn_at_once(self, monkeypatch):
        """Rule 3."""
        monkeypatch.setattr(standin.Pool, "orphaned", lambda _pool: dict.fromkeys(standin.Layer, frozenset()))
        assert f"{Rule.LOST}:" in found(326)

    def test_nothing_kept_for_clients_that_come_back(self, monkeypatch):
        """Rule 5."""
        monkeypatch.setattr(standin, "KEPT_MAX", 0)
        assert f"{Rule.LOST}:" in found(2, 8, 14)

    def test_events_sent_again_after_answers_to_them(self, monkeypatch):
        """Rule 6: as if only the order of each publisher counted."""
        made = standin.StandIn.__init__
        monkeypatch.setattr(
            standin.StandIn, "__init__", lambda machine, layers, grace, **_: made(machine, layers, "fifo", grace)
        )
        assert f"{Rule.CAUSAL}:" in found(143)
