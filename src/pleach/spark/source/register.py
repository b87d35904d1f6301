"""The data source for read, readStream, write and writeStream, and its batch reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pleach.core.events.event import Event, EventId
from pleach.errors import EventError, TraceError
from pleach.spark.source.options import BatchOptions, batch_options, sink_options, stream_options
from pleach.spark.source.rows import EVENT_COLUMNS, RECORDED_COLUMNS, RowSchema, SourceEvent
from pleach.spark.source.sink import BatchSink, StreamSink
from pleach.spark.source.stream import StreamReader
from pleach.trace.parquet import records_in
from pleach.trace.records import RecordKind, attributes_from
from pleach.trace.store import trace_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NAME = "pleach"


class PleachSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return EVENT_COLUMNS if "brokers" in self.options else RECORDED_COLUMNS

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(batch_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:  # noqa: ARG002, FBT001 - Spark's signature
        return BatchSink(sink_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:  # noqa: ARG002, FBT001, N802
        return StreamSink(sink_options(self.options), schema)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        return StreamReader(stream_options(self.options), schema)


def register(spark: SparkSession) -> None:
    """Make `format("pleach")` known to a session; may be repeated."""
    spark.dataSource.register(PleachSource)


def events(spark: SparkSession, path: str, *, filter: str = "TRUE") -> DataFrame:  # noqa: A002
    """Recorded events that match a filter, filtered at the source."""
    register(spark)
    return spark.read.format(NAME).option("filter", filter).load(path)


class BatchReader(DataSourceReader):
    """Recorded events of traces that match a filter, applied at the source.

    The filter is an option and not pushed down from `DataFrame.filter`: Spark keeps the plan of a DataFrame's first
    use, and a second use with another filter would get the rows of the first one.
    """

    def __init__(self, options: BatchOptions, schema: StructType) -> None:
        RowSchema(schema)  # raises at once for a column that cannot be filled
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
