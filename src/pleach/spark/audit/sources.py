"""The files of a trace, as Spark reads them: every record once, in our schema, with its place.

A record's *place* is its row number over all files, files in the order of their paths: what rule 2 of the total order
(trace/order.py) goes by. Files in our own schema are read by Spark itself. What others write in other widths, nested
or with columns missing goes through the reader of the reference, on executors: slower, and the same in every detail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pleach.errors import TraceError
from pleach.lake.arrow import load_arrow
from pleach.lake.manifest import columns_of
from pleach.spark.audit.batches import batches_of, rows_of
from pleach.spark.lake import spark_schema
from pleach.trace.parquet import COLUMNS, MAY_NOT_BE_NULL, records_in

PLACE = "place"
RECORD_COLUMNS = {**COLUMNS, PLACE: "int64"}


@dataclass(frozen=True)
class TraceFile:
    """One file; `first` is the place of its first row."""

    path: Path
    first: int
    row_groups: tuple[int, ...]  # rows in each
    plain: bool  # in our own schema, nothing missing: Spark may read it as it is

    @property
    def rows(self) -> int:
        return sum(self.row_groups)


def sources_of(files: Sequence[Path]) -> list[TraceFile]:
    """What the footers of the files say; raises TraceError at one that cannot be read."""
    found: list[TraceFile] = []
    first = 0
    for path in files:
        source = _source(path, first)
        first += source.rows
        found.append(source)
    return found


def _source(path: Path, first: int) -> TraceFile:
    arrow = load_arrow()
    try:
        footer = arrow.parquet.read_metadata(path)
        schema = arrow.parquet.read_schema(path)
    except (OSError, arrow.ArrowException) as error:
        raise TraceError(f"{path}: cannot be read as Parquet: {error}") from None
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    plain = columns_of(schema) == COLUMNS and all(map(_has_no_holes, groups))
    return TraceFile(path, first, tuple(group.num_rows for group in groups), plain)


def _has_no_holes(group: Any) -> bool:
    """Whether statistics prove that what every record needs is there."""
    chunks = (group.column(number) for number in range(group.num_columns))
    needed = [chunk for chunk in chunks if chunk.path_in_schema in MAY_NOT_BE_NULL]
    return all(chunk.statistics is not None and chunk.statistics.null_count == 0 for chunk in needed)


def read_records(spark: SparkSession, sources: Sequence[TraceFile]) -> DataFrame:
    """All records, with their places."""
    plain = [source for source in sources if source.plain]
    foreign = [source for source in sources if not source.plain]
    parts = []
    if plain:
        parts.append(_read_plain(spark, plain))
    if foreign:
        parts.append(_read_foreign(spark, foreign))
    return reduce(lambda one, other: one.unionByName(other), parts)


def _read_plain(spark: SparkSession, sources: Sequence[TraceFile]) -> DataFrame:
    rows = spark.read.schema(spark_schema(COLUMNS)).parquet(*(str(source.path) for source in sources))
    numbered = rows.withColumn(PLACE, f.col("_metadata.row_index"))
    if len(sources) > 1 or sources[0].first:
        numbered = _shifted(spark, numbered, rows.inputFiles(), sources)
    else:
        numbered = numbered.select(*COLUMNS, PLACE)
    texts = [name for name, kind in COLUMNS.items() if kind == "string"]
    return numbered.fillna("", subset=texts).fillna(0, subset=["bytes"])


def _shifted(spark: SparkSession, rows: DataFrame, addresses: Sequence[str], sources: Sequence[TraceFile]) -> DataFrame:
    """Places that count on from file to file. Spark spells paths as addresses, and knows which is which."""
    firsts = {source.path.resolve(): source.first for source in sources}
    table = [(address, firsts[Path(unquote(urlsplit(address).path)).resolve()]) for address in addresses]
    files = spark.createDataFrame(table, "address string, first bigint")
    return (
        rows.withColumn("address", f.input_file_name())
        .join(f.broadcast(files), "address")
        .select(*COLUMNS, (f.col(PLACE) + f.col("first")).alias(PLACE))
    )


def _read_foreign(spark: SparkSession, sources: Sequence[TraceFile]) -> DataFrame:
    def read(batches: Iterator[Any]) -> Iterator[Any]:
        numbers = (number for (number,) in rows_of(batches))
        return batches_of((row for number in numbers for row in _rows_of_file(sources[number])), RECORD_COLUMNS)

    return spark.range(0, len(sources), 1, len(sources)).mapInArrow(read, spark_schema(RECORD_COLUMNS))


def _rows_of_file(source: TraceFile) -> Iterator[tuple[Any, ...]]:
    for place, record in enumerate(records_in(source.path), source.first):
        yield (*msgspec.structs.astuple(record), place)
