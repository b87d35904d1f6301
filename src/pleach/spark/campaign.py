"""Campaigns: tasks of (case, seed) mapped over executors; what they give is kept in pieces as it comes.

    waiting tasks ──▶ job (portions = partitions) ──mapInArrow──▶ one outcome per task ──▶ kept by the driver

Rule 1: a task is a pure function of case and seed; where and when it runs changes nothing but its seconds.
Rule 2: whatever a task raises is its outcome. A task that takes its process along is found by halving its job.
Rule 3: two jobs are under way at a time, so that the cores have work while the first is at its end.
Rule 4: what a job gave is on disk before its tasks count as done: a kill loses two jobs, some 20 seconds, at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from traceback import extract_tb
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pleach.errors import ExperimentError, SparkError
from pleach.spark.task_partitions import PORTIONS_PER_CORE, CampaignTask, Waiting

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

JOBS_AT_ONCE = 2
LOOK_SECONDS = 0.5  # between two looks at the jobs under way
ERROR_CHARACTERS_MAX = 500
# The driver's JVM hands out tasks and does little else: it need not spend the cores' time on being fast one day.
LIGHT_JVM = {"spark.driver.defaultJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
SIGNS_OF_DEATH = ("Python worker exited unexpectedly", "ExecutorLostFailure")  # in what Spark says of a failed job

Measure: TypeAlias = Callable[[str, int], Iterable[tuple[str, float]]]  # (case, seed) → (metric, value), …
Portions: TypeAlias = list[list[CampaignTask]]

# One row per task. `error` is empty where all went well; samples are in two lists of the same length.
OUTCOME_SCHEMA = "case string, seed long, error string, seconds double, metrics array<string>, values array<double>"


class TaskResult(NamedTuple):
    case: str
    seed: int
    error: str
    seconds: float
    metrics: list[str]
    values: list[float]


class CampaignProgress(NamedTuple):
    """Tasks, and seconds of the clock. `done` counts those that are about to be kept, too."""

    done: int
    failed: int
    total: int
    rate: float  # tasks per second so far; 0 while nothing is known
    left: float  # seconds to go; nan while nothing is known


@dataclass(frozen=True)
class Campaign:
    name: str
    tasks: Sequence[CampaignTask]
    measure: Measure  # travels to executors: a function of an installed module


def run_campaign(
    spark: SparkSession,
    campaign: Campaign,
    keep: Callable[[pa.Table], None],
    on_progress: Callable[[CampaignProgress], None] = lambda _progress: None,
    *,
    partitions: int = 0,
) -> list[TaskResult]:
    """Run all tasks; `keep` gets the outcomes of each job. Returns the outcomes that failed.

    A job has at most so many `partitions`; 0 means as many as keep the cores busy.
    """
    run = _Run(spark, campaign, on_progress, partitions)
    with ThreadPoolExecutor(JOBS_AT_ONCE, thread_name_prefix="campaign") as threads:
        try:
            for outcomes in run.jobs(threads):
                keep(outcomes)
        except BaseException:
            run.cancel()  # also at Ctrl-C: or leaving the pool would wait for the jobs to end by themselves
            raise
    return run.failures


class _Run:
    """A campaign on its way: what waits, what is under way, what has been learned."""

    def __init__(
        self, spark: SparkSession, campaign: Campaign, on_progress: Callable[[CampaignProgress], None], partitions: int
    ) -> None:
        self._spark = spark
        self._campaign = campaign
        self._tasks = {(task.case, task.seed): task for task in campaign.tasks}
        self._cores = spark.sparkContext.defaultParallelism
        self._waiting = Waiting(campaign.tasks, partitions or PORTIONS_PER_CORE * self._cores)
        self._under_way: dict[Future[pa.Table], _Job] = {}
        self._started = 0
        self._done = 0
        self._on_progress = on_progress
        self._since = perf_counter()
        self.failures: list[TaskResult] = []

    def jobs(self, threads: ThreadPoolExecutor) -> Iterator[pa.Table]:
        while self._waiting or self._under_way:
            while self._waiting and len(self._under_way) < JOBS_AT_ONCE:
                self._start(threads)
            ended, _ = wait(self._under_way, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in ended:
                outcomes = future.result()
                del self._under_way[future]
                self._learn(outcomes)
                yield outcomes
            self._on_progress(self._progress())

    def cancel(self) -> None:
        """Until all are gone: one that is only about to start is not there to be cancelled yet."""
        under_way = set(self._under_way)
        while under_way:
            for future in under_way:
                self._under_way[future].cancelled = True
                self._spark.sparkContext.cancelJobGroup(self._under_way[future].group)
            _, under_way = wait(under_way, timeout=LOOK_SECONDS)

    def _start(self, threads: ThreadPoolExecutor) -> None:
        from pyspark.util import inheritable_thread_target  # noqa: PLC0415 - slow to load

        self._started += 1
        group = f"pleach campaign {self._campaign.name} {id(self)} {self._started}"
        job = _Job(self._spark, self._campaign, self._waiting.next_job(), group)
        target = inheritable_thread_target(self._spark)(job.run)
        self._under_way[threads.submit(target)] = job

    def _learn(self, outcomes: pa.Table) -> None:
        for row in outcomes.select(["case", "seed", "error", "seconds"]).to_pylist():
            self._done += 1
            if row["error"]:
                self.failures.append(TaskResult(**row, metrics=[], values=[]))
            self._waiting.forecast.learn(self._tasks[row["case"], row["seed"]], row["seconds"])

    def _progress(self) -> CampaignProgress:
        done = self._done + sum(job.tasks_done() for job in self._under_way.values())
        elapsed = perf_counter() - self._since
        work = self._waiting.seconds() + sum(job.seconds_left(self._waiting) for job in self._under_way.values())
        return CampaignProgress(
            done=done,
            failed=len(self.failures),
            total=len(self._tasks),
            rate=done / elapsed,
            left=work / self._cores if self._done else math.nan,
        )


class _Job:
    """Some portions on their way: one Spark job, more where a task takes its worker process along."""

    def __init__(self, spark: SparkSession, campaign: Campaign, portions: Portions, group: str) -> None:
        self._spark = spark
        self._campaign = campaign
        self._portions = portions
        self.group = group
        self.cancelled = False

    def run(self) -> pa.Table:
        self._spark.sparkContext.setJobGroup(self.group, f"campaign {self._campaign.name}", interruptOnCancel=True)
        return self._run(self._portions)

    def _run(self, portions: Portions) -> pa.Table:
        import pyarrow as pa  # noqa: PLC0415 - optional, and slow to load
        from py4j.protocol import Py4JError  # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415

        try:
            return self._collected(portions)
        except (PySparkException, Py4JError) as error:
            if self.cancelled or not any(sign in str(error) for sign in SIGNS_OF_DEATH):
                raise SparkError(f"campaign {self._campaign.name}: {_first_line(error)}") from error
        if len(portions) == len(portions[0]) == 1:
            return _table([_lost(portions[0][0])])
        return pa.concat_tables(self._run(half) for half in _halves(portions))

    def _collected(self, portions: Portions) -> pa.Table:
        """The table of tasks travels with the function: one row per portion, cut exactly where we say."""
        rows = self._spark.range(0, len(portions), 1, len(portions))
        carry_out = partial(_carry_out, portions=portions, measure=self._campaign.measure)
        return rows.mapInArrow(carry_out, OUTCOME_SCHEMA).toArrow()

    def share_done(self) -> float:
        """Of the portions, by what Spark tells."""
        tracker = self._spark.sparkContext.statusTracker()
        jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(self.group)))
        stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
        return min(sum(stage.numCompletedTasks for stage in stages if stage) / len(self._portions), 1.0)

    def tasks_done(self) -> int:
        return int(self.share_done() * sum(map(len, self._portions)))

    def seconds_left(self, waiting: Waiting) -> float:
        work = sum(waiting.forecast.seconds(task) for portion in self._portions for task in portion)
        return (1 - self.share_done()) * work


def _halves(portions: Portions) -> tuple[Portions, Portions]:
    if len(portions) > 1:
        middle = len(portions) // 2
        return portions[:middle], portions[middle:]
    (tasks,) = portions
    middle = len(tasks) // 2
    return [tasks[:middle]], [tasks[middle:]]


def _lost(task: CampaignTask) -> TaskResult:
    return TaskResult(task.case, task.seed, "its worker process died (out of memory, or a crash)", 0.0, [], [])


def _first_line(error: Exception) -> str:
    """What Spark says, without its pages of frames: the innermost cause."""
    causes = [line for line in str(error).splitlines() if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ") if causes else str(error).partition("\n")[0]


# On executors ------------------------------------------------------------------------------------------------


def _carry_out(batches: Iterator[pa.RecordBatch], portions: Portions, measure: Measure) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            for task in portions[number]:
                yield from _table([outcome_of(measure, task)]).to_batches()


def outcome_of(measure: Measure, task: CampaignTask) -> TaskResult:
    """Carry out one task; what it raises is part of the outcome."""
    start = perf_counter()
    metrics: list[str] = []
    values: list[float] = []
    error = ""
    try:
        for metric, value in measure(task.case, task.seed):
            values.append(_checked(metric, value))
            metrics.append(metric)
    except Exception as raised:  # noqa: BLE001 - one seed must not sink the rest
        error, metrics, values = _described(raised), [], []
    return TaskResult(task.case, task.seed, error, perf_counter() - start, metrics, values)


def _checked(metric: str, value: float) -> float:
    if not math.isfinite(value):
        raise ExperimentError(f"metric {metric!r} is {value}; leave out what cannot be measured")
    return float(value)


def _described(raised: Exception) -> str:
    """One line, with the place: an assertion often says nothing else."""
    frames = extract_tb(raised.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(raised).split())
    said = f"{type(raised).__name__}: {text}" if text else type(raised).__name__
    return said[:ERROR_CHARACTERS_MAX] + place


def _table(outcomes: list[TaskResult]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415

    schema = pa.schema(
        [
            ("case", pa.string()),
            ("seed", pa.int64()),
            ("error", pa.string()),
            ("seconds", pa.float64()),
            ("metrics", pa.list_(pa.string())),
            ("values", pa.list_(pa.float64())),
        ]
    )
    return pa.Table.from_pylist([outcome._asdict() for outcome in outcomes], schema=schema)
