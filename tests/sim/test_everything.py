"""All features of the simulator at once, on some dozens of seeds; `python tests/long_run.py everything` runs thousands.

Beside them: that every pair of features occurs, that bugs are found if there are any, and that a failing case can be
written, read again, and cut down.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from pleach.core.messages import (
    Advertised,
    Close,
    Deliver,
    Forward,
    Install,
    Installed,
    Left,
    MoveCommit,
    Published,
    Resume,
    Subscribed,
    Unsubscribed,
)
from pleach.core.standby.leadership import Leadership
from pleach.core.standby.views import View
from pleach.scenario.load import parse_scenario
from pleach.scenario.model import Routing
from pleach.sim.standby.hosts import Host
from support.everything.covering import allowed_pairs, rows
from support.everything.draw import case_of, features_of
from support.everything.features import OF_MOVES, REFUSED, Feature, why_not
from support.everything.files import case_text, read_case, scenario_text, write_case
from support.everything.judgement import judge_case, probes
from support.everything.plants import OTHERS, SPOILT, losing
from support.everything.shrink import shrunk
from support.thorough import FACTOR

SEEDS, SEEDS_WITH_STANDBYS = 30 * FACTOR, 16 * FACTOR
FOUND = Path(__file__).parent / "found"  # cut down; each was mended
SEEDS_OF_PAIRS = 1_000


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_holds_of_all_features_at_once(seed):
    judgement = judge_case(case_of(seed))
    assert not judgement.flaws, judgement.case.features
    assert judgement.deliveries


@pytest.mark.parametrize("seed", range(SEEDS_WITH_STANDBYS))
def test_all_holds_where_machines_are_lost_for_good(seed):
    judgement = judge_case(case_of(seed, standby=True))
    assert not judgement.flaws, judgement.case.features
    assert judgement.deliveries


@pytest.mark.parametrize("file", sorted(FOUND.glob("*.toml")), ids=lambda file: file.stem)
def test_all_holds_of_cases_in_which_a_fault_was_found(file):
    assert not judge_case(read_case(file)).flaws


# What is drawn --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standby", [False, True])
@pytest.mark.parametrize("first", [0, 17, 12_345])
def test_any_so_many_seeds_in_a_row_have_every_pair_of_features_that_is_not_refused(standby, first):
    met = Counter[frozenset[Feature]]()
    for seed in range(first, first + len(rows(standby=standby))):
        met.update(map(frozenset, combinations(features_of(seed, standby=standby).on, 2)))
    assert met.keys() >= set(allowed_pairs(standby=standby))
    assert not [pair for pair in met if why_not(pair)]


def test_forty_seeds_in_a_row_are_enough():
    assert len(rows(standby=False)) <= 40
    assert len(rows(standby=True)) <= 40


def test_a_pair_is_refused_with_a_reason_or_occurs_with_standbys_or_without():
    occur = {*allowed_pairs(standby=False), *allowed_pairs(standby=True)}
    for pair in map(frozenset, combinations(Feature, 2)):
        assert (pair in occur) != bool(why_not(pair)), pair
    assert all(why_not(pair) for pair in REFUSED)


def test_a_case_is_small_and_a_function_of_its_seed():
    for seed in range(50):
        case = case_of(seed)
        assert case == case_of(seed)
        assert 4 <= len(case.scenario.brokers) <= 7
        assert 4 <= len(case.scenario.clients) <= 8
        assert probes(case)


# Bugs are found -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({**SPOILT, **OTHERS}))
def test_a_planted_bug_is_found(name):
    plant = {**SPOILT, **OTHERS}[name]
    assert any(judge_case(case_of(seed), plant).flaws for seed in range(400) if _is_prone(features_of(seed)))


def _is_prone(features):
    """Where tables are reduced and change; councils are made for brokers without a plant."""
    reduces = features.routing in (Routing.COVERING, Routing.MERGING)
    return reduces and {Feature.UNREST, Feature.CRASHES} <= features.on and Feature.IMPROVE not in features


@pytest.mark.parametrize(
    ("kind", "feature"),
    [
        (Forward, Feature.JITTER),
        (Deliver, Feature.JITTER),
        (Published, Feature.JITTER),
        (Install, Feature.UNREST),
        (Installed, Feature.UNREST),
        (Subscribed, Feature.UNREST),
        (Unsubscribed, Feature.UNREST),
        (Advertised, Feature.CHANGING_ADVERTISEMENTS),
        (Close, Feature.SWAPS),
        (Left, Feature.LEAVES),
        (MoveCommit, Feature.MOVES),
        (Resume, Feature.MOVES),
    ],
)
def test_one_message_that_is_lost_is_found(kind, feature):
    seeds = (seed for seed in range(200) if feature in features_of(seed))
    assert any(judge_case(case_of(seed), losing(kind)).flaws for seed in seeds)


# Bugs of standbys; they are in all machines of a run, so that the classes are changed


def test_a_commit_that_is_confirmed_before_the_copies_have_it_is_found(monkeypatch):
    monkeypatch.setattr(Leadership, "reached_by_all", lambda self, _standbys: self.written)
    assert any(judge_case(case_of(seed, standby=True)).flaws for seed in range(60))


def test_a_promotion_without_a_majority_is_found(monkeypatch):
    monkeypatch.setattr(View, "majority", property(lambda _: 1))
    assert any(judge_case(case_of(seed, standby=True)).flaws for seed in range(40, 140))


def test_a_copy_that_acknowledges_what_it_has_not_written_is_found(monkeypatch):
    store = Host._store

    def forgetful(self, member, record):
        had = self.disk.copies.get(member.broker)
        store(self, member, record)
        if had is not None and record.position.number % 7 == 0:
            self.disk.copies[member.broker] = had

    monkeypatch.setattr(Host, "_store", forgetful)
    assert any(judge_case(case_of(seed, standby=True)).flaws for seed in range(60))


def test_a_machine_that_forgets_its_registers_is_found(monkeypatch):
    come_up = Host.come_up

    def forgetful(self):
        self.disk.registers.clear()
        come_up(self)

    monkeypatch.setattr(Host, "come_up", forgetful)
    assert any(judge_case(case_of(seed, standby=True)).flaws for seed in range(12, 60))


# Files, and less of a case ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_case_is_the_same_when_it_was_written_and_read(seed, tmp_path):
    case = case_of(seed, standby=seed % 2 == 0)
    write_case(case, tmp_path / "case.toml")
    again = read_case(tmp_path / "case.toml")
    assert again.scenario == case.scenario
    assert (again.seed, again.beside) == (case.seed, case.beside)


def test_a_case_without_anything_beside_is_a_scenario_file():
    case = next(case for seed in range(100) if "[beside]" not in case_text(case := case_of(seed)))
    assert parse_scenario(case_text(case)) == parse_scenario(scenario_text(case.scenario)) == case.scenario


def test_a_failing_case_is_cut_down_to_less_that_still_fails():
    def judge(case):
        return judge_case(case, losing(MoveCommit))

    seeds = (seed for seed in range(100) if features_of(seed).any(*OF_MOVES))
    case = next(case for seed in seeds if judge(case := case_of(seed)).flaws)
    less = shrunk(case, judge=judge)
    assert judge(less).faults.keys() & judge(case).faults.keys()
    assert len(less.scenario.steps) <= 2
    assert len(less.scenario.clients) == 1 or len(less.beside.components) == 1
