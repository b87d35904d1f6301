"""A campaign that is killed goes on where it was, and ends with the same table."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from pleach.lab.campaigns import run_experiment, tasks_of
from pleach.lab.experiment import Size
from pleach.spark.results import Results
from support.python_process import environment
from support.spark.slow_campaign import ran, slow_experiment

WAIT_SECONDS_MAX = 200  # for a JVM of its own, on a busy machine

ALL = [(task.case, task.seed) for task in tasks_of(slow_experiment("", 0), Size.QUICK)]

pytestmark = pytest.mark.spark


def killed_halfway(lake, log):
    """Starts a campaign in a process of its own and kills it, with all that it started, after its first piece."""
    program = "from support.spark.slow_campaign import main; main()"  # not as __main__: its digest would differ
    asked = [sys.executable, "-c", program, str(lake), str(log)]
    process = subprocess.Popen(asked, start_new_session=True, env=environment())
    try:
        bound = time.monotonic() + WAIT_SECONDS_MAX
        while not Results(lake, "main", "slow").done().measured:
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < bound
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def name_of(task):
    """As the log spells it."""
    case, seed = task
    return f"{json.loads(case)['x']}/{seed}"


def rows(spark, results):
    return sorted(results.samples(spark).collect())


def test_killed_and_started_again_it_runs_only_what_is_missing(spark, tmp_path):
    lake = tmp_path / "lake"
    killed_halfway(lake, tmp_path / "first.log")
    results = Results(lake, "main", "slow")
    before = results.done().measured
    assert 0 < len(before) < len(ALL)

    ended = run_experiment(spark, slow_experiment(tmp_path / "second.log", 0), Size.QUICK, results)
    assert ended.already == len(before)
    done_before = [name_of(task) for task in before]
    assert sorted(ran(tmp_path / "second.log") + done_before) == sorted(map(name_of, ALL))

    whole = Results(tmp_path / "another", "main", "slow")
    run_experiment(spark, slow_experiment(tmp_path / "third.log", 0), Size.QUICK, whole)
    assert rows(spark, results) == rows(spark, whole)
    assert len(rows(spark, whole)) == len(ALL) * 2
    again = run_experiment(spark, slow_experiment(tmp_path / "fourth.log", 0), Size.QUICK, whole)
    assert again.already == len(ALL)
    assert not ran(tmp_path / "fourth.log")
