"""Conversion of events to and from CloudEvents 1.0, in structured JSON form and in binary form (headers and a body).

**Identity.** `source` and `id` together identify. An event of ours, (publisher, incarnation, sequence), is
`source = /publisher` (percent-encoded) and `id = incarnation/sequence`. Any other pair comes from elsewhere and
has no order, so each becomes a publisher of its own with a single event: `cloudevents:source:id`
(both percent-encoded), incarnation 0, sequence 1. Both directions are inverse to each other.

**Attributes.** `type`, `subject`, `time`, `dataschema`, `datacontenttype` and the extensions are attributes of the same
names. `type` is required there and not here: `DEFAULT_TYPE` stands for none. CloudEvents has no floats, no 64-bit
integers and restricted names; headers have only texts. Attributes that would not survive a round trip are in the
extension `pleachattributes`: a JSON object of names and values, floats with a point or exponent, bytes as `{"base64":
…}`. On input it overrides the plain extensions.

**Payload.** It is sent as `data_base64`, or as the body. On input `data` is accepted too: as JSON, or as text where
`datacontenttype` is not JSON.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from pleach.core.events.event import PUBLISHER_BYTES_MAX, Event, EventId, checked
from pleach.errors import EventError

SPEC_VERSION = "1.0"
DEFAULT_TYPE = "pleach.event"
REST = "pleachattributes"
FOREIGN = "cloudevents:"
HEADER_PREFIX = "ce-"
IDENTITY_CHARACTERS_MAX = 3 * PUBLISHER_BYTES_MAX + 64  # the longest publisher percent-encoded, and two numbers

Pair: TypeAlias = tuple[str, str]  # source, id

_RESERVED = frozenset(("specversion", "source", "id", "data", REST))  # not attributes
_INT32 = range(-(2**31), 2**31)
_NATIVE_ID = re.compile(r"(0|[1-9][0-9]{0,18})/([1-9][0-9]{0,18})")
_EXTENSION_NAME = re.compile(r"[a-z0-9]{1,20}")
_FOREIGN_NAME = re.compile(r"[a-z0-9]+")  # others use longer names
_JSON_CONTENT = re.compile(r"[^/;]+/(?:[^;]+\+)?json(?: *;.*)?", re.IGNORECASE)
# CloudEvents strings hold no control characters and no noncharacters.
_PLAIN_TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]+")
_HEADER_SAFE = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')
_CONTEXT_SHAPES = {
    "type": _PLAIN_TEXT,
    "subject": _PLAIN_TEXT,
    "time": re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII),
    "dataschema": re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!#-~]+"),
    "datacontenttype": re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?: *; *[!-~]+)*"),
}  # the attributes that CloudEvents defines, all of them texts


def to_json(event: Event) -> bytes:
    """The event in structured form, of content type `application/cloudevents+json`."""
    plain = _plain(event.attributes)
    members = {**_identity(event), **plain, **_rest(event.attributes, without=plain)}
    if event.payload:
        members["data_base64"] = base64.b64encode(event.payload).decode()
    return msgspec.json.encode(members)


def from_json(text: bytes | str) -> Event:
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise EventError(f"the CloudEvent is not valid JSON: {error}") from None
    if not isinstance(decoded, dict):
        raise EventError("the CloudEvent is not a JSON object")
    members = {name: value for name, value in decoded.items() if value is not None}
    payload = _payload(members)
    if "data" in members:
        members.setdefault("datacontenttype", "application/json")  # as the JSON format says
    return _event({n: v for n, v in members.items() if n not in ("data", "data_base64")}, payload)


def to_binary(event: Event) -> tuple[dict[str, str], bytes]:
    """The event in binary form: headers and body. Numbers and booleans are also written as texts."""
    plain = _plain(event.attributes)
    texts = [name for name, value in plain.items() if isinstance(value, str)]
    members = {**_identity(event), **plain, **_rest(event.attributes, without=texts)}
    content_type = members.pop("datacontenttype", None)
    headers = {HEADER_PREFIX + name: _header(value) for name, value in members.items()}
    return headers | ({"content-type": content_type} if content_type else {}), event.payload


def from_binary(headers: Mapping[str, str], body: bytes) -> Event:
    """The event of an HTTP message; other headers are ignored."""
    members: dict[str, Any] = {}
    for name, value in headers.items():
        lower = name.lower()
        if lower.startswith(HEADER_PREFIX):
            members[lower.removeprefix(HEADER_PREFIX)] = _percent_decoded(value, lower)
        elif lower == "content-type":
            members["datacontenttype"] = value
    return _event(members, body)


def event_id_of(source: str, identifier: str) -> EventId:
    """The id of the event that CloudEvents knows by `source` and `identifier`."""
    if len(source) + len(identifier) > IDENTITY_CHARACTERS_MAX:
        raise EventError(f"the CloudEvent's source and id have more than {IDENTITY_CHARACTERS_MAX:,} characters")
    native = _native(source, identifier)
    if native is not None and _foreign_pair(native) is None:
        return native
    return EventId(f"{FOREIGN}{quote(source, safe='')}:{quote(identifier, safe='')}", 0, 1)


def source_and_id_of(event_id: EventId) -> Pair:
    foreign = _foreign_pair(event_id)
    if foreign is not None:
        return foreign
    return f"/{quote(event_id.publisher, safe='')}", f"{event_id.incarnation}/{event_id.sequence}"


def _native(source: str, identifier: str) -> EventId | None:
    """The event id that a pair represents, if it is its canonical form."""
    numbers = _NATIVE_ID.fullmatch(identifier)
    publisher = _unquoted(source[1:])
    if numbers is None or not publisher or source != f"/{quote(publisher, safe='')}":
        return None
    return EventId(publisher, int(numbers[1]), int(numbers[2]))


def _foreign_pair(event_id: EventId) -> Pair | None:
    """The foreign pair that an id represents, if any. The recursion ends, since the strings get shorter."""
    if not event_id.publisher.startswith(FOREIGN) or event_id[1:] != (0, 1):
        return None
    parts = [_unquoted(part) for part in event_id.publisher.removeprefix(FOREIGN).split(":")]
    match parts:
        case [str(source), str(identifier)] if source and identifier and event_id_of(source, identifier) == event_id:
            return source, identifier
        case _:
            return None


def _unquoted(text: str) -> str | None:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None


def _identity(event: Event) -> dict[str, Any]:
    source, identifier = source_and_id_of(event.id)
    return {"specversion": SPEC_VERSION, "id": identifier, "source": source, "type": DEFAULT_TYPE}


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that CloudEvents can name and hold."""
    return {name: value for name, value in sorted(attributes.items()) if _is_plain(name, value)}


