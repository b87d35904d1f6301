"""A campaign that is killed goes on where it was, and ends with the same table."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slow_campaign import CASES, SEEDS, ran, slow_experiment

from pleach.lab.campaigns import run_experiment, tasks_of
from pleach.lab.experiment import Size
from pleach.spark.results import Results

WAIT_SECONDS_MAX = 120

pytestmark = pytest.mark.spark


def killed_halfway(lake, log):
    """Starts a campaign in a process of its own and kills it, with all that it started, after its first piece."""
    script = Path(__file__).with_name("slow_campaign.py")
    process = subprocess.Popen([sys.executable, script, lake, log], start_new_session=True)
    try:
        bound = time.monotonic() + WAIT_SECONDS_MAX
        while not Results(lake, "main", "slow").done().measured:
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < bound
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def rows(spark, results):
    return sorted(results.samples(spark).collect())


def test_killed_and_started_again_it_runs_only_what_is_missing(spark, tmp_path):
    lake = tmp_path / "lake"
    killed_halfway(lake, tmp_path / "first.log")
    results = Results(lake, "main", "slow")
    before = results.done().measured
    assert 0 < len(before) < CASES * SEEDS

    ended = run_experiment(spark, slow_experiment(tmp_path / "second.log", 0), Size.QUICK, results)

    assert ended.already == len(before)
    names = {
        (task.case, task.seed): f"{task.case[5:-1]}/{task.seed}"
        for task in tasks_of(slow_experiment("", 0), Size.QUICK)
    }
    assert sorted(ran(tmp_path / "second.log")) == sorted(name for task, name in names.items() if task not in before)

    whole = Results(tmp_path / "another", "main", "slow")
    run_experiment(spark, slow_experiment(tmp_path / "third.log", 0), Size.QUICK, whole)
    assert rows(spark, results) == rows(spark, whole)
    assert len(rows(spark, whole)) == CASES * SEEDS * 2
    assert (
        run_experiment(spark, slow_experiment(tmp_path / "fourth.log", 0), Size.QUICK, whole).already == CASES * SEEDS
    )
    assert not ran(tmp_path / "fourth.log")
