"""From files to verdicts: the jobs in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pleach.errors import TraceError
from pleach.spark.audit.causality import causal
from pleach.spark.audit.deliveries import deliveries, out_of_order, settle, suspects, unreal, unwanted
from pleach.spark.audit.inspection import inspect
from pleach.spark.audit.losses import losses
from pleach.spark.audit.overview import RunOverview, overview
from pleach.spark.audit.publications import Filters, attempts, publications, refused_publications
from pleach.spark.audit.respelling import altered_deliveries, compared, refused_attributes
from pleach.spark.audit.sequence import number_disorderly, number_orderly
from pleach.spark.audit.sources import read_records, sources_of
from pleach.spark.audit.subscriptions import numbered, refused_subscriptions, subscriptions
from pleach.spark.audit.suspensions import suspended
from pleach.spark.audit.verdicts import counts_of, verdicts_of
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
    """The verdicts, and the records for whoever wants to look closer: they are there while the audit is open."""

    verdicts: list[Verdict]
    records: DataFrame


@contextmanager
def audit(
    spark: SparkSession,
    path: Path | str,
    ordering: Ordering | str | None = None,
    *,
    on_step: OnStep = lambda _step: None,
) -> Iterator[Audit]:
    """Judges all runs under a path. Raises TraceError or LakeError where there is nothing that can be read."""
    promised = None if ordering is None else Ordering(ordering)
    with ExitStack() as stack:
        yield _Job(spark, Path(path), promised, stack, on_step).run()


class _Job:
    """One audit; `stack` lets go of what it keeps in Spark's memory."""

    def __init__(
        self, spark: SparkSession, path: Path, promised: Ordering | None, stack: ExitStack, on_step: OnStep
    ) -> None:
        self._spark = spark
        self._path = path
        self._promised = promised
        self._stack = stack
        self._on_step = on_step

    def run(self) -> Audit:
        on_step = iter(STEPS)
        self._on_step(next(on_step))
        records, runs = self._records()
        known = overview(records, runs)
        self._on_step(next(on_step))
        taken = self._kept(subscriptions(records))
        filters = Filters({run: one.filters for run, one in known.items() if not one.refusal})
        subscribed = self._kept(numbered(taken, filters.numbers))
        self._on_step(next(on_step))
        tried = self._kept(attempts(publications(self._spark, records, filters), records))
        self._on_step(next(on_step))
        delivered = self._kept(deliveries(records, tried))
        counts = counts_of(taken, tried, delivered)
        self._on_step(next(on_step))
        settled = self._kept(settle(self._kept(suspects(delivered)), delivered))
        respelt = self._kept(compared(delivered, subscribed))
        refused = refused_publications(tried).union(refused_subscriptions(taken)).union(refused_attributes(respelt))
        self._on_step(next(on_step))
        found = [
            unreal(delivered),
            unwanted(delivered, subscribed),
            altered_deliveries(respelt),
            out_of_order(settled),
            causal(delivered, tried, settled, self._kept),
            losses(delivered, tried, subscribed, *self._drains(known), self._kept),
        ]
        judged = self._kept(suspended(self._spark, reduce(DataFrame.unionByName, found), known))
        verdicts = verdicts_of(known, self._promised, counts, judged, refused)
        self._on_step(next(on_step))
        return Audit(verdicts, records)

    def _records(self) -> tuple[DataFrame, list[str]]:
        """All records with their indices, and the names of the runs in the order in which they begin."""
        sources = sources_of(trace_files(self._path))
        self._stack.enter_context(_partitioned(self._spark, sum(source.rows for source in sources)))
        places = inspect(self._spark, sources)
        if not places:
            raise TraceError(f"{self._path}: there are no records in it")
        rows = read_records(self._spark, sources)
        orderly = [place for place in places if place.orderly]
        disorderly = [place.run for place in places if not place.orderly]
        parts = [number_orderly(self._spark, rows, orderly)] if orderly else []
        if disorderly:
            parts.append(self._kept(number_disorderly(rows, disorderly)))
        who = f.when(f.col("client") != "", f.col("client")).otherwise(f.col("node"))
        return reduce(DataFrame.unionByName, parts).withColumn("who", who), [place.run for place in places]

    def _drains(self, known: Mapping[str, RunOverview]) -> tuple[DataFrame, DataFrame]:
        judged = [(run, one) for run, one in known.items() if one.drains and not one.refusal]
        runs = [(run, one.survey.final_drain, one.ordering(self._promised).value) for run, one in judged]
        drains = [(run, index) for run, one in judged for index in one.drains]
        return (
            self._spark.createDataFrame(runs, "run string, final bigint, ordering string"),
            self._spark.createDataFrame(drains, "run string, drain bigint"),
        )

    def _kept(self, rows: DataFrame) -> DataFrame:
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        self._stack.callback(kept.unpersist)
        return kept


@contextmanager
def _partitioned(spark: SparkSession, rows: int) -> Iterator[None]:
    """Partitions as the trace needs them; what is partitioned by event is not shuffled again by event and client."""
    cores = spark.sparkContext.defaultParallelism
    chosen = {
        "spark.sql.shuffle.partitions": str(min(max(cores, rows // ROWS_PER_PARTITION), PARTITIONS_MAX)),
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
    }
    before = {name: spark.conf.get(name) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value or "")
