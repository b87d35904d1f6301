"""Every message survives the wire; what is no message is refused."""

import builtins
import types
from enum import Enum
from typing import Annotated, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    AnyMessage,
    BrokerLocation,
    Connect,
    FallbackBrokers,
    Forward,
    Installed,
    Layer,
    LocationReport,
    Lock,
    Message,
    Publish,
    Redirect,
    council,
    decode,
    encode,
    ring,
)
from pleach.core.messages.base import NetworkAddress
from pleach.core.messages.requests import NodePath
from pleach.errors import EventError

FILTERS = [
    parse_filter(text)
    for text in ("TRUE", "x > 1 AND NOT EXISTS y", "s LIKE '%a%' OR b = X'00ff'", "x IN (1, 2.5) AND flag = TRUE")
]
names = st.text(max_size=8).filter(lambda text: text.isprintable())
values = st.one_of(
    names,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.binary(max_size=8),
)
event_ids = st.builds(EventId, names.filter(bool), st.integers(0, 2**31), st.integers(1, 2**62))
attributes = st.dictionaries(names.filter(bool), values, max_size=5)
events = st.builds(Event, event_ids, attributes, st.binary(max_size=20))

OF_TYPE = {
    "str": names,
    "int": st.integers(0, 2**40),
    "bool": st.booleans(),
    "Filter": st.sampled_from(FILTERS),
    "EventId": event_ids,
    "Layer": st.sampled_from(Layer),
    "float": st.floats(0.0, 1e9),
    "bytes": st.binary(max_size=8),
}

BOUNDED = {
    council.Natural: st.integers(0, 2**32),
    council.Level: st.integers(0, 31),
    NetworkAddress: st.sampled_from(["", "a:1", "a.example:7200", "[::1]:7200", "127.0.0.1:0"]),
}


def made(kind, events=events):
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, *(of_type(field.type, events) for field in fields))


def of_type(kind, events):
    """What a field of this type may hold: containers, unions and structs are made of their parts."""
    if kind is Event:
        return events
    if kind == NodePath:
        return st.lists(names, min_size=1, max_size=3)
    if kind == council.BrokerPath:
        return st.lists(made(council.BrokerOnPath), min_size=1, max_size=3)
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        return st.lists(of_type(get_args(kind)[0], events), max_size=3).map(tuple)
    if get_origin(kind) is Annotated:
        return of_type(get_args(kind)[0], events) if kind not in BOUNDED else BOUNDED[kind]
    parts = [st.none() if part is types.NoneType else of_type(part, events) for part in parts_of(kind)]
    match get_origin(kind):
        case builtins.list:
            return st.lists(parts[0], max_size=3)
        case builtins.dict:
            return st.dictionaries(*parts, max_size=3)
        case builtins.tuple:
            return st.tuples(*parts)
        case types.UnionType:
            return st.one_of(*parts)
    if kind.__name__ in OF_TYPE:
        return OF_TYPE[kind.__name__]
    return st.sampled_from(kind) if issubclass(kind, Enum) else made(kind, events)


def parts_of(kind):
    return [] if get_origin(kind) is Annotated else get_args(kind)


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


# Events within messages ------------------------------------------------------------------------------------------


def carries(kind):
    """Whether a value of this type may have an event in it, by the types of its fields."""
    if kind is Event:
        return True
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return any(carries(field.type) for field in msgspec.structs.fields(kind))
    return any(map(carries, get_args(kind)))


def events_within(value):
    """All events in a value, found by looking at every field."""
    match value:
        case Event():
            return [value]
        case msgspec.Struct():
            return [event for name in value.__struct_fields__ for event in events_within(getattr(value, name))]
        case list() | tuple():
            return [event for each in value for event in events_within(each)]
    return []


def with_event(kind, event):
    """The simplest value of a type that has the event in it."""
    if kind is Event:
        return event
    match get_origin(kind):
        case builtins.list:
            return [with_event(get_args(kind)[0], event)]
        case types.UnionType:
            return with_event(next(filter(carries, get_args(kind))), event)
    fields = msgspec.structs.fields(kind)
    return kind(*(with_event(f.type, event) if carries(f.type) else simplest(f.type) for f in fields))


