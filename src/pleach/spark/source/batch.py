"""Recorded events: the publish records of traces that match a filter. Only those leave the source.

The filter is an option and not pushed down from `DataFrame.filter`: Spark keeps the plan of a DataFrame's first use,
and a second use with another filter would get the rows of the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pleach.core.events.event import Event, EventId
from pleach.errors import EventError, TraceError
from pleach.spark.source.options import BatchOptions
from pleach.spark.source.rows import RowSchema, SourceEvent
from pleach.trace.parquet import records_in
from pleach.trace.records import RecordKind, attributes_from
from pleach.trace.store import trace_files

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    def __init__(self, options: BatchOptions, schema: StructType) -> None:
        RowSchema(schema)  # so that a column that cannot be filled is named at once
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """A file is a task's; runs that are not complete are left out."""
        return [InputPartition(str(file)) for file in trace_files(self._options.path)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return RowSchema(self._schema).batches(self._matching(Path(partition.value)))

    def _matching(self, file: Path) -> Iterator[SourceEvent]:
        matches = self._options.filter.matches
        for record in records_in(file, kind=RecordKind.PUBLISH):
            attributes = attributes_from(record.attributes)
            if matches(attributes):
                yield SourceEvent(Event(_id(file, record.event), attributes), record.run, record.at)


def _id(file: Path, text: str) -> EventId:
    try:
        return EventId.parse(text)
    except EventError as error:
        raise TraceError(f"{file}: {error}") from None
