"""Runs on the wire: what they stand for, and what is none."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events.event import Event, EventId
from pleach.core.messages import Deliver, Forward, Publish, decode, encode
from pleach.core.messages.runs import (
    RUN_BYTES_MAX,
    RUN_EVENTS_MAX,
    Run,
    decode_all,
    encode_event,
    encode_run,
    is_run,
    messages_in,
)
from pleach.errors import EventError

KINDS = (Publish, Forward, Deliver)
VALUES = st.text(max_size=5) | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.binary(max_size=5)
EVENTS = st.builds(
    Event,
    st.builds(EventId, st.text(min_size=1, max_size=3), st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1)),
    st.dictionaries(st.text(min_size=1, max_size=3), VALUES, max_size=3),
    st.binary(max_size=10),
)


def event(sequence, payload=b""):
    return Event(EventId("p", 7, sequence), {"x": sequence}, payload)


def run_of(kind, events):
    return encode_run(kind, len(events), b"".join(map(encode_event, events)))


@given(kind=st.sampled_from(KINDS), events=st.lists(EVENTS, min_size=1, max_size=5))
def test_a_run_stands_for_its_messages(kind, events):
    payload = run_of(kind, events)
    assert decode_all(payload) == [kind(each) for each in events]
    assert messages_in(payload) == len(events)
    assert is_run(payload) == (len(events) > 1)


def test_a_run_of_one_is_the_message_itself():
    assert run_of(Deliver, [event(1)]) == encode(Deliver(event(1)))
    assert not is_run(encode(Deliver(event(1))))


@given(start=st.integers(0, 4), length=st.integers(1, 4))
def test_some_of_a_run_are_the_bytes_of_their_events(start, length):
    events = [event(n + 1) for n in range(8)]
    run = Run(run_of(Forward, events))
    assert run.bytes_of(start, start + length) == b"".join(map(encode_event, events[start : start + length]))
    assert run.bytes_of(0, 8) == b"".join(map(encode_event, events))


def test_a_broker_glimpses_ids_attributes_and_payloads():
    run = Run(run_of(Publish, [event(1, b"a"), event(2, b"b")]))
    seen = [(g.id, msgspec.msgpack.decode(g.attributes), g.payload) for g in run.glimpses()]
    assert seen == [(("p", 7, 1), {"x": 1}, b"a"), (("p", 7, 2), {"x": 2}, b"b")]


TWO = run_of(Publish, [event(1), event(2)])
WRONG = {
    "only the mark": b"\xc1",
    "a head and nothing behind it": TWO[:5],
    "cut off": TWO[:-1],
    "something behind it": TWO + b"\x00",
    "a kind that is none": TWO[:1] + b"\x09" + TWO[2:],
    "no array": TWO[:2] + b"\x92" + TWO[3:],
    "empty": TWO[:3] + b"\x00\x00" + TWO[5:],
    "more than it says": TWO[:3] + b"\x00\x01" + TWO[5:],
    "fewer than it says": TWO[:3] + b"\x00\x03" + TWO[5:],
    "too many": run_of(Publish, [event(n + 1) for n in range(RUN_EVENTS_MAX + 1)]),
    "too large": run_of(Publish, [event(1, bytes(RUN_BYTES_MAX)), event(2)]),
    "no events": TWO[:5] + b"\xc0\xc0",
}


@pytest.mark.parametrize("payload", WRONG.values(), ids=WRONG)
def test_what_is_no_run_is_refused(payload):
    with pytest.raises(msgspec.DecodeError):
        decode_all(payload)


ODD_IDS = {
    "no publisher": ("", 0, 1),
    "no sequence": ("p", 0, 0),
    "an incarnation below 0": ("p", -1, 1),
    "more than 63 bits": ("p", 2**63, 1),
    "a long name": ("p" * 4_097, 0, 1),
    "a name of many bytes": ("ä" * 2_049, 0, 1),
}


@pytest.mark.parametrize("odd", ODD_IDS)
def test_the_ids_of_a_neighbours_events_are_validated(odd):
    """What is passed on is not looked at again: one that is refused later would cut an honest neighbour off."""
    run = Run(run_of(Forward, [event(1), Event(EventId(*ODD_IDS[odd]), {"x": 1})]))
    for read in (run.glimpses, run.messages):
        with pytest.raises(EventError):
            read()


@pytest.mark.parametrize("name", ["p" * 4_096, "ä" * 2_048, "ä" * 1_025, "\N{GRINNING FACE}" * 1_024])
def test_a_long_name_is_allowed(name):
    events = [event(1), Event(EventId(name, 0, 1), {"x": 1})]
    run = Run(run_of(Forward, events))
    assert [glimpse.id for glimpse in run.glimpses()] == [each.id for each in events]
    assert run.messages() == [Forward(each) for each in events]


@pytest.mark.parametrize("kind", KINDS)
def test_the_events_of_a_run_are_validated_as_those_of_messages(kind):
    run = Run(run_of(kind, [event(1), Event(EventId("p", 7, 2), {"x": [1]})]))
    if kind is Publish:  # the broker answers each of them
        assert len(run.messages()) == 2
    else:
        with pytest.raises(EventError):
            run.messages()


def test_no_message_looks_like_a_run():
    with pytest.raises(msgspec.DecodeError):
        decode(TWO)