def _is_plain(name: str, value: Any) -> bool:
    if name in _RESERVED or not _EXTENSION_NAME.fullmatch(name) or (name, value) == ("type", DEFAULT_TYPE):
        return False
    match value:
        case str():
            shape = _CONTEXT_SHAPES.get(name, _PLAIN_TEXT)
            return bool(_PLAIN_TEXT.fullmatch(value) and shape.fullmatch(value))
        case bool() | int():
            return name not in _CONTEXT_SHAPES and value in _INT32
        case _:
            return False


def _rest(attributes: Mapping[str, Any], *, without: Collection[str]) -> dict[str, str]:
    """The extension with all attributes that the plain form does not carry."""
    carried = {name: _typed(value) for name, value in attributes.items() if name not in without}
    return {REST: msgspec.json.encode(carried, order="sorted").decode()} if carried else {}


def _typed(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _event(members: Mapping[str, Any], payload: bytes) -> Event:
    if members.get("specversion") != SPEC_VERSION:
        found = members.get("specversion")
        raise EventError(f"the CloudEvent's specversion is {found!r}: {SPEC_VERSION!r} is wanted")
    event_id = event_id_of(_text(members, "source"), _text(members, "id"))
    attributes = dict(_attributes(members))
    if _text(members, "type") == DEFAULT_TYPE:
        del attributes["type"]
    attributes.update(_carried(members.get(REST, "{}")))
    return checked(Event(event_id, attributes, payload))


def _text(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not value:
        raise EventError(f"the CloudEvent's {name} is {value!r}: a text that is not empty is wanted")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise EventError(f"the CloudEvent's {name} is not valid Unicode (a lone surrogate)") from None
    return value


def _attributes(members: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in members.items():
        if name in _RESERVED:
            continue
        if not _FOREIGN_NAME.fullmatch(name):
            raise EventError(f"the CloudEvent's attribute {name!r}: names of lower-case letters and digits are wanted")
        if name in _CONTEXT_SHAPES:
            yield name, _text(members, name)
        elif isinstance(value, (str, bool, int, float)):
            yield name, value
        else:
            raise EventError(f"the CloudEvent's {name} is {value!r}: a text, number or boolean is wanted")


def _carried(text: Any) -> Iterator[tuple[str, Any]]:
    """The attributes in the extension that carries the rest."""
    try:
        members = msgspec.json.decode(text, type=dict[str, Any])
        for name, value in members.items():
            match value:
                case {"base64": str(encoded), **others} if not others:
                    yield name, base64.b64decode(encoded, validate=True)
                case _:
                    yield name, value
    except (msgspec.MsgspecError, UnicodeError, TypeError, binascii.Error) as error:
        raise EventError(f"the CloudEvent's {REST} is not as Pleach writes it: {error}") from None


def _payload(members: Mapping[str, Any]) -> bytes:
    match members:
        case {"data": _, "data_base64": _}:
            raise EventError("the CloudEvent has both data and data_base64: one of them is wanted")
        case {"data_base64": encoded}:
            return _base64(encoded)
        case {"data": str(text), "datacontenttype": str(kind)} if not _JSON_CONTENT.fullmatch(kind):
            return text.encode()
        case {"data": data}:
            return msgspec.json.encode(data)
        case _:
            return b""


def _base64(encoded: Any) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError) as error:
        raise EventError(f"the CloudEvent's data_base64 is not base64: {error}") from None


def _header(value: Any) -> str:
    """A value as a header: visible ASCII as it is, all else (and quotes, percent signs) percent-encoded."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote(str(value), safe=_HEADER_SAFE)


def _percent_decoded(value: str, header: str) -> str:
    decoded = _unquoted(value)
    if decoded is None:
        raise EventError(f"the header {header} does not hold UTF-8 once percent-decoded")
    return decoded
