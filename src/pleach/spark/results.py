"""Results in the lake: what the tasks of one experiment in one campaign gave, one run of the table `results`.

Each job's outcomes are a part of it, committed as they come; order and cut of the parts mean nothing. What two versions
of the code have measured is never in one run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pleach.errors import ExperimentError, LakeError
from pleach.lake import Table, WriteMode, open_run
from pleach.lake.arrow import load_arrow
from pleach.lake.manifest import remedy, run_folder
from pleach.spark.lake import read_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TABLE = "results"
CAMPAIGN_DEFAULT = "main"
OK, FAILED = "ok", "failed"

# One row per task and attempt. `error` is empty where all went well; samples are in two lists of the same length;
# `replay` is the command that repeats the task by itself.
COLUMNS = MappingProxyType(
    {
        "case": "string",
        "seed": "int64",
        "error": "string",
        "seconds": "double",
        "metrics": "list<string>",
        "values": "list<double>",
        "replay": "string",
    }
)
STATUS_COLUMNS = ["case", "seed", "error", "seconds"]

Append: TypeAlias = Callable[["pa.Table", Sequence[str]], None]  # outcomes of a job, and the commands that replay them


class KnownTasks(NamedTuple):
    """Tasks as (case, seed)."""

    measured: frozenset[tuple[str, int]]
    failed: frozenset[tuple[str, int]]  # and not measured since


class Results:
    def __init__(self, lake: Path, campaign: str, experiment: str) -> None:
        if not campaign or "/" in campaign:
            raise ExperimentError(f"--campaign {campaign!r} is no name; one without slashes is wanted")
        self.experiment = experiment
        self._campaign = campaign
        self._run = f"{campaign}/{experiment}"
        self._table = Table(lake, TABLE, COLUMNS)
        self.folder = run_folder(self._table.folder, self._run)

    @property
    def code(self) -> str:
        """The version of the code that measured; empty where nothing has been measured yet."""
        manifest = self._table.manifest(self._run)
        return str(manifest.about.get("code", "unknown")) if manifest else ""

    def check(self, code: str) -> None:
        """Raises ExperimentError where another version of the code has measured."""
        if self.code not in ("", code):
            raise ExperimentError(
                f"{self.folder}: measured by code {self.code}, and this is {code}: results of two versions are not"
                " mixed; use another --campaign, or --force to throw these away and measure anew"
            )

    def discard(self) -> None:
        """Throw all results away."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    @contextmanager
    def opened(self, code: str) -> Iterator[Append]:
        """For writing, by this version of the code and by no other process. What is appended is on disk."""
        self.check(code)
        about = {"campaign": self._campaign, "experiment": self.experiment, "code": code}
        with open_run(self._table, self._run, about, WriteMode.APPEND) as writer:

            def append(outcomes: pa.Table, replays: Sequence[str]) -> None:
                writer.append(outcomes.append_column("replay", [list(replays)]))

            yield append
            writer.finish()

    # For readers ---------------------------------------------------------------------------------------------

    def done(self) -> KnownTasks:
        ok: set[tuple[str, int]] = set()
        tried: set[tuple[str, int]] = set()
        for part in self._parts():
            for row in self._statuses_in(part):
                (tried if row["error"] else ok).add((row["case"], row["seed"]))
        return KnownTasks(frozenset(ok), frozenset(tried - ok))

    def outcomes(self, spark: SparkSession) -> DataFrame:
        """Every attempt of every task. The lake must be where executors can read it, too."""
        if not self._parts():
            raise LakeError(f"{self.folder}: nothing has been measured; `pleach lab run {self.experiment}` does it")
        return read_table(spark, self._table, [self._run], unfinished=True)

    def samples(self, spark: SparkSession) -> DataFrame:
        """Rows (experiment, case, seed, metric, value)."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - slow to load

        measured = self.outcomes(spark).where("error = ''").dropDuplicates(["case", "seed"])
        rows = measured.select("case", "seed", f.explode(f.arrays_zip("metrics", "values")).alias("sample"))
        return rows.select(
            f.lit(self.experiment).alias("experiment"),
            "case",
            "seed",
            f.col("sample.metrics").alias("metric"),
            f.col("sample.values").alias("value"),
        )

    def statuses(self, spark: SparkSession) -> DataFrame:
        """Rows (experiment, case, seed, status, error, seconds, replay), one per task: its success, if it had one."""
        from pyspark.sql import functions as f  # noqa: PLC0415

        best = f.min_by(f.struct("error", "seconds", "replay"), f.length("error")).alias("best")
        tasks = self.outcomes(spark).groupBy("case", "seed").agg(best)
        status = f.when(f.col("best.error") == "", OK).otherwise(FAILED).alias("status")
        return tasks.select(f.lit(self.experiment).alias("experiment"), "case", "seed", status, "best.*")

    def _parts(self) -> list[Path]:
        """Raises LakeError where one is missing, or not what the manifest says."""
        manifest = self._table.manifest(self._run)
        return self._table.checked(manifest) if manifest else []

    def _statuses_in(self, part: Path) -> list[dict[str, Any]]:
        arrow = load_arrow()
        try:
            read = arrow.parquet.read_table(part, columns=STATUS_COLUMNS, page_checksum_verification=True)
        except (OSError, arrow.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise LakeError(f"{part}: cannot be read: {reason}; {remedy(self.folder)}") from None
        return list(read.to_pylist())
