"""The sink: each row of a batch is published once, however often Spark repeats the batch.

The publisher of a partition is a client whose epoch is the batch (client/publish_once.py), and rows are numbered in an
order that does not depend on their arrival: by the columns that the user names, then by their content. A DataFrame has
no order, and after a shuffle a repeated task may get its rows in another one.

    payload (binary or string)          the event's payload
    attributes (map<string,string>)     attributes by the names in it; a column of the same name wins
    any other column                    the attribute of that name; null: the event does not have it
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from pyspark import TaskContext
from pyspark.sql import types as sql
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pleach.client.publish_once import publish_once
from pleach.client.short_connection import Identity
from pleach.core.access.tenants import TENANT
from pleach.core.events.event import Event, EventId, Value, check_content
from pleach.errors import EventError, SettingsError
from pleach.spark.source.options import FORMAT, SinkOptions

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
        """All rows of the partition are checked before the first is published."""
        partition = _task().partitionId()
        drafts = self._drafts.sorted(batches, where=f"partition {partition} of {run or 'the write'}")
        if not drafts:
            return
        name = ".".join(part for part in (self._options.name, run, str(partition)) if part)
        who = Identity(name, epoch)
        turn = partition % len(self._options.addresses)
        place = self._options.addresses[turn : turn + 1]  # always the same broker, which has the state of the epoch
        way, patience = self._options.entry, self._options.patience
        publish_once(place, who, _numbered(drafts, who, way.tenant), patience=patience, entry=way.entry)


class StreamSink(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._work = Work(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """The query's id lasts as long as its checkpoint, and batches count up in it."""
        query, batch = _property(QUERY_PROPERTY), _property(BATCH_PROPERTY)
        self._work.publish(iterator, query[:QUERY_CHARACTERS], int(batch) + 1)
        return WriterCommitMessage()


class BatchSink(DataSourceArrowWriter):
    """One `save` is one epoch, including repeated tasks; a second `save` is another."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._work = Work(options, schema)
        self._epoch = time.time_ns()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        self._work.publish(iterator, "", self._epoch)
        return WriterCommitMessage()


def _numbered(drafts: list[RowEvent], who: Identity, tenant: str) -> list[Event]:
    of_tenant = {TENANT: tenant} if tenant else {}
    return [
        Event(EventId(who.name, who.epoch, number), {**draft.attributes, **of_tenant}, draft.payload)
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


# Rows as events that have no number yet -------------------------------------------------------------------------------

PAYLOAD, ATTRIBUTES = "payload", "attributes"
SCALARS = (sql.StringType, sql.BinaryType, sql.BooleanType, sql.IntegralType, sql.FloatType, sql.DoubleType)


class RowEvent(NamedTuple):
    attributes: dict[str, Value]
    payload: bytes


class Drafts:
    """Raises SettingsError at a column that no event can carry, before any row is seen."""

    def __init__(self, schema: sql.StructType, order_by: Sequence[str] = ()) -> None:
        names = schema.fieldNames()
        for field in schema.fields:
            _check(field)
        for column in order_by:
            if column not in names:
                raise _wrong("option 'orderby'", f"there is no column {column!r}", f"one of {', '.join(names)}")
        self._order_by = tuple(order_by)

    def sorted(self, batches: Iterator[pa.RecordBatch], *, where: str) -> list[RowEvent]:
        """The rows of a partition, in an order that is theirs. Raises EventError, which names the row."""
        keyed = []
        rows = (row for batch in batches for row in batch.to_pylist())
        for number, row in enumerate(rows, 1):
            try:
                draft = _draft(row)
                check_content(draft.attributes, draft.payload)
            except EventError as error:
                raise EventError(f"row {number} of {where} cannot be published: {error}; {_shown(row)}") from None
            keyed.append((_key(row, self._order_by), msgspec.msgpack.encode(draft, order="deterministic"), draft))
        keyed.sort(key=lambda each: each[:2])
        return [draft for _, _, draft in keyed]


def _draft(row: dict[str, Any]) -> RowEvent:
    listed = dict(row.get(ATTRIBUTES) or ())
    columns = {name: value for name, value in row.items() if name not in (PAYLOAD, ATTRIBUTES) and value is not None}
    attributes = {name: value for name, value in {**listed, **columns}.items() if value is not None}
    payload = row.get(PAYLOAD) or b""
    return RowEvent(attributes, payload.encode() if isinstance(payload, str) else payload)


def _key(row: dict[str, Any], order_by: Sequence[str]) -> tuple[tuple[bool, Any], ...]:
    """Nulls first."""
    return tuple((row[column] is not None, row[column]) for column in order_by)


def _check(field: sql.StructField) -> None:
    kind = field.dataType
    match field.name:
        case "payload":
            is_good = isinstance(kind, sql.BinaryType | sql.StringType)
            remedy = "binary or string is wanted"
        case "attributes":
            is_good = kind.simpleString() == "map<string,string>"
            remedy = "map<string,string> is wanted"
        case _:
            is_good = isinstance(kind, SCALARS)
            remedy = "cast it to a string, number, boolean or binary, or drop it"
    if not is_good:
        raise _wrong(f"column {field.name!r}", f"type {kind.simpleString()} is not supported", remedy)


def _shown(row: dict[str, Any]) -> str:
    return f"the row is {row!r:.200}"


def _wrong(key: str, reason: str, remedy: str) -> SettingsError:
    return SettingsError(key, reason, remedy, source=FORMAT)
