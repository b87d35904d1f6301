"""What a machine wants done: values that it returns and a driver carries out, in the order returned.

The driver's duties (every world):
- Carry out the effects of one `handle` before the next `handle` of the same machine.
- What is sent over one link arrives in the order sent; nothing is lost or doubled on it.
- `SetTimer` replaces a timer of the same name; when it is due, `handle_timer(name)` is called.
- `Observe` goes to the trace and nowhere else.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

from pleach.events.event import Event
from pleach.messages import Message, Node


class Send(NamedTuple):
    to: Node
    message: Message


class SetTimer(NamedTuple):
    name: str
    after: float  # seconds


class CancelTimer(NamedTuple):
    name: str


class LinkUp(NamedTuple):
    """Open a link to another broker; messages to it may follow at once."""

    to: Node


class LinkDown(NamedTuple):
    to: Node


class Observed(StrEnum):
    """What a machine reports for the trace; the names are the trace's kinds (DESIGN §4)."""

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
    STATE = "state"
    MOVE = "move"


class Observe(NamedTuple):
    kind: Observed
    event: Event | None = None
    event_id: str = ""
    subscription: str = ""
    filter: str = ""
    detail: str = ""


Effect: TypeAlias = Send | SetTimer | CancelTimer | LinkUp | LinkDown | Observe
