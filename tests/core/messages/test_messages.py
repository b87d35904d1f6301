"""Every message survives the wire; what is no message is refused."""

import builtins
import types
from enum import Enum
from typing import Annotated, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core import messages
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import AnyMessage, Forward, Layer, Publish, council, decode, encode
from pleach.core.messages.requests import Way

FILTERS = [
    parse_filter(text)
    for text in ("TRUE", "x > 1 AND NOT EXISTS y", "s LIKE '%a%' OR b = X'00ff'", "x IN (1, 2.5) AND flag = TRUE")
]
names = st.text(max_size=8).filter(lambda text: text.isprintable())
values = st.one_of(
    names, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.binary(max_size=8)
)
event_ids = st.builds(EventId, names, st.integers(0, 2**31), st.integers(1, 2**62))
events = st.builds(Event, event_ids, st.dictionaries(names, values, max_size=5), st.binary(max_size=20))

OF_TYPE = {
    "str": names,
    "int": st.integers(0, 2**40),
    "bool": st.booleans(),
    "Filter": st.sampled_from(FILTERS),
    "Event": events,
    "EventId": event_ids,
    "Layer": st.sampled_from(Layer),
    "float": st.floats(0.0, 1e9),
    "bytes": st.binary(max_size=8),
}

BOUNDED = {council.Natural: st.integers(0, 2**32), council.Level: st.integers(0, 31)}


def made(kind):
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, *(of_type(field.type) for field in fields))


def of_type(kind):
    """What a field of this type may hold: containers, unions and structs are made of their parts."""
    if kind == Way:
        return st.lists(names, min_size=1, max_size=3)
    if kind == council.Way:
        return st.lists(made(council.BrokerOnPath), min_size=1, max_size=3)
    if get_origin(kind) is Annotated:
        return of_type(get_args(kind)[0]) if kind not in BOUNDED else BOUNDED[kind]
    parts = get_args(kind)
    match get_origin(kind):
        case builtins.list:
            return st.lists(of_type(parts[0]), max_size=3)
        case builtins.dict:
            return st.dictionaries(of_type(parts[0]), of_type(parts[1]), max_size=3)
        case builtins.tuple if parts[-1] is Ellipsis:
            return st.lists(of_type(parts[0]), max_size=3).map(tuple)
        case builtins.tuple:
            return st.tuples(*map(of_type, parts))
        case types.UnionType:
            return st.one_of(*(st.none() if part is types.NoneType else of_type(part) for part in parts))
    if kind.__name__ in OF_TYPE:
        return OF_TYPE[kind.__name__]
    return st.sampled_from(kind) if issubclass(kind, Enum) else made(kind)


@given(st.one_of(*(made(kind) for kind in get_args(AnyMessage))))
def test_what_is_encoded_is_decoded(message):
    again = decode(encode(message))
    assert again == message
    assert type(again) is type(message)


@given(events)
def test_values_keep_their_types(event):
    again = decode(encode(Publish(event)))
    assert {k: (type(v), v) for k, v in again.event.attributes.items()} == {
        k: (type(v), v) for k, v in event.attributes.items()
    }


def test_every_message_type_has_one_name_on_the_wire():
    tags = [kind.__struct_config__.tag for kind in get_args(AnyMessage)]
    assert len(tags) == len(set(tags))
    declared = [m for m in vars(messages).values() if isinstance(m, type) and issubclass(m, messages.Message)]
    assert set(declared) - {messages.Message} == set(get_args(AnyMessage))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x91\xa4Nope", encode(Forward(Event(EventId("p", 0, 1), {})))[:-2]])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(msgspec.DecodeError):
        decode(data)
