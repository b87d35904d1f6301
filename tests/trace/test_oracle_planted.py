"""No misses: each kind of error, planted in clean traces, is found under its own name."""

import random
from itertools import count

import pytest

from pleach.trace import Ordering, Rule, Verdict, VerdictOutcome, explain, judge
from support.thorough import FACTOR
from support.trace.planted_errors import AT_ONE_RECORD, EXACT, Plant, Planting
from support.trace.tiny_network import clean_story

PLANTS = 80 * FACTOR  # of each kind
STORIES_MAX = 200 * PLANTS


def plants_of(planting: Planting):
    """PLANTS of them, from as many stories as it takes."""
    made = 0
    for seed in count(10_000):
        assert seed < 10_000 + STORIES_MAX, f"{planting.__name__} is hardly ever possible"
        plant = planting(clean_story(seed), random.Random(seed))
        if plant is not None:
            made += 1
            yield plant
        if made == PLANTS:
            return


def found(verdict: Verdict) -> list[tuple[Rule, str, str]]:
    return [(one.rule, one.client, one.event) for one in (*verdict.violations, *verdict.tolerated)]


def check_reason(plant: Plant, verdict: Verdict) -> None:
    (mine,) = [one for one in verdict.violations if (one.rule, one.event) == (plant.rule, plant.event)]
    assert plant.reason in mine.reason
    assert plant.records[mine.index].event == plant.event


@pytest.mark.parametrize("planting", EXACT, ids=lambda planting: planting.__name__)
def test_planted_error_is_the_only_one_found(planting: Planting):
    for plant in plants_of(planting):
        verdict = judge(plant.records)
        assert found(verdict) == [(plant.rule, plant.client, plant.event)], explain(verdict, plant.records)
        assert verdict.outcome is VerdictOutcome.VIOLATED
        check_reason(plant, verdict)


@pytest.mark.parametrize("planting", AT_ONE_RECORD, ids=lambda planting: planting.__name__)
def test_planted_delivery_is_found_at_its_client(planting: Planting):
    for plant in plants_of(planting):
        verdict = judge(plant.records)
        assert (plant.rule, plant.client, plant.event) in found(verdict), explain(verdict, plant.records)
        assert {rule for rule, _, _ in found(verdict)} <= {plant.rule, Rule.FIFO, Rule.CAUSAL}
        check_reason(plant, verdict)


@pytest.mark.parametrize("planting", EXACT[-2:], ids=lambda planting: planting.__name__)
def test_order_counts_only_where_it_is_promised(planting: Planting):
    for plant in plants_of(planting):
        unordered = judge(plant.records, Ordering.NONE)
        assert unordered.clean
        assert [one.rule for one in unordered.tolerated] == [plant.rule]
        assert judge(plant.records, "fifo").clean == (plant.rule is Rule.CAUSAL)
