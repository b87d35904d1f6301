"""Wire tags: nobody changes one by accident, and none is read another way than it is written."""

import importlib
import pkgutil
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from pleach.core import messages
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter, parse_internal
from pleach.core.messages import Advertise, AnyMessage, Install, Message, Subscribe, decode, encode, wire_tag
from pleach.core.messages.base import EventMessage
from pleach.errors import FilterError

# Tags are for ever: add to this table, never change it. A class may get another name here. One that is gone leaves its
# tag in `RETIRED`.
TAGS = {
    "Attach": 1,
    "Detach": 2,
    "Publish": 3,
    "Subscribe": 4,
    "Unsubscribe": 5,
    "Advertise": 6,
    "Unadvertise": 7,
    "Renewed": 8,
    "Rejudge": 10,
    "Attached": 16,
    "Deliver": 17,
    "Published": 18,
    "PublishRefused": 19,
    "Subscribed": 20,
    "Unsubscribed": 21,
    "Advertised": 22,
    "Unadvertised": 23,
    "Refused": 24,
    "Forward": 32,
    "Install": 33,
    "Withdraw": 34,
    "Installed": 35,
    "Settle": 36,
    "Round": 37,
    "Marked": 38,
    "RequestSwap": 48,
    "RequestExchange": 49,
    "RequestAdd": 50,
    "RequestRemove": 51,
    "RequestMove": 52,
    "Seek": 53,
    "Sought": 54,
    "Presence": 55,
    "Permit": 56,
    "RequestAbandon": 57,
    "RequestHost": 60,
    "RequestUnhost": 61,
    "Lock": 64,
    "LockAck": 65,
    "LockNack": 66,
    "Abort": 67,
    "Aborted": 68,
    "Swap": 69,
    "Open": 70,
    "Close": 71,
    "Forgot": 72,
    "SwapAbandoned": 73,
    "LockCycle": 80,
    "CycleRefused": 81,
    "Begin": 82,
    "RelayTables": 83,
    "RelayRouting": 84,
    "Separator": 85,
    "EndOfRelay": 86,
    "Unlock": 87,
    "Activate": 88,
    "Flush": 89,
    "Begun": 90,
    "Reconfigure": 91,
    "Reconfigured": 92,
    "Removed": 93,
    "Done": 94,
    "CycleForgotten": 95,
    "CycleEnded": 96,
    "CycleAbandoned": 97,
    "Connect": 112,
    "ConnectAck": 113,
    "ConnectNack": 114,
    "RemoveReq": 115,
    "RemoveAck": 116,
    "RemoveNack": 117,
    "Handover": 118,
    "CloseAB": 119,
    "Redirect": 120,
    "Farewell": 121,
    "Said": 122,
    "ClientLeft": 123,
    "Left": 124,
    "ConnectAbandoned": 125,
    "RemoveAbandoned": 126,
    "Negotiate": 128,
    "Approve": 129,
    "Reject": 130,
    "MoveState": 131,
    "MoveAck": 132,
    "MoveCommit": 133,
    "MoveAbort": 134,
    "Halt": 135,
    "Halted": 136,
    "Resume": 137,
    "FallbackBrokers": 153,
    "LocationReport": 154,
    "Switch": 160,
    "Anew": 161,
    "InTable": 162,
    "Along": 163,
    "Muster": 164,
    "Whole": 165,
    "Coloured": 176,
    "Recolour": 177,
    "RecolourAck": 178,
    "Census": 179,
    "JoinTree": 180,
    "Welcome": 181,
    "Carry": 182,
    "Carried": 183,
    "OnBehalf": 184,
    "FindOwner": 192,
    "AskHop": 193,
    "NextHop": 194,
    "KeyOwner": 195,
    "FindPlace": 196,
    "RingPlace": 197,
    "RingPlaceTaken": 198,
    "AskRing": 199,
    "RingState": 200,
    "Notify": 201,
    "RingLeave": 202,
    "TreeLink": 203,
    "TreeLinkAnswer": 204,
    "TreeUnlink": 205,
    "Knock": 206,
    "Greeting": 207,
    "Bulletin": 224,
    "Motion": 225,
}
RETIRED = {9, 144, 145, 146, 147, 148, 152}
AREAS = [(1, 15), (16, 31), (32, 47), (48, 63), (64, 79), (80, 111), (112, 127), (128, 143), (144, 159), (160, 175)]
AREAS += [(176, 191), (192, 223), (224, 239)]


def modules():
    return [importlib.import_module(f"{messages.__name__}.{m.name}") for m in pkgutil.iter_modules(messages.__path__)]


def test_no_tag_has_changed():
    assert {kind.__name__: wire_tag(kind) for kind in get_args(AnyMessage)} == TAGS
    assert len(set(TAGS.values())) == len(TAGS)
    assert RETIRED.isdisjoint(TAGS.values())


