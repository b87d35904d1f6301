"""All features of the simulator at once, on some dozens of seeds; `python tests/long_run.py everything` runs thousands.

Beside them: that every pair of features occurs, that bugs are found if there are any, and that a failing case can be
written, read again, and cut down.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from pleach.core.messages import Close, Deliver, Forward, Install, Left, MoveCommit, Published, Resume
from pleach.scenario.load import parse_scenario
from pleach.scenario.model import Ordering, Routing
from support.everything.draw import case_of
from support.everything.features import EXCLUDED, Feature, possible_pairs
from support.everything.files import case_text, read_case, scenario_text, write_case
from support.everything.judgement import judge_case, probes
from support.everything.plants import OTHERS, SPOILT, losing
from support.everything.shrink import shrunk
from support.thorough import FACTOR

SEEDS = 36 * FACTOR
SEEDS_OF_PAIRS = 800


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_holds_of_all_features_at_once(seed):
    judgement = judge_case(case_of(seed))
    assert not judgement.flaws, judgement.case.features
    assert judgement.deliveries


# What is drawn --------------------------------------------------------------------------------------------------


def test_every_pair_of_features_occurs_that_the_network_does_not_refuse():
    met = Counter[frozenset[str]]()
    for seed in range(SEEDS_OF_PAIRS):
        met.update(map(frozenset, combinations(case_of(seed).features, 2)))
    values = [*map(str, Routing), *(f"order-{ordering}" for ordering in Ordering)]
    wanted = {frozenset(map(str, pair)) for pair in possible_pairs()}
    wanted |= {frozenset((str(feature), value)) for feature in Feature for value in values}
    assert wanted <= met.keys()
    assert not {frozenset(map(str, pair)) for pair in EXCLUDED} & met.keys()


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
    cases = (case for seed in range(60) if "improve" not in (case := case_of(seed)).features)
    assert any(judge_case(case, plant).flaws for case in cases)


@pytest.mark.parametrize(
    ("kind", "feature"),
    [
        (Forward, Feature.JITTER),
        (Deliver, Feature.JITTER),
        (Published, Feature.JITTER),
        (Install, Feature.UNREST),
        (Close, Feature.SWAPS),
        (Left, Feature.LEAVES),
        (MoveCommit, Feature.MOVES),
        (Resume, Feature.MOVES),
    ],
)
def test_one_message_that_is_lost_is_found(kind, feature):
    cases = (case for seed in range(100) if str(feature) in (case := case_of(seed)).features)
    assert any(judge_case(case, losing(kind)).flaws for case in cases)


# Files, and less of a case ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_a_case_is_the_same_when_it_was_written_and_read(seed, tmp_path):
    case = case_of(seed)
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

    case = next(case for seed in range(100) if "moves" in (case := case_of(seed)).features and judge(case).flaws)
    less = shrunk(case, judge=judge)
    assert judge(less).faults.keys() & judge(case).faults.keys()
    assert len(less.scenario.steps) <= 2
    assert len(less.scenario.clients) == 1 or len(less.beside.components) == 1
