"""Subscriptions, from `subscribe` to `unsubscribe_ack`: one row each, with the indices of its records.

Which acknowledgement belongs to which request depends on all requests under one name before it, so the records of a
name pass by in order, through the reference's own ledger. A name at a time is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pleach.errors import TraceError
from pleach.spark.audit.batches import batches_of, rows_of
from pleach.spark.audit.publications import ALWAYS
from pleach.spark.lake import spark_schema
from pleach.trace.explain import OF_SUBSCRIPTIONS
from pleach.trace.ledger import ClientStates, SubscriptionSpan
from pleach.trace.oracle import is_local
from pleach.trace.records import Record, RecordKind

# Rows with `asked` are subscriptions; the others say how many answers had no request, or what cannot be judged.
COLUMNS = {
    "run": "string",
    "client": "string",
    "name": "string",
    "filter": "string",
    "own": "bool",
    "asked": "int64",
    "acknowledged": "int64",
    "ended": "int64",
    "over": "int64",
    "unpaired": "int64",
    "refusal": "string",
    "index": "int64",
}
READ = ["run", "who", "key", "kind", "subscription", "filter", "detail", "index"]


def subscriptions(records: DataFrame) -> DataFrame:
    chosen = records.where(f.col("kind").isin(sorted(OF_SUBSCRIPTIONS)))
    key = f.when(f.col("subscription") != "", f.col("subscription")).otherwise(f.col("filter"))
    named = chosen.withColumn("key", key)
    together = named.repartition("run", "who", "key").sortWithinPartitions("run", "who", "key", "index")
    return together.select(*READ).mapInArrow(_paired, spark_schema(COLUMNS))


def numbered(taken: DataFrame, numbers: Mapping[str, int]) -> DataFrame:
    """The subscriptions whose filter has a number, with it; one that never ends is over after all records."""
    rows = taken.sparkSession.createDataFrame(list(numbers.items()), "filter string, number bigint")
    known = taken.where(f.col("asked").isNotNull()).join(f.broadcast(rows), "filter")
    return known.withColumn("over", f.coalesce("over", f.lit(ALWAYS))).drop("unpaired", "refusal", "index")


def refused_subscriptions(taken: DataFrame) -> DataFrame:
    return taken.where(f.col("refusal") != "").select("run", "index", f.lit(0).cast("bigint").alias("step"), "refusal")


class _Name:
    """The records of one name of one client."""

    def __init__(self) -> None:
        self._clients = ClientStates()
        self._taken: list[SubscriptionSpan] = []
        self._unpaired = 0

    def read(self, index: int, record: Record) -> None:
        match record.kind:
            case RecordKind.SUBSCRIBE:
                taken = self._clients.subscribe(index, record)
                self._taken.extend([taken] if taken else [])
            case RecordKind.SUBSCRIBE_ACK if not is_local(record):
                self._unpaired += not self._clients.acknowledge(index, record)
            case RecordKind.UNSUBSCRIBE:
                self._unpaired += not self._clients.unsubscribe(index, record)
            case RecordKind.UNSUBSCRIBE_ACK:
                self._unpaired += not self._clients.end(index, record)
            case _:
                pass

    def rows(self, run: str) -> Iterator[tuple[Any, ...]]:
        for one in self._taken:
            places = (one.asked, one.acknowledged, one.ended, one.over)
            yield (run, one.client, one.name, one.filter, one.own, *places, 0, "", None)
        if self._unpaired:
            yield (run, *[None] * 8, self._unpaired, "", None)


def _paired(batches: Iterator[Any]) -> Iterator[Any]:
    by_name = (list(of_name) for _, of_name in groupby(rows_of(batches), key=itemgetter(0, 1, 2)))
    return batches_of((row for rows in by_name for row in _read(rows)), COLUMNS)


def _read(rows: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    name = _Name()
    for run, who, _key, kind, subscription, wanted, detail, index in rows:
        record = Record(run, 0.0, who, 0, kind, subscription=subscription, filter=wanted, detail=detail)
        try:
            name.read(index, record)
        except TraceError as error:
            yield (run, *[None] * 8, 0, str(error), index)
            break
    yield from name.rows(rows[0][0])
