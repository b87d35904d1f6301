"""Results in the lake: what the tasks of one experiment in one campaign gave, in pieces as they came.

    <lake>/results/<campaign>/<experiment>/campaign.json      format, and the code that measured; comes first
                                          /000001.parquet     outcomes of a job: one row per task
                                          /.lock              one writer at a time; a killed one lets go

Rule 1: a piece appears whole or not at all: it is written aside, brought to disk, and renamed.
Rule 2: what two versions of the code have measured is never in one folder.
Rule 3: order and cut of the pieces mean nothing: readers see rows.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pleach.errors import ExperimentError, LakeError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FORMAT = 1
MANIFEST = "campaign.json"
LOCK = ".lock"
SUFFIX = ".parquet"
CAMPAIGN_DEFAULT = "main"

# `error` is empty where all went well; samples are in two lists of the same length; `replay` repeats the run by itself.
PIECE_SCHEMA = (
    "case string, seed long, error string, seconds double, metrics array<string>, values array<double>, replay string"
)


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    experiment: str
    code: str


class Done(NamedTuple):
    """Tasks as (case, seed)."""

    measured: frozenset[tuple[str, int]]
    failed: frozenset[tuple[str, int]]  # and not measured since
    seconds: float  # of work in all that was measured


class Results:
    def __init__(self, lake: Path, campaign: str, experiment: str) -> None:
        if not campaign or campaign.startswith((".", "_")) or set(campaign) & set("/\\"):
            raise ExperimentError(f"campaign {campaign!r} cannot name a folder: leave out slashes and dots in front")
        self.folder = lake / "results" / campaign / experiment
        self.experiment = experiment

    @property
    def code(self) -> str:
        """The version of the code that measured; empty where nothing has been measured yet."""
        path = self.folder / MANIFEST
        try:
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return ""
        except (OSError, msgspec.DecodeError) as error:
            raise LakeError(f"{path}: {error}; {_delete(self.folder)}") from None
        if manifest.format != FORMAT:
            raise LakeError(f"{path}: format {manifest.format} is not known, {FORMAT} is; use another --campaign")
        return manifest.code

    def discard(self) -> None:
        """Throw all results away."""
        if self.folder.exists():
            shutil.rmtree(self.folder)

    @contextmanager
    def opened(self, code: str) -> Iterator[None]:
        """For writing, by this version of the code and by no other process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LakeError(f"{self.folder}: another process is measuring into it; wait for its end") from None
            self._sign(code)
            yield

    def _sign(self, code: str) -> None:
        self.check(code)
        if not self.code:
            self._write(MANIFEST, msgspec.json.encode(Manifest(FORMAT, self.experiment, code)))

    def check(self, code: str) -> None:
        """Raises ExperimentError where another version of the code has measured."""
        if self.code not in ("", code):
            raise ExperimentError(
                f"{self.folder}: measured by code {self.code}, and this is {code}: results of two versions are not"
                " mixed; use another --campaign, or --force to throw these away and measure anew"
            )

    # Pieces --------------------------------------------------------------------------------------------------

    def append(self, outcomes: pa.Table, replays: Sequence[str]) -> Path:
        """Keep the outcomes of a job, each with the command that replays it; on disk when this returns."""
        import pyarrow as pa  # noqa: PLC0415 - optional, and slow to load
        from pyarrow import parquet  # noqa: PLC0415

        memory = pa.BufferOutputStream()
        table = outcomes.append_column("replay", pa.array(replays, pa.string()))
        parquet.write_table(table, memory, compression="zstd", write_page_checksum=True)
        pieces = self.pieces()
        number = int(pieces[-1].stem) + 1 if pieces else 1
        return self._write(f"{number:06}{SUFFIX}", memory.getvalue())

    def _write(self, name: str, content: bytes | pa.Buffer) -> Path:
        unfinished = self.folder / f".{name}"  # hidden from Spark, too
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return unfinished.replace(self.folder / name)

    def pieces(self) -> list[Path]:
        return sorted(path for path in self.folder.glob(f"*{SUFFIX}") if not path.name.startswith("."))

    def done(self) -> Done:
        ok: set[tuple[str, int]] = set()
        tried: set[tuple[str, int]] = set()
        seconds = 0.0
        for piece in self.pieces():
            for row in self._statuses(piece):
                task = (row["case"], row["seed"])
                (tried if row["error"] else ok).add(task)
                seconds += row["seconds"]
        return Done(frozenset(ok), frozenset(tried - ok), seconds)

    def _statuses(self, piece: Path) -> list[dict[str, Any]]:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415

        try:
            read = parquet.read_table(
                piece, columns=["case", "seed", "error", "seconds"], page_checksum_verification=True
            )
        except (OSError, pa.ArrowException) as error:
            reason = str(error).partition("\n")[0]
            raise LakeError(f"{piece} cannot be read: {reason}; {_delete(piece)}") from None
        return list(read.to_pylist())

    # For readers ---------------------------------------------------------------------------------------------

    def outcomes(self, spark: SparkSession) -> DataFrame:
        """Every attempt of every task. The lake must be where executors can read it, too."""
        self.done()  # says what is wrong with a piece, and what to do about it, as Spark would not
        pieces = [str(piece.absolute()) for piece in self.pieces()]
        if not pieces:
            raise LakeError(f"{self.folder}: nothing has been measured; `pleach lab run {self.experiment}` does it")
        return spark.read.schema(PIECE_SCHEMA).parquet(*pieces)

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
        return (
            self.outcomes(spark)
            .groupBy("case", "seed")
            .agg(best)
            .select(
                f.lit(self.experiment).alias("experiment"),
                "case",
                "seed",
                f.when(f.col("best.error") == "", "ok").otherwise("failed").alias("status"),
                "best.*",
            )
        )


def _delete(path: Path) -> str:
    return f"delete {path}, and `pleach lab run` measures again what is missing"
