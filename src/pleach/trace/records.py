"""One row of a trace: the columns, the kinds, and the text form of an event's attributes.

What does not apply to a kind is the empty string or 0, never null: two records are equal if their rows are.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from pleach.core.events.event import Value
from pleach.errors import TraceError

BYTES_KEY = "$bytes"  # {"$bytes": "<base64>"}: attribute values are scalars, so no value can look like this


NETWORK = ""  # the node of records about the whole run


class RecordKind(StrEnum):
    PUBLISH = "publish"
    PUBLISH_ACK = "publish_ack"
    PUBLISH_FAIL = "publish_fail"
    SUBSCRIBE = "subscribe"
    SUBSCRIBE_ACK = "subscribe_ack"
    UNSUBSCRIBE = "unsubscribe"
    UNSUBSCRIBE_ACK = "unsubscribe_ack"
    ADVERTISE = "advertise"
    UNADVERTISE = "unadvertise"
    DELIVER = "deliver"
    DRAIN = "drain"  # all is quiet: nothing is under way, nothing waits
    SEND = "send"  # one per hop and message
    STATE = "state"  # a protocol's state changes; the run's own settings have no node
    FAULT = "fault"
    MOVE = "move"


class Record(msgspec.Struct, frozen=True, gc=False):
    """One row. `kind` is a `RecordKind`, or another text of a foreign file, which the oracle refuses."""

    run: str
    at: float  # virtual or monotonic seconds
    node: str  # the client or broker that saw it
    n: int  # order within the node
    kind: str
    event: str = ""  # publisher/incarnation/sequence
    client: str = ""
    subscription: str = ""
    filter: str = ""
    attributes: str = ""  # see `attributes_text`
    peer: str = ""
    message: str = ""
    bytes: int = 0
    detail: str = ""

    @property
    def who(self) -> str:
        """The client that a record is about; one that it wrote itself need not repeat its name."""
        return self.client or self.node


def attributes_text(attributes: Mapping[str, Value]) -> str:
    """Attributes as JSON, names sorted, so that equal attributes have equal texts."""
    plain = {name: _to_json(value) for name, value in attributes.items()}
    return msgspec.json.encode(plain, order="deterministic").decode()


def attributes_from(text: str) -> dict[str, Any]:
    """The inverse of `attributes_text`; an empty text means no attributes."""
    if not text:
        return {}
    try:
        plain = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise TraceError(f"attributes {text[:60]!r} are not a JSON object: {error}") from None
    return {name: _from_json(name, value) for name, value in plain.items()}


def _to_json(value: Value) -> object:
    return {BYTES_KEY: base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _from_json(name: str, value: object) -> Value:
    match value:
        case str() | bool() | int() | float():
            return value
        case {"$bytes": str(encoded), **others} if not others:
            try:
                return base64.b64decode(encoded, validate=True)
            except binascii.Error:
                raise TraceError(f"attribute {name!r}: {encoded[:40]!r} is not base64") from None
        case _:
            raise TraceError(f"attribute {name!r} is {value!r:.60}: a text, number, boolean or {BYTES_KEY} is wanted")
