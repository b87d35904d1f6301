"""Rows as events: each row of a batch is published once, however often Spark does the batch again.

The publisher of a partition is a client whose epoch is the batch (client/publish_once.py), and rows are numbered in an
order that does not depend on how they came: by the columns that the user names, then by their content. A DataFrame has
no order of its own, and after a shuffle rows come in another one when a task is done again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pleach.client.publish_once import publish_once
from pleach.client.visit import Identity
from pleach.core.events.event import Event, EventId
from pleach.errors import SettingsError
from pleach.spark.source.options import FORMAT, SinkOptions
from pleach.spark.source.row_events import Drafts, RowEvent

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_PROPERTY, QUERY_PROPERTY = "streaming.sql.batchId", "sql.streaming.queryId"
QUERY_CHARACTERS = 12  # of a query's id, in the publisher's name


class Work:
    """What a task publishes, and as whom."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._drafts = Drafts(schema, options.order_by)

    def publish(self, batches: Iterator[pa.RecordBatch], run: str, epoch: int) -> None:
        """Nothing is published before all rows of the partition are known to be good."""
        partition = _task().partitionId()
        drafts = self._drafts.sorted(batches, where=f"partition {partition} of {run or 'the write'}")
        if not drafts:
            return
        name = ".".join(part for part in (self._options.name, run, str(partition)) if part)
        who = Identity(name, epoch)
        turn = partition % len(self._options.addresses)
        place = self._options.addresses[turn : turn + 1]  # always the same: another broker knows nothing of the work
        publish_once(place, who, _numbered(drafts, who), patience=self._options.patience)


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._work = Work(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """The query's id lasts as long as its checkpoint, and batches count up in it."""
        query, batch = _property(QUERY_PROPERTY), _property(BATCH_PROPERTY)
        self._work.publish(iterator, query[:QUERY_CHARACTERS], int(batch) + 1)
        return WriterCommitMessage()


class BatchSink(DataSourceArrowWriter):
    """One `save` is one piece of work: tasks that are done again are part of it, a second `save` is not."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._work = Work(options, schema)
        self._epoch = time.time_ns()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        self._work.publish(iterator, "", self._epoch)
        return WriterCommitMessage()


def _numbered(drafts: list[RowEvent], who: Identity) -> list[Event]:
    return [
        Event(EventId(who.name, who.epoch, number), draft.attributes, draft.payload)
        for number, draft in enumerate(drafts, 1)
    ]


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "tasks write"
    return task


def _property(name: str) -> str:
    value = _task().getLocalProperty(name)
    if value is None:
        raise SettingsError(name, "Spark does not say which batch this is", "use Spark 4.3", source=FORMAT)
    return value
