"""Every record's index in the total order of its run (trace/order.py).

Orderly runs (inspection.py) are numbered by their places. The others are sorted by time and place, one task per run,
and pass by once: an instant at a time is in memory, untangled and checked by the reference's own functions. The first
record that cannot be in any order carries the reason; nothing else of such a run is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pleach.errors import TraceError
from pleach.spark.audit.batches import batches_of, rows_of
from pleach.spark.audit.inspection import RunPlace
from pleach.spark.audit.sources import PLACE
from pleach.spark.lake import spark_schema
from pleach.trace.first_pass import OrderCheck
from pleach.trace.order import total_order
from pleach.trace.parquet import COLUMNS
from pleach.trace.records import Record

INDEX = "index"
REFUSAL = "refusal"
SEQUENCED_COLUMNS = {**COLUMNS, INDEX: "int64", REFUSAL: "string"}


def number_orderly(spark: SparkSession, records: DataFrame, places: Sequence[RunPlace]) -> DataFrame:
    """The records of orderly runs; no rows move."""
    if len(places) == 1 and not places[0].first:
        numbered = records.where(f.col("run") == places[0].run).withColumn(INDEX, f.col(PLACE))
    else:
        firsts = spark.createDataFrame([(one.run, one.first) for one in places], "run string, first bigint")
        numbered = records.join(f.broadcast(firsts), "run").withColumn(INDEX, f.col(PLACE) - f.col("first"))
    return numbered.select(*COLUMNS, INDEX, f.lit("").alias(REFUSAL))


def number_disorderly(records: DataFrame, runs: Sequence[str]) -> DataFrame:
    """The records of these runs, sorted first; `refusal` says what is wrong with the order, where something is."""
    names = records.sparkSession.createDataFrame([(run,) for run in runs], "run string")
    chosen = records.join(f.broadcast(names), "run", "left_semi")
    tasks = min(len(runs), 4 * records.sparkSession.sparkContext.defaultParallelism)
    together = chosen.repartition(tasks, "run").sortWithinPartitions("run", "at", PLACE)
    return together.select(*COLUMNS).mapInArrow(_sequenced, spark_schema(SEQUENCED_COLUMNS))


def _sequenced(batches: Iterator[Any]) -> Iterator[Any]:
    records = (Record(*row) for row in rows_of(batches))
    by_run = (of_run for _, of_run in groupby(records, key=attrgetter("run")))
    return batches_of((row for of_run in by_run for row in _numbered(of_run)), SEQUENCED_COLUMNS)


def _numbered(records: Iterable[Record]) -> Iterator[tuple[Any, ...]]:
    """The records in total order, and what is wrong with the first that has no place in it."""
    index = 0
    check: Callable[[int, Record], None] | None = None
    for _, instant in groupby(records, key=attrgetter("at")):
        for record in total_order(instant):
            check = check or OrderCheck(record.run)
            refusal = ""
            try:
                check(index, record)
            except TraceError as error:
                refusal, check = str(error), _unchecked
            yield (*msgspec.structs.astuple(record), index, refusal)
            index += 1


def _unchecked(_index: int, _record: Record) -> None:
    """One reason is enough."""
