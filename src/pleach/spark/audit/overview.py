"""What must be known of whole runs to judge their records: small, and on the driver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from pleach.errors import TraceError
from pleach.trace.candidates import Candidates
from pleach.trace.first_pass import FirstPass, note
from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Ordering

SETTINGS = [RecordKind.DRAIN.value, RecordKind.FAULT.value]


@dataclass(slots=True)
class RunOverview:
    """`survey` is the reference's own, without what it keeps per event; `refusal` says why nothing can be judged."""

    survey: FirstPass
    records: int
    drains: list[int]
    refusal: str = ""

    def ordering(self, promised: Ordering | None) -> Ordering:
        return promised or self.survey.ordering or Ordering.CAUSAL

    @property
    def filters(self) -> Sequence[str]:
        return sorted(self.survey.filters)


def overview(records: DataFrame, runs: Iterable[str]) -> dict[str, RunOverview]:
    """All runs, in the order given."""
    counts = {row.run: row for row in _tally(records).collect()}
    known = {run: RunOverview(FirstPass(run), counts[run].records, []) for run in runs}
    for run, of_run in _by_run(_telling(records).collect()).items():
        _read(known[run], of_run)
    for run, one in known.items():
        one.survey.last_publication = counts[run].last_publication
        one.refusal = counts[run].refusal or one.refusal or _unparsed(one.survey.filters)
    return known


def _tally(records: DataFrame) -> DataFrame:
    """Per run how many records, where its last publication is, and what is wrong with its order."""
    published = f.when(f.col("kind") == RecordKind.PUBLISH.value, f.col("index"))
    return records.groupBy("run").agg(
        f.count("*").alias("records"),
        f.coalesce(f.max(published), f.lit(-1)).alias("last_publication"),
        f.max("refusal").alias("refusal"),
    )


def _telling(records: DataFrame) -> DataFrame:
    """The few records that speak of a run as a whole, and each filter once."""
    of_run = f.col("kind").isin(SETTINGS) | ((f.col("kind") == RecordKind.STATE.value) & (f.col("node") == ""))
    settings = records.where(of_run).select("run", "index", "at", "kind", "filter", "detail")
    filters = records.where(f.col("kind") == RecordKind.SUBSCRIBE.value).groupBy("run", "filter")
    asked = filters.agg(
        f.min("index").alias("index"),
        f.lit(0.0).alias("at"),
        f.lit(RecordKind.SUBSCRIBE.value).alias("kind"),
        f.lit("").alias("detail"),
    )
    return settings.unionByName(asked)


def _by_run(rows: Iterable[Row]) -> Mapping[str, list[Row]]:
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["index"]):
        by_run[row.run].append(row)
    return by_run


def _read(one: RunOverview, rows: Sequence[Row]) -> None:
    one.drains = [row["index"] for row in rows if row.kind == RecordKind.DRAIN]
    try:
        for row in rows:
            record = Record(row.run, row.at, "", 0, row.kind, filter=row.filter, detail=row.detail)
            note(one.survey, row["index"], record)
    except TraceError as error:
        one.refusal = str(error)


def _unparsed(filters: Iterable[str]) -> str:
    try:
        Candidates(filters)
    except TraceError as error:
        return str(error)
    return ""