def simplest(kind):
    if types.NoneType in get_args(kind):
        return None
    if get_origin(kind) is Annotated:
        return simplest(get_args(kind)[0])
    kind = get_origin(kind) or kind
    return next(iter(kind)) if issubclass(kind, Enum) else kind()


CARRIERS = [kind for kind in get_args(AnyMessage) if carries(kind)]
ODD_EVENTS = {
    "a list": Event(EventId("p", 0, 1), {"n": [1]}),
    "a map": Event(EventId("p", 0, 1), {"n": {"x": 1}}),
    "nothing": Event(EventId("p", 0, 1), {"n": None}),
    "not a number": Event(EventId("p", 0, 1), {"n": float("nan")}),
    "infinity": Event(EventId("p", 0, 1), {"n": float("-inf")}),
    "a large integer": Event(EventId("p", 0, 1), {"n": 2**63}),
    "an empty name": Event(EventId("p", 0, 1), {"": 1}),
    "a long name": Event(EventId("p", 0, 1), {"n" * 257: 1}),
    "many attributes": Event(EventId("p", 0, 1), {f"k{n}": n for n in range(257)}),
    "a large payload": Event(EventId("p", 0, 1), {"n": 1}, bytes(1_048_576)),
    "no publisher": Event(EventId("", 0, 1), {"n": 1}),
    "an incarnation below 0": Event(EventId("p", -1, 1), {"n": 1}),
    "no sequence": Event(EventId("p", 0, 0), {"n": 1}),
}


def test_these_messages_carry_events():
    assert {kind.__name__ for kind in CARRIERS} == {
        *("Publish", "Forward", "Deliver", "Marked", "Along", "Coloured", "OnBehalf", "Said"),
    }
    assert {kind for kind in get_args(AnyMessage) if kind.events is not Message.events} == {*CARRIERS}


@given(st.one_of(*map(made, CARRIERS)))
def test_a_message_knows_its_events(message):
    assert [*message.events] == events_within(message)


@pytest.mark.parametrize("odd", ODD_EVENTS)
@pytest.mark.parametrize("kind", CARRIERS)
def test_an_event_that_is_none_is_refused_whatever_wraps_it(kind, odd):
    event = ODD_EVENTS[odd]
    message = with_event(kind, event)
    assert [*message.events] == events_within(message) == [event]
    data = encode(message)
    if kind is Publish:  # the broker answers it
        assert encode(decode(data)) == data
    else:
        with pytest.raises(EventError):
            decode(data)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x91\x7f", b"\x91\xa6Attach", encode(Forward(Event(EventId("p", 0, 1), {})))[:-2]]
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(msgspec.DecodeError):
        decode(data)


HOSTILE = [
    Connect("o", "a..b:7200"),
    Connect("o", "a\n:1"),
    Lock("o", "a" * 256, "b", "c"),
    Lock("o", "a\n", "b", "c"),
    Redirect("b", "x" * 64 + ":1"),
    Redirect("b", "a:1", 2**63),
    Installed(Layer.SUBSCRIPTIONS, 2**63),
    LocationReport({"b": BrokerLocation(1, 1, 1, admin="a b:1")}, {}),
    FallbackBrokers(["nonsense"]),
]


@pytest.mark.parametrize("message", HOSTILE, ids=repr)
def test_names_numbers_and_addresses_that_cannot_be_are_not_decoded(message):
    with pytest.raises(msgspec.ValidationError):
        decode(encode(message))


def test_no_message_can_be_changed():
    """The same one goes to several neighbours, and waits in the outbox of each."""
    assert [kind.__name__ for kind in get_args(AnyMessage) if not kind.__struct_config__.frozen] == []


def test_every_number_in_a_message_is_bounded():
    """Those of a ring travel in datagrams, and are bounded by its circle (core/ring/)."""
    unbounded = {(kind.__name__, name) for kind, name in _integers() if kind.__module__ != ring.__name__}
    assert unbounded == set()


def _integers():
    """Fields of plain integers, in all structs that travel."""
    todo, seen = list(get_args(AnyMessage)), set()
    while todo:
        kind = todo.pop()
        if kind in seen:
            continue
        seen.add(kind)
        for field in msgspec.structs.fields(kind):
            types_in = [field.type]
            while types_in:
                inner = types_in.pop()
                if inner is int:
                    yield kind, field.name
                if get_origin(inner) is not Annotated:
                    types_in += get_args(inner)
                if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                    todo.append(inner)