def test_no_message_is_missing_from_the_union():
    declared = [m for module in modules() for m in vars(module).values() if isinstance(m, type)]
    assert {m for m in declared if issubclass(m, Message)} - {Message, EventMessage} == {*get_args(AnyMessage)}


def test_modules_use_disjoint_ranges():
    homes = {}
    for kind in get_args(AnyMessage):
        area = next(area for area in AREAS if area[0] <= wire_tag(kind) <= area[1])
        homes.setdefault(area, set()).add(kind.__module__.rpartition(".")[2])
    assert len(homes) == len(AREAS)
    shared = {frozenset(home) for home in homes.values() if len(home) > 1}
    assert shared == {frozenset(("requests", "hosting", "access"))}


def test_no_two_modules_define_the_same_name():
    """All of them are imported from the package: the last would win."""
    known = {}
    for module in modules():
        for name, value in vars(module).items():
            is_here = getattr(value, "__module__", module.__name__) in (module.__name__, "typing")
            if not name.startswith("_") and is_here:
                assert known.setdefault(name, value) is value, name


def test_the_reference_has_all_tags():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "wire.md").read_text()
    assert {name: int(tag) for name, tag in re.findall(r"`(\w+)` (\d+)[, ]", page)} == TAGS


# Filters of clients ----------------------------------------------------------------------------------------------

LONG = " AND ".join(f"a{n} = {n}" for n in range(600))  # more than a client may ask for, but not more than a broker
FROM_CLIENTS = {
    Subscribe: ["s", LONG],
    Advertise: ["a", LONG],
}
ENCODED = {
    "uint 8": lambda tag: b"\xcc" + tag.to_bytes(1),
    "uint 16": lambda tag: b"\xcd" + tag.to_bytes(2),
    "uint 32": lambda tag: b"\xce" + tag.to_bytes(4),
    "uint 64": lambda tag: b"\xcf" + tag.to_bytes(8),
    "int 8": lambda tag: b"\xd0" + tag.to_bytes(1),
    "int 16": lambda tag: b"\xd1" + tag.to_bytes(2),
    "int 32": lambda tag: b"\xd2" + tag.to_bytes(4),
    "int 64": lambda tag: b"\xd3" + tag.to_bytes(8),
    "float": lambda tag: msgspec.msgpack.encode(float(tag)),
    "text": lambda tag: msgspec.msgpack.encode(str(tag)),
}
ARRAYS = {
    "fixarray": lambda count: bytes([0x90 + count]),
    "array 16": lambda count: b"\xdc" + count.to_bytes(2),
    "array 32": lambda count: b"\xdd" + count.to_bytes(4),
}


def test_these_messages_have_filters_of_clients():
    """Whatever a client may send with a filter in it goes by the strict parser."""
    with_filters = {k for k in get_args(AnyMessage) if wire_tag(k) < 16 and Filter in _types_in(k)}
    assert with_filters == {*FROM_CLIENTS}
    assert all(len(msgspec.msgpack.encode(wire_tag(kind))) == 1 for kind in FROM_CLIENTS)


def _types_in(kind):
    return {part for field in msgspec.structs.fields(kind) for part in _parts_of(field.type)}


def _parts_of(kind):
    yield kind
    for part in get_args(kind):
        yield from _parts_of(part)


@pytest.mark.parametrize("kind", FROM_CLIENTS)
def test_a_client_may_not_ask_for_what_only_brokers_compose(kind):
    assert decode(msgspec.msgpack.encode([wire_tag(Install), 0, 1, "", LONG])).filter == parse_internal(LONG)
    with pytest.raises(FilterError):
        decode(msgspec.msgpack.encode([wire_tag(kind), *FROM_CLIENTS[kind]]))


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("kind", FROM_CLIENTS)
def test_another_encoding_of_the_tag_does_not_lead_past_the_strict_parser(kind, encoding, array):
    fields = FROM_CLIENTS[kind]
    body = b"".join(map(msgspec.msgpack.encode, fields))
    head = ARRAYS[array](len(fields) + 1)
    with pytest.raises(msgspec.DecodeError):
        decode(head + ENCODED[encoding](wire_tag(kind)) + body)
    if array != "fixarray":
        with pytest.raises(msgspec.DecodeError):
            decode(head + bytes([wire_tag(kind)]) + body)


@pytest.mark.parametrize("tag", [wire_tag(kind) for kind in FROM_CLIENTS])
def test_a_count_that_looks_like_a_tag_is_none(tag):
    """An array with a long head has its count where the tag would be."""
    asked = encode(Subscribe("s", parse_filter("TRUE")))
    with pytest.raises(msgspec.DecodeError):
        decode(b"\xdc" + bytes([tag, 4]) + asked[1:])
