"""What rows say, as events that are not numbered yet.

payload (binary or string)          the event's payload
attributes (map<string,string>)     attributes by the names in it; a column of the same name wins
any other column                    the attribute of that name; null: the event does not have it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from pyspark.sql import types as sql

from pleach.core.events.event import Value, check_content
from pleach.errors import EventError, SettingsError
from pleach.spark.source.options import FORMAT

if TYPE_CHECKING:
    import pyarrow as pa

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
        raise _wrong(f"column {field.name!r}", f"type {kind.simpleString()} is no event's", remedy)


def _shown(row: dict[str, Any]) -> str:
    return f"the row is {row!r:.200}"


def _wrong(key: str, reason: str, remedy: str) -> SettingsError:
    return SettingsError(key, reason, remedy, source=FORMAT)
