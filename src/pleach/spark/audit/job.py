"""The audit: from files to verdicts, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pleach.errors import TraceError
from pleach.spark.audit.causality import causal
from pleach.spark.audit.dataframes import kept
from pleach.spark.audit.deliveries import (
    altered_deliveries,
    compared,
    deliveries,
    out_of_order,
    refused_attributes,
    settle,
    suspects,
    unreal,
    unwanted,
)
from pleach.spark.audit.excused import suspended
from pleach.spark.audit.inspection import RunPlace, inspect
from pleach.spark.audit.losses import losses
from pleach.spark.audit.overview import RunOverview, overview
from pleach.spark.audit.publications import Filters, attempts, publications, refused_publications
from pleach.spark.audit.sequence import number_disorderly, number_orderly
from pleach.spark.audit.sources import TraceFile, read_records, sources_of
from pleach.spark.audit.subscriptions import numbered, refused_subscriptions, subscriptions
from pleach.spark.audit.verdicts import counts_of, verdicts_of
from pleach.spark.job_errors import explained
from pleach.trace.store import trace_files
from pleach.trace.verdict import Ordering, Verdict

ROWS_PER_PARTITION = 250_000
PARTITIONS_MAX = 2_000
STEPS = (
    "looking at the files",
    "subscriptions",
    "publications",
    "deliveries",
    "order",
    "losses and causes",
    "verdicts",
)

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class Audit:
    """The verdicts, and the records for explanations."""

    verdicts: list[Verdict]
    records: DataFrame


def audit(
    spark: SparkSession,
    path: Path | str,
    ordering: Ordering | str | None = None,
    *,
    on_step: OnStep = lambda _step: None,
) -> Audit:
    """Judges all runs under a path. Raises TraceError or LakeError if nothing can be read."""
    sources = sources_of(trace_files(path))
    promised = None if ordering is None else Ordering(ordering)
    with explained("the audit"), partitioned(spark, sum(source.rows for source in sources)):
        on_step(STEPS[0])
        places = inspect(spark, sources)
        if not places:
            raise TraceError(f"{path}: there are no records in it")
        records = _numbered(spark, sources, places)
        known = overview(records, [place.run for place in places])
        return Audit(_judged(spark, records, known, promised, on_step), records)


def _numbered(spark: SparkSession, sources: Sequence[TraceFile], places: Sequence[RunPlace]) -> DataFrame:
    """All records with their indices."""
    orderly = [place for place in places if place.orderly]
    disorderly = [place.run for place in places if not place.orderly]
    parts = []
    if orderly:
        plain = [source for source in sources if source.plain]  # no other holds any of them
        parts.append(number_orderly(spark, read_records(spark, plain), orderly))
    if disorderly:
        parts.append(kept(number_disorderly(read_records(spark, sources), disorderly)))
    who = f.when(f.col("client") != "", f.col("client")).otherwise(f.col("node"))
    return reduce(DataFrame.unionByName, parts).withColumn("who", who)


def _judged(
    spark: SparkSession,
    records: DataFrame,
    known: Mapping[str, RunOverview],
    promised: Ordering | None,
    on_step: OnStep,
) -> list[Verdict]:
    on_step(STEPS[1])
    taken = kept(subscriptions(records))
    filters = Filters({run: one.filters for run, one in known.items() if not one.refusal})
    subscribed = kept(numbered(taken, filters.numbers))
    on_step(STEPS[2])
    tried = kept(attempts(publications(spark, records, filters), records))
    on_step(STEPS[3])
    delivered = kept(deliveries(records, tried))
    counts = counts_of(taken, tried, delivered)
    on_step(STEPS[4])
    settled = kept(settle(suspects(delivered), delivered))
    respelt = kept(compared(delivered, subscribed))
    on_step(STEPS[5])
    found = [
        unreal(delivered),
        unwanted(delivered, subscribed),
        altered_deliveries(respelt),
        out_of_order(settled),
        causal(delivered, tried, settled),
        losses(delivered, tried, subscribed, *_drains(spark, known, promised)),
    ]
    judged = suspended(spark, reduce(DataFrame.unionByName, found), known)
    refused = refused_publications(tried).union(refused_subscriptions(taken)).union(refused_attributes(respelt))
    return verdicts_of(known, promised, counts, judged, refused)


def _drains(
    spark: SparkSession, known: Mapping[str, RunOverview], promised: Ordering | None
) -> tuple[DataFrame, DataFrame]:
    """Of the runs that can be judged: the final drain and the ordering; and all drains."""
    judged = [(run, one) for run, one in known.items() if one.drains and not one.refusal]
    runs = [(run, one.survey.final_drain, one.ordering(promised).value) for run, one in judged]
    drains = [(run, index) for run, one in judged for index in one.drains]
    return (
        spark.createDataFrame(runs, "run string, final bigint, ordering string"),
        spark.createDataFrame(drains, "run string, drain bigint"),
    )


def _partitions(cores: int, rows: int) -> int:
    """One partition for small traces, one per core or more for large ones."""
    return 1 if rows < ROWS_PER_PARTITION else min(max(cores, rows // ROWS_PER_PARTITION), PARTITIONS_MAX)


@contextmanager
def partitioned(spark: SparkSession, rows: int) -> Iterator[None]:
    """Partitions as the trace needs them; what is partitioned by event is not shuffled again by event and client."""
    cores = spark.sparkContext.defaultParallelism
    chosen = {
        "spark.sql.shuffle.partitions": str(_partitions(cores, rows)),
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.sql.adaptive.enabled": "false",  # it would merge partitions and break co-partitioning
    }
    before = {name: str(spark.conf.get(name)) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
