"""Records, the recorder, and the total order."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.errors import TraceError
from pleach.trace import Record, Recorder, RecordKind, attributes_from, attributes_text, total_order
from support.trace.written_traces import script

VALUES = st.one_of(
    st.text(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.binary(),
)


@given(st.dictionaries(st.text(), VALUES))
def test_attributes_survive_as_text(attributes):
    back = attributes_from(attributes_text(attributes))
    assert back == attributes
    assert {name: type(value) for name, value in back.items()} == {n: type(v) for n, v in attributes.items()}


def test_attributes_text_is_canonical():
    assert attributes_text({"b": 1, "a": b"\x00\xff"}) == '{"a":{"$bytes":"AP8="},"b":1}'
    assert attributes_text({"a": 1, "b": 2}) == attributes_text({"b": 2, "a": 1})


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"a":null}', '{"a":[1]}', '{"a":{"$bytes":"?"}}', '{"a":{"$bytes":"","b":1}}', "\ud800"]
)
def test_attributes_that_are_none_are_refused(text: str):
    with pytest.raises(TraceError):
        attributes_from(text)


def test_recorder_numbers_each_node_in_order_of_arrival():
    recorder = Recorder("r")
    recorder.add(RecordKind.PUBLISH, at=1.0, node="p", event="p/0/1", client="p", attributes="{}")
    recorder.add(RecordKind.SEND, at=1.0, node="b", peer="c", message="Forward", bytes=17)
    recorder.add(RecordKind.PUBLISH_ACK, at=2.0, node="p", event="p/0/1")
    assert recorder.records == [
        Record("r", 1.0, "p", 1, "publish", event="p/0/1", client="p", attributes="{}"),
        Record("r", 1.0, "b", 1, "send", peer="c", message="Forward", bytes=17),
        Record("r", 2.0, "p", 2, "publish_ack", event="p/0/1"),
    ]


def test_recorder_keeps_only_the_kinds_that_are_wanted():
    recorder = Recorder("r", kinds=frozenset({RecordKind.DELIVER}))
    assert recorder.wants(RecordKind.DELIVER)
    assert not recorder.wants(RecordKind.SEND)
    recorder.add(RecordKind.SEND, at=1.0, node="b")
    recorder.add(RecordKind.DELIVER, at=1.0, node="b")
    assert [(record.kind, record.n) for record in recorder.records] == [("deliver", 1)]


ONE_INSTANT = """
    1 c subscribe s1 | EXISTS x
    1 d subscribe s1 | EXISTS x
    2 p publish p/0/1 | {"x":1}
    2 c deliver p/0/1
    2 c publish c/0/1 | {"x":2}
    2 c publish_ack c/0/1
    2 d deliver p/0/1
    2 d deliver c/0/1
    3 - drain
"""


def test_order_of_arrival_stands():
    records = script(ONE_INSTANT)
    assert total_order(records) == records


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_rows_is_put_right(seed: int):
    """By time; within an instant each node by n, and nothing before the publication that caused it."""
    rows = script(ONE_INSTANT)
    random.Random(seed).shuffle(rows)
    ordered = total_order(rows)
    assert sorted(ordered, key=str) == sorted(rows, key=str)
    assert [record.at for record in ordered] == sorted(record.at for record in rows)
    for node in "cdp":
        mine = [record.n for record in ordered if record.node == node]
        assert mine == sorted(mine)
    published = [record.event for record in ordered if record.kind == "publish"]
    for event in published:
        kinds = [record.kind for record in ordered if record.event == event]
        assert kinds[0] == "publish"


def test_an_instant_that_contradicts_itself_loses_no_record():
    rows = script("1 c deliver p/0/1\n 1 c publish c/0/1\n 1 p deliver c/0/1\n 1 p publish p/0/1")
    assert sorted(total_order(rows), key=str) == sorted(rows, key=str)


def test_kinds_are_those_of_the_design():
    assert " ".join(RecordKind) == (
        "publish publish_ack publish_fail subscribe subscribe_ack unsubscribe unsubscribe_ack advertise unadvertise "
        "deliver drain send state fault move"
    )
