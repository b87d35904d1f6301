"""Events as rows: Arrow record batches for Spark, with columns of a user's choice.

    id, publisher, incarnation, sequence, attributes, payload       every event; recorded ones also have run and at
    any other name                                                  the attribute of that name, by the column's type

An attribute that is missing, or of another kind than its column, is null there. `attributes` has them all, as texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import types as sql
from pyspark.sql.pandas.types import to_arrow_schema

from pleach.core.events.event import Event, EventId, Value
from pleach.errors import SettingsError
from pleach.spark.source.options import FORMAT

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BATCH = 8_192
EVENT_COLUMNS = (
    "id string NOT NULL, publisher string NOT NULL, incarnation bigint NOT NULL, sequence bigint NOT NULL, "
    "attributes map<string,string> NOT NULL, payload binary NOT NULL"
)
RECORDED_COLUMNS = (
    "run string NOT NULL, at double NOT NULL, id string NOT NULL, publisher string NOT NULL, "
    "incarnation bigint NOT NULL, sequence bigint NOT NULL, attributes map<string,string> NOT NULL"
)
TEXTS = sql.MapType(sql.StringType(), sql.StringType())


class SourceEvent(NamedTuple):
    """An event, and where and when it was recorded, if it was."""

    event: Event
    run: str = ""
    at: float = 0.0


Getter = Callable[[SourceEvent], Any]
OWN: Mapping[str, tuple[sql.DataType, Getter]] = {
    "run": (sql.StringType(), lambda seen: seen.run),
    "at": (sql.DoubleType(), lambda seen: seen.at),
    "id": (sql.StringType(), lambda seen: str(EventId(*seen.event.id))),
    "publisher": (sql.StringType(), lambda seen: seen.event.id[0]),
    "incarnation": (sql.LongType(), lambda seen: seen.event.id[1]),
    "sequence": (sql.LongType(), lambda seen: seen.event.id[2]),
    "attributes": (TEXTS, lambda seen: [(name, text_of(value)) for name, value in seen.event.attributes.items()]),
    "payload": (sql.BinaryType(), lambda seen: seen.event.payload),
}


def text_of(value: Value) -> str:
    """As in a filter, but for the quotes: true, 5, 2.5, text; bytes in hexadecimal."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case _:
            return str(value)


class RowSchema:
    """What a schema asks for. Raises SettingsError at a column that no attribute can fill."""

    def __init__(self, schema: sql.StructType) -> None:
        self._getters = [_getter(field) for field in schema.fields]
        self._schema: pa.Schema = to_arrow_schema(schema)

    def batches(self, seen: Iterable[SourceEvent]) -> Iterator[pa.RecordBatch]:
        """The same rows in the same order, some thousands at a time."""
        rows = iter(seen)
        while some := list(islice(rows, ROWS_PER_BATCH)):
            yield self._batch(some)

    def _batch(self, seen: list[SourceEvent]) -> pa.RecordBatch:
        import pyarrow as pa  # noqa: PLC0415 not before a worker has rows for it

        columns = [
            pa.array([get(each) for each in seen], type=field.type)
            for get, field in zip(self._getters, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _getter(field: sql.StructField) -> Getter:
    kind = field.dataType
    if field.name in OWN and _is_same(kind, OWN[field.name][0]):
        return OWN[field.name][1]
    for types, accept in ATTRIBUTE_TYPES:
        if isinstance(kind, types):
            return _attribute(field.name, kind, accept)
    reason = f"column {field.name!r} has type {kind.simpleString()}"
    raise SettingsError("schema", reason, "an attribute is a string, number, boolean or binary", source=FORMAT)


def _is_same(given: sql.DataType, own: sql.DataType) -> bool:
    return given.simpleString() == own.simpleString()


def _attribute(name: str, kind: sql.DataType, accept: Callable[[Value, sql.DataType], Any]) -> Getter:
    def get(seen: SourceEvent) -> Any:
        value = seen.event.attributes.get(name)
        return None if value is None else accept(value, kind)

    return get


WIDTHS: Mapping[type[sql.DataType], int] = {sql.ByteType: 8, sql.ShortType: 16, sql.IntegerType: 32, sql.LongType: 64}


def _integer(value: Value, kind: sql.DataType) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    half = 1 << (WIDTHS[type(kind)] - 1)
    return value if isinstance(value, int) and not isinstance(value, bool) and -half <= value < half else None


def _float(value: Value, _kind: sql.DataType) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _of(wanted: type) -> Callable[[Value, sql.DataType], Any]:
    return lambda value, _kind: value if isinstance(value, wanted) else None


ATTRIBUTE_TYPES: tuple[tuple[Any, Callable[[Value, sql.DataType], Any]], ...] = (
    (tuple(WIDTHS), _integer),
    ((sql.DoubleType, sql.FloatType), _float),
    (sql.BooleanType, _of(bool)),
    (sql.StringType, _of(str)),
    (sql.BinaryType, _of(bytes)),
)
