"""The data source for read, readStream, write and writeStream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pleach.spark.source.batch import BatchReader
from pleach.spark.source.options import batch_options, sink_options, stream_options
from pleach.spark.source.rows import EVENT_COLUMNS, RECORDED_COLUMNS
from pleach.spark.source.sink import BatchSink, StreamSink
from pleach.spark.source.stream import StreamReader

if TYPE_CHECKING:
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
