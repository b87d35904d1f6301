"""Events: what may be published, and what is refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events.event import EVENT_BYTES_MAX, Event, EventId, checked
from pleach.errors import EventError
from support.events.algebra_domain import examples

ID = EventId("p", 0, 1)


@examples(200)
@given(st.builds(EventId, st.text(min_size=1), st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1)))
def test_ids_read_back(event_id):
    assert EventId.parse(str(event_id)) == event_id


@pytest.mark.parametrize("text", ["", "p", "p/1", "/1/1", "p/1/", "p/a/1", "p/1/-1", "p/٣/1", "p/1/" + "9" * 5000])
def test_what_is_no_id_is_refused(text):
    with pytest.raises(EventError, match="publisher/incarnation/sequence"):
        EventId.parse(text)


def test_good_events_pass():
    attributes = {"s": "é", "i": -(2**63), "f": 1.5, "b": True, "d": b"\xff", "größe x": 1}
    event = Event(ID, attributes, b"payload")
    assert checked(event) is event


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Event(EventId("", 0, 1), {}), "needs a name"),
        (Event(EventId("p", -1, 1), {}), "needs a name"),
        (Event(EventId("p", 0, 0), {}), "count from 1"),
        (Event(EventId("p", 0, 2**63), {}), "64-bit"),
        (Event(EventId("\ud800", 0, 1), {}), "lone surrogate"),
        (Event(EventId("p" * 5000, 0, 1), {}), "4,096"),
        (Event(ID, {"": 1}), "non-empty"),
        (Event(ID, {"a" * 257: 1}), "256 bytes"),
        (Event(ID, {f"a{i}": 1 for i in range(257)}), "at most 256"),
        (Event(ID, {"x": 2**63}), "64 bits"),
        (Event(ID, {"x": float("nan")}), "finite"),
        (Event(ID, {"x": float("inf")}), "finite"),
        (Event(ID, {"x": "\udfff"}), "lone surrogate"),
        (Event(ID, {"x": None}), "NoneType"),
        (Event(ID, {"x": [1]}), "list"),
        (Event(ID, {}, "text"), "bytes are wanted"),
        (Event(ID, {}, b"x" * (EVENT_BYTES_MAX + 1)), "at most 1,048,576"),
    ],
)
def test_bad_events_are_refused_by_name(event, reason):
    with pytest.raises(EventError) as caught:
        checked(event)
    assert reason in str(caught.value)
