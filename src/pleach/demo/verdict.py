"""What the run was worth: the trace goes into a lake, and is judged there on Spark; without Java, by the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pleach.demo.gaps import Gap, gaps, longest, longest_of_all
from pleach.demo.run import Performance
from pleach.errors import MissingPartError, SparkError
from pleach.scenario.initial_tree import OUTLINE, initial_tree
from pleach.trace import Record, RecordKind, Verdict, VerdictOutcome, judge, write_trace
from pleach.trace.store import About

MASTER = "local[*]"
LAKE = "lake"
WITHOUT_COMPILING = {  # for some thousand records compilers take longer than what they compile
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


class Engine(StrEnum):
    AUTO = "auto"
    SPARK = "spark"
    REFERENCE = "reference"


@dataclass(frozen=True)
class Judgement:
    """`note`: why somebody else judged than was to be expected. `gaps`: the longest of each act, in their order."""

    verdict: Verdict
    engine: Engine
    note: str
    trace: Path | None
    longest_gap: Gap
    gaps: tuple[Gap, ...]
    delivered: tuple[int, ...]  # in each act
    shortcomings: tuple[str, ...]  # of the story, beside what the verdict says

    @property
    def is_clean(self) -> bool:
        return self.verdict.outcome is VerdictOutcome.CLEAN and not self.shortcomings


def judgement(
    performance: Performance, out: Path, seed: int, engine: Engine, on_step: Callable[[str], None]
) -> Judgement:
    records = performance.result.records
    trace, note = _written(performance, out, seed)
    verdict, judged_by, why = _judged(records, trace, engine, on_step)
    found = gaps(records)
    spans = [(scene.began_at, scene.ended_at) for scene in performance.scenes]
    return Judgement(
        verdict,
        judged_by,
        note or why,
        trace,
        longest_of_all(found),
        tuple(longest(found, spans)),
        tuple(_delivered(records, *span) for span in spans),
        _shortcomings(performance),
    )


def _written(performance: Performance, out: Path, seed: int) -> tuple[Path | None, str]:
    scenario, records = performance.result.scenario, performance.result.records
    about: About = {"scenario": scenario.name, "seed": seed, OUTLINE: initial_tree(scenario)}
    try:
        return write_trace(records, out / LAKE, records[0].run, about=about), ""
    except MissingPartError as error:
        return None, f"no trace was kept: {error}"


def _judged(
    records: Sequence[Record], trace: Path | None, engine: Engine, on_step: Callable[[str], None]
) -> tuple[Verdict, Engine, str]:
    """Spark's absence is no reason to show nothing, unless it was asked for."""
    note = ""
    if engine is not Engine.REFERENCE and trace is not None:
        try:
            return _on_spark(trace, on_step), Engine.SPARK, ""
        except (MissingPartError, SparkError) as error:
            if engine is Engine.SPARK:
                raise
            note = f"judged by the reference oracle, not on Spark: {error}"
    on_step("the reference oracle judges")
    return judge(records), Engine.REFERENCE, note


def _on_spark(trace: Path, on_step: Callable[[str], None]) -> Verdict:
    from pleach.spark.java import find_java  # noqa: PLC0415 an optional part, and slow to load
    from pleach.spark.session import default_settings, load_spark, spark_session  # noqa: PLC0415

    find_java()
    load_spark()
    from pleach.spark.audit import job  # noqa: PLC0415

    on_step("starting Spark")
    options = f"{default_settings(MASTER)[JAVA_OPTIONS]} {FIRST_COMPILER_ONLY}"
    spark = spark_session(MASTER, app="pleach demo", settings={JAVA_OPTIONS: options, **WITHOUT_COMPILING})
    try:
        (verdict,) = job.audit(spark, trace, on_step=on_step).verdicts
    finally:
        spark.stop()
    return verdict


def _delivered(records: Sequence[Record], began_at: float, ended_at: float) -> int:
    return sum(record.kind == RecordKind.DELIVER and began_at <= record.at < ended_at for record in records)


def _shortcomings(performance: Performance) -> tuple[str, ...]:
    """A story in which less happened than was told is not clean, even if nothing was lost in it."""
    refused = [f"refused: {refusal}" for refusal in performance.result.refusals]
    unrest = [f"did not become quiet: {reason}" for reason in performance.result.unrest]
    return (*refused, *unrest)
