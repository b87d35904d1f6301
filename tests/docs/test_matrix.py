"""The matrix of features says what is tested: each pair in each world, or why not."""

import re
from itertools import combinations
from random import Random

import pytest

import matrix
from pleach.explore.search import ExploreOutcome
from support.everything.covering import with_values
from support.everything.explored import EXPLORED, NOT_EXPLORED, explore_pair, explored_pairs
from support.everything.features import Feature, completed
from support.everything.live import LIVE, NOT_LIVE, live_features, live_pairs, live_rows, live_scenario
from support.thorough import FACTOR

ROW = re.compile(r"^\| ([^|]+) \| (s\d+|t\d+|\d+) \| (e|\d+) \| (r\d+|\d+) \|$", re.MULTILINE)
STATES = 150


def test_the_page_is_up_to_date():
    text = matrix.PAGE.read_text()
    assert text == matrix.page(text), "give `make reference`, and commit what it writes"


def test_every_pair_has_a_test_or_a_reason_in_every_world():
    text = matrix.PAGE.read_text()
    rows = ROW.findall(text)
    assert len(rows) == len(Feature) * (len(Feature) - 1) // 2
    reasons = set(re.findall(r"^(\d+)\. ", text.partition("## Reasons")[2], re.MULTILINE))
    assert {cell for row in rows for cell in row[1:] if cell.isdigit()} == reasons


def test_what_a_world_leaves_out_is_left_out_for_a_reason_and_all_else_is_there():
    assert {*EXPLORED, *NOT_EXPLORED} == {*LIVE, *NOT_LIVE} == {*Feature}
    assert all((*NOT_EXPLORED.values(), *NOT_LIVE.values()))


def test_the_scenarios_for_processes_have_every_pair():
    rows = (combinations(live_features(row).on, 2) for row in range(len(live_rows())))
    met = {frozenset(pair) for row in rows for pair in row}
    assert met >= set(live_pairs())


@pytest.mark.parametrize("row", range(0, len(live_rows()), 8))
def test_a_scenario_for_processes_is_one(row):
    scenario = live_scenario(row, 1)
    assert scenario == live_scenario(row, 1)
    assert scenario.duration > 5.0


@pytest.mark.parametrize("number", range(10 * FACTOR))
def test_no_order_of_a_small_chain_with_both_fails(number):
    """Some pairs, and few states; `python tests/long_run.py pairs-explore` has all of them."""
    pair = Random(f"pairs/{number}").choice(explored_pairs())
    features = with_values(completed(pair), Random(f"explored/{sorted(pair)}"), EXPLORED)
    outcome = explore_pair(features, STATES)
    assert outcome.outcome is not ExploreOutcome.FAILING, (features.names, outcome.finding)
