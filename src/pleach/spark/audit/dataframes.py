"""Rows through `mapInArrow`, and checkpoints of DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from pleach.lake.arrow import arrow_type, load_arrow

BATCH_ROWS = 16_384


def rows_of(batches: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of Arrow batches, one batch at a time in memory."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def batches_of(rows: Iterable[tuple[Any, ...]], columns: Mapping[str, str]) -> Iterator[Any]:
    """Rows as Arrow batches of the declared columns."""
    arrow = load_arrow()
    rest = iter(rows)
    while held := list(islice(rest, BATCH_ROWS)):
        given = zip(zip(*held, strict=True), columns.values(), strict=True)
        arrays = [arrow.array(values, arrow_type(kind)) for values, kind in given]
        yield arrow.RecordBatch.from_arrays(arrays, names=list(columns))


def kept(rows: DataFrame) -> DataFrame:
    """The rows, computed now, without their lineage, which every later plan would repeat."""
    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
