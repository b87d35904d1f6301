"""Experiments as campaigns: their tasks, their measurements on executors, their results summed up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any

import msgspec

from pleach.errors import ExperimentError, LakeError
from pleach.lab.code_digest import code_version
from pleach.lab.experiment import Case, Experiment, Sample, Size, Summary, case_key
from pleach.lab.report import Measured
from pleach.spark.campaign import Campaign, CampaignProgress, TaskResult, run_campaign
from pleach.spark.results import Append, Results
from pleach.spark.summaries import summarise
from pleach.spark.task_partitions import CampaignTask

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

CASES_SHOWN_MAX = 3


@dataclass(frozen=True)
class Ended:
    """How a campaign went, this time."""

    experiment: str
    size: Size
    tasks: int
    already: int  # were there from an earlier time
    failures: tuple[TaskResult, ...]


def tasks_of(experiment: Experiment, size: Size, seeds: int = 0) -> list[CampaignTask]:
    """Every case with every seed, once each. `seeds`: so many instead of the size's own number."""
    costs = {case_key(case): experiment.cost(case) for case in experiment.cases(size)}
    return [
        CampaignTask(key, seed, cost) for key, cost in costs.items() for seed in range(seeds or experiment.seeds[size])
    ]


def check_code(experiment: Experiment, results: Results, *, force: bool) -> None:
    """Raises ExperimentError where another version of the code has measured; with `force` its results go."""
    if force and results.code not in ("", code_version(experiment)):
        results.discard()
    results.check(code_version(experiment))


def run_experiment(
    spark: SparkSession,
    experiment: Experiment,
    size: Size,
    results: Results,
    on_progress: Callable[[CampaignProgress], None] = lambda _progress: None,
    *,
    partitions: int = 0,
    seeds: int = 0,
) -> Ended:
    """Measure what is missing. The results of a task that failed before are missing, too."""
    tasks = tasks_of(experiment, size, seeds)
    with results.opened(code_version(experiment)) as append:
        measured = results.done().measured
        missing = [task for task in tasks if (task.case, task.seed) not in measured]
        campaign = Campaign(experiment.name, missing, partial(_measure_by_key, experiment.measure))
        keep = partial(_keep, experiment.name, append)
        failures = run_campaign(spark, campaign, keep, on_progress, partitions=partitions)
    in_order = sorted(failures, key=lambda outcome: (outcome.case, outcome.seed))
    return Ended(experiment.name, size, len(tasks), len(tasks) - len(missing), tuple(in_order))


def _keep(experiment: str, append: Append, outcomes: pa.Table) -> None:
    tasks = outcomes.select(["case", "seed"]).to_pylist()
    append(outcomes, [replay_command(experiment, task["case"], task["seed"]) for task in tasks])


def _measure_by_key(measure: Callable[[Case, int], Iterable[Sample]], key: str, seed: int) -> Iterable[Sample]:
    return measure(msgspec.json.decode(key), seed)


def summaries_of(
    spark: SparkSession, experiment: Experiment, size: Size, results: Results, seeds: int = 0
) -> list[Summary]:
    """All points of an experiment at one size, in order; other tasks of the same campaign do not count."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - slow to load

    cases = sorted({task.case for task in tasks_of(experiment, size)})
    below = seeds or experiment.seeds[size]
    samples = results.samples(spark).where(f.col("case").isin(cases) & (f.col("seed") < below))
    return [_summary(row.asDict()) for row in summarise(samples).collect()]


def _summary(row: dict[str, Any]) -> Summary:
    return Summary(**row | {"case": msgspec.json.decode(row["case"])})


def measured_in(spark: SparkSession, experiment: Experiment, size: Size, results: Results, seeds: int = 0) -> Measured:
    """All that a report needs; raises LakeError where nothing was measured, or something cannot be read."""
    tasks = {(task.case, task.seed) for task in tasks_of(experiment, size, seeds)}
    done = results.done()
    if not tasks & done.measured:
        raise LakeError(
            f"{results.folder}: nothing of size {size}; `pleach lab run {experiment.name} --size {size}` measures it"
        )
    failed = len(tasks & done.failed)
    missing = len(tasks - done.measured - done.failed)
    notes = [
        *([f"{failed:,} of {len(tasks):,} runs failed and are left out."] if failed else ()),
        *([f"{missing:,} of {len(tasks):,} runs are missing: it was not run to its end."] if missing else ()),
        *(["The code has changed since."] if results.code != code_version(experiment) else ()),
    ]
    summaries = summaries_of(spark, experiment, size, results, seeds)
    return Measured(experiment, size, summaries, results.code, failed + missing, " ".join(notes), seeds)


# One task by itself ------------------------------------------------------------------------------------------


def replay_command(experiment: str, case: str, seed: int) -> str:
    return f"pleach lab replay {experiment} --case {quote(case)} --seed {seed}"


def case_from(experiment: Experiment, text: str) -> Case:
    """The case that a text such as `{"brokers": 8}` names; it must be one of the experiment's, at whatever size."""
    try:
        case = msgspec.json.decode(text, type=dict[str, str | int | float | bool])
    except msgspec.DecodeError as error:
        raise ExperimentError(f"--case {text!r} is not a JSON object: {error}; {_like(experiment)}") from None
    if case_key(case) not in set(_keys(experiment)):
        raise ExperimentError(f"{experiment.name} has no case {case_key(case)}; {_like(experiment, case_key(case))}")
    return case


def _like(experiment: Experiment, text: str = "") -> str:
    keys = list(_keys(experiment))
    near = get_close_matches(text, keys, CASES_SHOWN_MAX, cutoff=0.0) if text else keys[:CASES_SHOWN_MAX]
    return "there are such as " + ", ".join(near)


def _keys(experiment: Experiment) -> Iterator[str]:
    return (case_key(case) for size in Size for case in experiment.cases(size))
