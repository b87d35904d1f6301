"""A small experiment that takes its time and writes down what it runs, and a campaign of it to be killed."""

import sys
import time
from pathlib import Path

from pleach.lab.campaigns import run_experiment
from pleach.lab.experiment import Experiment, Sample, Size
from pleach.spark.results import Results
from pleach.spark.session import spark_session

CASES = 2
SEEDS = 20


def slow_experiment(log, seconds):
    """Its measurement is no function of this module: executors need not be able to import it."""

    def measure(case, seed):
        with Path(log).open("a") as file:
            file.write(f"{case['x']}/{seed}\n")
        time.sleep(seconds)
        yield Sample("product", case["x"] * seed)
        yield Sample("half", seed / 2)

    return Experiment(
        name="slow",
        about="takes its time",
        cases=lambda _size: [{"x": x} for x in range(CASES)],
        seeds=dict.fromkeys(Size, SEEDS),
        measure=measure,
        figures=(),
    )


def ran(log):
    return Path(log).read_text().split() if Path(log).exists() else []


def main():
    lake, log = sys.argv[1:]
    run_experiment(
        spark_session("local[2]"), slow_experiment(log, 0.2), Size.QUICK, Results(Path(lake), "main", "slow")
    )
