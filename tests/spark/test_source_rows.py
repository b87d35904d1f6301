"""Events as rows and rows as events."""

import pyarrow as pa
import pytest
from pyspark.sql import types as sql

from pleach.client.reader import ReadPosition
from pleach.core.events.event import Event, EventId
from pleach.errors import EventError, SettingsError
from pleach.spark.source import stream as offsets
from pleach.spark.source.options import stream_options
from pleach.spark.source.rows import ROWS_PER_BATCH, RowSchema, SourceEvent
from pleach.spark.source.sink import Drafts, RowEvent

EVENT = Event(EventId("p/q", 3, 9), {"s": "t", "i": 5, "f": 2.5, "b": True, "raw": b"\x01"}, b"load")
SHARES = stream_options({"brokers": "h:1", "name": "n", "split": "x = 1"}).shares


def schema(**columns):
    return sql.StructType([sql.StructField(name, kind) for name, kind in columns.items()])


def rows(asked, *seen):
    return [row for batch in RowSchema(asked).batches(seen) for row in batch.to_pylist()]


def test_the_columns_of_an_event():
    asked = schema(
        id=sql.StringType(),
        publisher=sql.StringType(),
        incarnation=sql.LongType(),
        sequence=sql.LongType(),
        attributes=sql.MapType(sql.StringType(), sql.StringType()),
        payload=sql.BinaryType(),
        run=sql.StringType(),
        at=sql.DoubleType(),
    )
    assert rows(asked, SourceEvent(EVENT, "r", 1.5)) == [
        {
            "id": "p/q/3/9",
            "publisher": "p/q",
            "incarnation": 3,
            "sequence": 9,
            "attributes": [("s", "t"), ("i", "5"), ("f", "2.5"), ("b", "true"), ("raw", "01")],
            "payload": b"load",
            "run": "r",
            "at": 1.5,
        }
    ]


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (sql.LongType(), 5, 5),
        (sql.LongType(), 5.0, 5),
        (sql.LongType(), 5.5, None),
        (sql.LongType(), True, None),
        (sql.ByteType(), 127, 127),
        (sql.ByteType(), 128, None),
        (sql.DoubleType(), 5, 5.0),
        (sql.DoubleType(), "5", None),
        (sql.BooleanType(), 1, None),
        (sql.BooleanType(), False, False),
        (sql.StringType(), "x", "x"),
        (sql.StringType(), 5, None),
        (sql.BinaryType(), b"x", b"x"),
        (sql.LongType(), None, None),
    ],
)
def test_a_column_takes_attributes_of_its_kind(kind, value, wanted):
    attributes = {} if value is None else {"id": value}  # also under the name of a column of ours, by its type
    asked = schema(id=kind) if not isinstance(kind, sql.StringType) else schema(x=kind)
    if "x" in asked.fieldNames():
        attributes = {"x": value}
    assert [next(iter(row.values())) for row in rows(asked, SourceEvent(Event(EventId("p", 0, 1), attributes)))] == [
        wanted
    ]


def test_many_events_come_in_several_batches():
    batches = list(RowSchema(schema(n=sql.LongType())).batches([SourceEvent(EVENT)] * (ROWS_PER_BATCH + 1)))
    assert [len(batch) for batch in batches] == [ROWS_PER_BATCH, 1]


def test_a_column_that_no_attribute_fills_is_named():
    with pytest.raises(SettingsError, match="column 'x' has type array<string>"):
        RowSchema(schema(x=sql.ArrayType(sql.StringType())))


# Rows as events ------------------------------------------------------------------------------------------------

TEXTS = sql.MapType(sql.StringType(), sql.StringType())
SINK = schema(n=sql.LongType(), price=sql.DoubleType(), payload=sql.StringType(), attributes=TEXTS)


def drafts(*given_rows, order_by=(), asked=SINK):
    kinds = [("n", pa.int64()), ("price", pa.float64()), ("payload", pa.string())]
    kinds += [("attributes", pa.map_(pa.string(), pa.string()))]
    batch = pa.RecordBatch.from_pylist(list(given_rows), schema=pa.schema(kinds))
    return Drafts(asked, order_by).sorted(iter([batch]), where="partition 3 of batch 1")


def test_columns_become_attributes_and_nulls_none():
    assert drafts({"n": 1, "payload": "ä", "attributes": [("a", "x"), ("n", "no"), ("b", None)]}) == [
        RowEvent({"a": "x", "n": 1}, "ä".encode())
    ]


def test_rows_have_an_order_that_does_not_depend_on_how_they_came():
    some = [{"n": n % 3, "price": float(-n)} for n in range(10)]
    assert drafts(*some) == drafts(*reversed(some))
    assert [d.attributes["n"] for d in drafts(*some, order_by=("n",))] == sorted(row["n"] for row in some)
    assert [d.attributes.get("n") for d in drafts({"n": 1}, {"price": 1.0}, order_by=("n",))] == [None, 1]


def test_a_row_that_cannot_be_an_event_is_named():
    with pytest.raises(
        EventError, match="row 2 of partition 3 of batch 1 cannot be published: attribute 'price' is nan"
    ):
        drafts({"n": 1}, {"price": float("nan")})
    with pytest.raises(EventError, match=r"row 1 of .*: attribute name ''"):
        drafts({"attributes": [("", "x")]})


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (schema(x=sql.TimestampType()), "column 'x': type timestamp is not supported; cast it"),
        (schema(payload=sql.LongType()), "binary or string"),
        (schema(attributes=sql.StringType()), "map<string,string> is wanted"),
    ],
)
def test_a_column_that_no_event_can_carry_is_named(asked, said):
    with pytest.raises(SettingsError, match=said):
        Drafts(asked)


def test_an_order_by_nothing_is_refused():
    with pytest.raises(SettingsError, match="there is no column 'm'"):
        Drafts(SINK, ("m",))


# Offsets -------------------------------------------------------------------------------------------------------

PLACES = [ReadPosition("a", "h:1", 1, 2, 3, at) for at in (4, 5)]


def test_offsets_come_back_as_they_were():
    offset = offsets.offset_of(SHARES, PLACES)
    assert offset["version"] == 1
    assert offsets.places_in(offset, SHARES) == PLACES
    assert offsets.places_in(offsets.BEGINNING, SHARES) is None


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        ({"version": 2}, "version 2"),
        ({}, "version None"),
        ({"version": 1, "0": {"filter": "x"}}, "no offset of ours"),
        ({"version": 1, "1": {}}, "no offset of ours"),
        (offsets.offset_of(SHARES[:1], PLACES[:1]), "filter or split are not those"),
        (offsets.offset_of(SHARES[::-1], PLACES), "filter or split are not those"),
    ],
)
def test_an_offset_of_other_options_or_times_is_refused(offset, said):
    with pytest.raises(SettingsError, match=said):
        offsets.places_in(offset, SHARES)
