"""The verdict on a demo: its trace is audited on Spark, or by the reference oracle if Java is missing.

A subscriber waits while an event that matches is published and not delivered. Its *gap* is the longest time that it
waited without any delivery. Time without matching events is not a gap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from pleach.core.messages import Node
from pleach.demo.run import Performance
from pleach.errors import MissingPartError, SparkError
from pleach.scenario.initial_tree import OUTLINE, initial_tree
from pleach.trace import Record, RecordKind, Verdict, VerdictOutcome, judge, write_trace
from pleach.trace.store import About


class Gap(NamedTuple):
    began_at: float
    ended_at: float
    client: Node

    @property
    def seconds(self) -> float:
        return self.ended_at - self.began_at


def spoken(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


NO_GAP = Gap(0.0, 0.0, "")


def gaps(records: Iterable[Record]) -> list[Gap]:
    """One per delivery that was waited for."""
    published: dict[str, float] = {}
    got: dict[Node, list[tuple[float, float]]] = defaultdict(list)  # client: (delivered, published) of each event
    for record in records:
        if record.kind == RecordKind.PUBLISH:
            published[record.event] = record.at
        elif record.kind == RecordKind.DELIVER and record.event in published:
            got[record.who].append((record.at, published[record.event]))
    return [gap for client in sorted(got) for gap in _of_one(client, got[client])]


def longest(found: Iterable[Gap], spans: Sequence[tuple[float, float]]) -> list[Gap]:
    """The longest one of each span of time. A gap belongs to the span that the larger part of it lies in."""
    chosen = [NO_GAP] * len(spans)
    for gap in found:
        shares = [min(gap.ended_at, end) - max(gap.began_at, start) for start, end in spans]
        most = max(range(len(spans)), key=shares.__getitem__)
        if shares[most] > 0:
            chosen[most] = max(chosen[most], gap, key=_seconds)
    return chosen


def longest_of_all(found: Iterable[Gap]) -> Gap:
    return max(found, key=_seconds, default=NO_GAP)


def _seconds(gap: Gap) -> float:
    return gap.seconds


def _of_one(client: Node, got: Sequence[tuple[float, float]]) -> Iterator[Gap]:
    """`oldest`: when the oldest event was published that had not come before this delivery."""
    oldest = [*accumulate((published for _, published in reversed(got)), min)][::-1]
    before = 0.0
    for (delivered, _), waited_since in zip(got, oldest, strict=True):
        began = max(before, waited_since)
        if began < delivered:
            yield Gap(began, delivered, client)
        before = delivered


MASTER = "local[*]"
LAKE = "lake"
WITHOUT_COMPILING = {  # with a few thousand records compilation costs more than it saves
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
    """`note`: why another engine judged than expected. `gaps`: the longest of each act, in order."""

    verdict: Verdict
    engine: Engine
    note: str
    trace: Path | None
    longest_gap: Gap
    gaps: tuple[Gap, ...]
    delivered: tuple[int, ...]  # in each act
    shortcomings: tuple[str, ...]  # of the run, beside the verdict

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
    """Fall back to the reference oracle if Spark is missing, unless Spark was requested."""
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
    """A run with refused or unfinished steps is not clean, even without violations."""
    refused = [f"refused: {refusal}" for refusal in performance.result.refusals]
    unrest = [f"did not become quiet: {reason}" for reason in performance.result.unrest]
    return (*refused, *unrest)
