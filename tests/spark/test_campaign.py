"""Campaigns: the same rows however they are cut; one failing task does not sink the rest."""

import os
import time

import pytest

from pleach.errors import SparkError
from pleach.spark.campaign import Campaign, outcome_of, run_campaign
from pleach.spark.task_partitions import CampaignTask

pytestmark = pytest.mark.spark

TASKS = [CampaignTask(case, seed) for case in "ab" for seed in range(10)]


def outcomes(spark, measure, tasks=TASKS, partitions=0):
    """Rows without their seconds, in order."""
    kept = []
    failures = run_campaign(spark, Campaign("toy", tasks, measure), kept.append, partitions=partitions)
    rows = [tuple(row[k] for k in row if k != "seconds") for table in kept for row in table.to_pylist()]
    return sorted(rows), failures


@pytest.mark.parametrize("partitions", [1, 3, 8])
def test_the_partitions_change_nothing(spark, partitions):
    def measure(case, seed):
        yield "sum", sum(0.1 * n for n in range(seed))
        yield "length", len(case)

    rows, failures = outcomes(spark, measure, partitions=partitions)
    assert rows == sorted(
        (case, seed, "", ["sum", "length"], [sum(0.1 * n for n in range(seed)), 1.0]) for case, seed, _ in TASKS
    )
    assert not failures


def test_what_a_task_raises_is_its_outcome_and_no_other_s(spark):
    def measure(case, seed):
        yield "x", 1.0
        if seed == 3:
            raise ValueError("no\nluck")
        if seed == 4:
            yield "y", float("nan")

    rows, failures = outcomes(spark, measure)
    errors = {(case, seed): error for case, seed, error, *_ in rows if error}
    assert {seed for _, seed in errors} == {3, 4}
    assert errors["a", 3].startswith("ValueError: no luck (test_campaign.py:")
    assert "metric 'y' is nan" in errors["b", 4]
    assert all(not metrics and not values for _, _, error, metrics, values in rows if error)
    assert sorted((f.case, f.seed) for f in failures) == sorted(errors)
    assert len(rows) == len(TASKS)


def test_a_task_that_takes_its_process_along_is_found(spark):
    def measure(case, seed):
        if (case, seed) == ("a", 5):
            os._exit(1)
        yield "x", 1.0

    rows, failures = outcomes(spark, measure, [task for task in TASKS if task.case == "a"], partitions=1)
    assert [(f.case, f.seed, f.error) for f in failures] == [
        ("a", 5, "its worker process died (out of memory, or a crash)")
    ]
    assert len(rows) == 10


def test_a_measurement_that_cannot_travel_is_an_error_at_once(spark):
    class Odd:
        def __call__(self, case, seed):
            return []

        def __setstate__(self, state):
            raise RuntimeError("not here")

        def __getstate__(self):
            return {"x": 1}

    with pytest.raises(SparkError, match="campaign toy"):
        outcomes(spark, Odd())


def test_an_error_on_the_way_stops_the_jobs(spark):
    def measure(case, seed):
        time.sleep(600)
        yield "x", 1.0

    def refuse(_progress):
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_campaign(spark, Campaign("toy", TASKS[:2], measure), lambda _table: None, refuse)
    assert time.monotonic() - start < 120


def test_progress_counts_up_to_all(spark):
    seen = []
    run_campaign(spark, Campaign("toy", TASKS, lambda case, seed: [("x", 1.0)]), lambda _table: None, seen.append)
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert seen[-1].done == seen[-1].total == len(TASKS)
    assert seen[-1].left == 0.0
    assert seen[-1].rate > 0


def test_an_outcome_in_this_process():
    outcome = outcome_of(lambda case, seed: [("x", seed * 2)], CampaignTask("a", 21))
    assert (outcome.metrics, outcome.values, outcome.error) == (["x"], [42.0], "")
