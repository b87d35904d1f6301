"""One verdict per run, and explanations of violations, equal to those of the reference."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f

from pleach.errors import SparkError
from pleach.spark.audit.findings import noticed, violation
from pleach.spark.audit.overview import RunOverview
from pleach.trace.explain import OF_SUBSCRIPTIONS, explain
from pleach.trace.oracle import why_unusable
from pleach.trace.parquet import COLUMNS
from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Counts, Ordering, Verdict, Violation

FINDINGS_MAX = 1_000_000  # on the driver

Numbers = Mapping[str, Counter[str]]  # per run, by the names of `Counts`


def counts_of(taken: DataFrame, tried: DataFrame, delivered: DataFrame) -> Numbers:
    published = f.col("attempt").isNotNull()
    of_subscriptions = taken.groupBy("run").agg(
        f.count("asked").alias("subscriptions"), f.coalesce(f.sum("unpaired"), f.lit(0)).alias("unpaired")
    )
    of_publications = tried.groupBy("run").agg(
        f.count(f.when(published, 1)).alias("published"),
        f.count(f.when(published, f.col("acknowledged"))).alias("acknowledged"),
        f.count(f.when(published, f.col("failed"))).alias("failed"),
        f.count(f.when(~published, 1)).alias("unpaired"),
    )
    pairs = delivered.groupBy("run", "client", "publisher").agg(f.count("*").alias("deliveries"))
    of_deliveries = pairs.groupBy("run").agg(f.sum("deliveries").alias("deliveries"))
    numbers: dict[str, Counter[str]] = defaultdict(Counter)
    parts = (of_subscriptions, of_publications, of_deliveries, _people(pairs, taken))
    for row in reduce(_beside, parts).fillna(0).collect():
        numbers[row.run].update({name: value for name, value in row.asDict().items() if name != "run"})
    return numbers


def _beside(one: DataFrame, other: DataFrame) -> DataFrame:
    return one.unionByName(other, allowMissingColumns=True)


def _people(pairs: DataFrame, taken: DataFrame) -> DataFrame:
    """How many clients a run has: who subscribes, who gets events, and who published those."""
    subscribing = taken.where(f.col("asked").isNotNull()).select("run", "client")
    publishing = pairs.where(f.col("publisher").isNotNull()).select("run", "publisher")
    clients = pairs.select("run", "client").union(publishing).union(subscribing).distinct()
    return clients.groupBy("run").agg(f.count("*").alias("clients"))


def verdicts_of(
    known: Mapping[str, RunOverview],
    promised: Ordering | None,
    numbers: Numbers,
    judged: DataFrame,
    refused: DataFrame,
) -> list[Verdict]:
    """In the order of `known`."""
    refusals = _first_refusals(refused)
    found = _found(judged)
    verdicts = []
    for run, one in known.items():
        refusal = one.refusal or refusals.get(run, "")
        if refusal:
            counts = Counts(records=one.records)
            verdicts.append(Verdict(run, promised or Ordering.CAUSAL, unusable=refusal, counts=counts))
        else:
            verdicts.append(_verdict(one, one.ordering(promised), numbers.get(run, Counter()), found.get(run, [])))
    return verdicts


def _first_refusals(refused: DataFrame) -> dict[str, str]:
    first = refused.groupBy("run").agg(f.min_by("refusal", f.struct("index", "step")).alias("refusal"))
    return {row.run: row.refusal for row in first.collect()}


def _found(judged: DataFrame) -> dict[str, list[Row]]:
    rows = judged.limit(FINDINGS_MAX + 1).collect()
    if len(rows) > FINDINGS_MAX:
        raise SparkError(f"more than {FINDINGS_MAX:,} violations: judge fewer runs at a time")
    by_run: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=noticed):
        by_run[row.run].append(row)
    return by_run


def _verdict(one: RunOverview, ordering: Ordering, numbers: Counter[str], rows: Iterable[Row]) -> Verdict:
    kept: list[Violation] = []
    aside = 0
    for row in rows:
        if row.set_aside:
            aside += 1
        else:
            kept.append(violation(row))
    return Verdict(
        one.survey.run,
        ordering,
        violations=tuple(found for found in kept if found.rule not in ordering.tolerates),
        tolerated=tuple(found for found in kept if found.rule in ordering.tolerates),
        unusable=why_unusable(one.survey),
        counts=Counts(
            records=one.records,
            drains=len(one.drains),
            suspensions=len(one.survey.suspensions),
            set_aside=aside,
            **numbers,
        ),
    )


OF_RUN = [RecordKind.DRAIN.value, RecordKind.FAULT.value]


def records_around(records: DataFrame, run: str, violations: Sequence[Violation]) -> DataFrame:
    """The records that may concern these violations of a run."""
    events = sorted({event for one in violations for event in (one.event, one.other) if event})
    clients = sorted({one.client for one in violations})
    of_client = f.col("who").isin(clients) & f.col("kind").isin([*sorted(OF_SUBSCRIPTIONS), RecordKind.MOVE.value])
    chosen = f.col("event").isin(events) | of_client | f.col("kind").isin(OF_RUN)
    return records.where((f.col("run") == run) & chosen).orderBy("index")


def explain_on_spark(records: DataFrame, verdict: Verdict, violations_max: int) -> str:
    """What `explain` says of a verdict, without the whole trace in memory."""
    shown = verdict.violations[:violations_max]
    rows = records_around(records, verdict.run, shown).collect()
    near = [Record(*(row[name] for name in COLUMNS)) for row in rows]
    places = {row["index"]: place for place, row in enumerate(rows)}
    moved = [msgspec.structs.replace(one, index=places[one.index]) for one in shown]
    rest = verdict.violations[violations_max:]
    return explain(msgspec.structs.replace(verdict, violations=(*moved, *rest)), near, violations_max)
