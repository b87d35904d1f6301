"""CloudEvents 1.0: our events survive the way there and back, those of others are understood or refused by name."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events.cloudevents import (
    DEFAULT_TYPE,
    REST,
    event_id_of,
    from_binary,
    from_json,
    source_and_id_of,
    to_binary,
    to_json,
)
from pleach.core.events.event import Event, EventId
from pleach.errors import EventError
from support.events.algebra_domain import examples

texts = st.text(max_size=12)
names = st.one_of(
    st.sampled_from(
        [
            "type",
            "subject",
            "time",
            "id",
            "source",
            "specversion",
            "data",
            "data_base64",
            "dataschema",
            "datacontenttype",
        ]
    ),
    st.sampled_from([REST, "price", "Price", "price.eur", "größe", "x" * 20, "x" * 21]),
    st.text(min_size=1, max_size=8),
)
values = st.one_of(
    texts,
    st.sampled_from(["5", "true", "", " a ", "50%", '"', "a/b", "text/plain; charset=utf-8", "2026-01-02T03:04:05Z"]),
    st.just(DEFAULT_TYPE),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([5.0, -0.0, 1e300]),
    st.booleans(),
    st.binary(max_size=8),
)
publishers = st.text(min_size=1, max_size=12) | st.sampled_from(
    ["p1", "a/b", "cloudevents:%2Fp:0%2F1", "cloudevents:http%3A%2F%2Fx:1", "cloudevents::", "cloudevents:a:b"]
)
ids = st.builds(EventId, publishers, st.integers(0, 2), st.integers(1, 3))
events = st.builds(Event, ids, st.dictionaries(names, values, max_size=6), st.binary(max_size=20))


def typed(event):
    """Equality that tells 5 from 5.0 and True, and 0.0 from -0.0."""
    attributes = {name: (type(value), repr(value)) for name, value in event.attributes.items()}
    return event.id, attributes, event.payload


@examples(250)
@given(events)
def test_structured_form_round_trip(event):
    text = to_json(event)
    assert typed(from_json(text)) == typed(event)
    assert typed(from_json(text.decode())) == typed(event)
    members = json.loads(text)
    assert members["specversion"] == "1.0"
    assert all(members[name] for name in ("id", "source", "type"))
    assert all(re.fullmatch("[a-z0-9]{1,20}", name) for name in members if name != "data_base64")


@examples(250)
@given(events)
def test_binary_form_round_trip(event):
    headers, body = to_binary(event)
    assert typed(from_binary(headers, body)) == typed(event)
    assert typed(from_binary({name.title(): value for name, value in headers.items()}, body)) == typed(event)
    for value in headers.values():
        assert value.isascii()
        assert value.isprintable()
        assert value == value.strip()


uris = st.sampled_from(["/p1", "/p", "p", "https://example.com/a b", "urn:x", "/cloudevents%3A%252Fp%3A0%252F1", "//a"])
identifiers = st.sampled_from(["1", "0/1", "2/3", "00/1", "0/0", "A-1", "a:b", "é"])


@examples(300)
@given(uris | st.text(min_size=1, max_size=8), identifiers | st.text(min_size=1, max_size=8))
def test_any_source_and_id_survive(source, identifier):
    assert source_and_id_of(event_id_of(source, identifier)) == (source, identifier)


@examples(300)
@given(ids)
def test_any_event_id_survives(event_id):
    assert event_id_of(*source_and_id_of(event_id)) == event_id


def test_a_source_that_spells_the_publisher_of_a_foreign_event_is_told_from_it():
    foreign = event_id_of("urn:x", "1")
    lookalike = ("/cloudevents%3Aurn%253Ax%3A1", "0/1")  # how the publisher of `foreign` would be written as ours
    assert event_id_of(*lookalike) != foreign
    assert source_and_id_of(event_id_of(*lookalike)) == lookalike
    assert source_and_id_of(foreign) == ("urn:x", "1")


def test_deeply_quoted_sources_end():
    event_id = EventId("p", 0, 1)
    for _ in range(20):
        source, identifier = source_and_id_of(event_id)
        event_id = event_id_of("/cloudevents%3A" + source, identifier)
    assert event_id_of(*source_and_id_of(event_id)) == event_id
    with pytest.raises(EventError, match="source and id have more than"):
        event_id_of("s" * 20_000, "1")


def test_how_an_event_of_ours_looks():
    event = Event(EventId("desk 1", 2, 7), {"topic": "t1", "price": 5.5, "count": 3, "ok": True}, b"\x00\x01")
    assert json.loads(to_json(event)) == {
        "specversion": "1.0",
        "source": "/desk%201",
        "id": "2/7",
        "type": "pleach.event",
        "topic": "t1",
        "count": 3,
        "ok": True,
        "pleachattributes": '{"price":5.5}',
        "data_base64": "AAE=",
    }
    headers, body = to_binary(event)
    assert headers["ce-topic"] == "t1"
    assert headers["ce-count"] == "3"
    assert headers["ce-ok"] == "true"
    assert headers["ce-pleachattributes"] == "{%22count%22:3,%22ok%22:true,%22price%22:5.5}"
    assert body == b"\x00\x01"


FOREIGN = {
    "specversion": "1.0",
    "type": "com.github.pull_request.opened",
    "source": "https://github.com/cloudevents/spec/pull",
    "subject": "123",
    "id": "A234-1234-1234",
    "time": "2018-04-05T17:31:00Z",
    "comexampleextension1": "value",
    "comexampleothervalue": 5,
    "datacontenttype": "text/xml",
    "data": '<much wow="xml"/>',
}


def test_an_event_from_elsewhere():
    event = from_json(json.dumps(FOREIGN))
    assert event.payload == b'<much wow="xml"/>'
    assert event.attributes == {
        "type": "com.github.pull_request.opened",
        "subject": "123",
        "time": "2018-04-05T17:31:00Z",
        "comexampleextension1": "value",
        "comexampleothervalue": 5,
        "datacontenttype": "text/xml",
    }
    assert event.id[1:] == (0, 1)
    again = json.loads(to_json(event))
    assert (again["source"], again["id"]) == (FOREIGN["source"], FOREIGN["id"])
    assert from_json(to_json(event)) == event


@pytest.mark.parametrize(
    ("members", "payload", "content"),
    [
        ({"data": {"a": [1, None]}, "datacontenttype": None}, b'{"a":[1,null]}', "application/json"),
        ({"data": "text", "datacontenttype": "application/json"}, b'"text"', "application/json"),
        ({"data": "text", "datacontenttype": "application/vnd.x+json; a=b"}, b'"text"', "application/vnd.x+json; a=b"),
        ({"data": "é", "datacontenttype": "text/plain"}, b"\xc3\xa9", "text/plain"),
        ({"data": None, "datacontenttype": "text/plain"}, b"", "text/plain"),
        ({"data": None, "data_base64": "AAE=", "datacontenttype": None}, b"\0\1", None),
    ],
)
def test_data_from_elsewhere(members, payload, content):
    event = from_json(json.dumps({**FOREIGN, **members}))
    assert event.payload == payload
    assert event.attributes.get("datacontenttype") == content


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"specversion": "0.3"}, "specversion is '0.3'"),
        ({"specversion": None}, "specversion is None"),
        ({"id": ""}, "id is ''"),
        ({"id": 5}, "id is 5"),
        ({"source": None}, "source is None"),
        ({"type": None}, "type is None"),
        ({"subject": 5}, "subject is 5"),
        ({"Upper": "a"}, "'Upper'"),
        ({"with_underscore": "a"}, "'with_underscore'"),
        ({"nested": {"a": 1}}, "nested is"),
        ({"listed": [1]}, "listed is"),
        ({"big": 2**70}, "'big'"),
        ({"data_base64": "AA=="}, "both data and data_base64"),
        ({"data": None, "data_base64": "A"}, "data_base64 is not base64"),
        ({"data": None, "data_base64": 5}, "data_base64 is not base64"),
        ({REST: "[]"}, REST),
        ({REST: 5}, REST),
        ({REST: '{"a":{"base64":"?"}}'}, REST),
        ({REST: '{"a":[1]}'}, "'a'"),
    ],
)
def test_malformed_events_are_refused_by_the_name_of_the_field(members, named):
    with pytest.raises(EventError) as caught:
        from_json(json.dumps({**FOREIGN, **members}))
    assert named in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "5", b"\xff", '{"id":"\\ud800"}'])
def test_what_is_no_json_object_is_refused(text):
    with pytest.raises(EventError, match=r"not valid JSON|not a JSON object|specversion"):
        from_json(text)


def test_headers_from_elsewhere():
    headers = {"CE-SpecVersion": "1.0", "Ce-Type": "t", "ce-source": "/s", "ce-id": "x", "Host": "h", "ce-n": "5"}
    event = from_binary({**headers, "ce-euro": "%E2%82%AC 5", "Content-Type": "text/plain"}, b"body")
    assert event.attributes == {"type": "t", "n": "5", "euro": "€ 5", "datacontenttype": "text/plain"}
    assert event.payload == b"body"
    with pytest.raises(EventError, match="ce-euro"):
        from_binary({**headers, "ce-euro": "%FF"}, b"")
    with pytest.raises(EventError, match="type is None"):
        from_binary({name: value for name, value in headers.items() if name != "Ce-Type"}, b"")
    with pytest.raises(EventError, match="source is not valid Unicode"):
        from_binary({**headers, "ce-source": "\ud800"}, b"")
