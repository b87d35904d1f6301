"""What a machine wants done: values that it returns and a driver carries out, in the order returned.

The driver's duties (every world):
- Carry out the effects of one `handle` before the next `handle` of the same machine.
- What is sent over one link arrives in the order sent; nothing is lost or doubled on it.
- `SetTimer` replaces a timer of the same name; when it is due, `handle_timer(name)` is called.
- `LinkUp` makes sending possible at once; what is sent before the link is there waits. `LinkDown` promises that the
  machine sends nothing more; the link goes once what was sent has arrived, and what still comes over it is delivered.
- `Observe` goes to the trace and nowhere else; `Concluded` goes to whoever asked for the operation, and to the trace.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.core.events.event import Event
from pleach.core.messages import Message, Node
from pleach.core.messages.runs import Span


class Send(msgspec.Struct, frozen=True, gc=False):
    to: Node
    message: Message


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """`is_upkeep`: it recurs for ever. A world that waits until all is quiet does not wait for it."""

    name: str
    after: float  # seconds
    is_upkeep: bool = False


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    name: str


class LinkUp(msgspec.Struct, frozen=True, gc=False):
    """Open a link to another node; messages to it may follow at once. `address`: where it listens, if that is known.

    `is_client`: the node is a client of the machine that says so, and comes by itself. `life`: that of the node which
    knows this machine; if a later one answers, `peer_reset` is called, as of any node that has lost its memory.
    """

    to: Node
    address: str = ""
    is_client: bool = False
    life: int = 0


class LinkDown(msgspec.Struct, frozen=True, gc=False):
    to: Node
    is_client: bool = False


class Observed(StrEnum):
    """What a machine reports for the trace; the names are the trace's kinds (docs/reference/traces.md)."""

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


class OperationPhase(msgspec.Struct, frozen=True, gc=False):
    """How far an operation is at one broker, as the protocol that carries it out reports it.

    `is_done`: it has come to its end at this broker, and the tree has changed here.
    """

    protocol: str
    operation: str
    phase: str
    is_done: bool = False

    def __str__(self) -> str:
        return f"{self.protocol} {self.operation}: {self.phase}"


class Observe(msgspec.Struct, frozen=True, gc=False):
    """`detail` is for people and traces; nothing decides by it. `phase`: what an operation's phase is, for programs.

    `client`: who has seen it, if not the machine itself: a component that it hosts.
    """

    kind: Observed
    event: Event | None = None
    event_id: str = ""
    subscription: str = ""
    filter: str = ""
    detail: str = ""
    client: Node = ""
    phase: OperationPhase | None = None


def phase_seen(protocol: str, operation: str, phase: str, *, is_done: bool = False) -> Observe:
    """What a protocol reports when an operation reaches a phase."""
    reached = OperationPhase(protocol, operation, phase, is_done)
    return Observe(Observed.STATE, detail=str(reached), phase=reached)


class Concluded(msgspec.Struct, frozen=True, gc=False):
    """An operation that was asked for has ended here: done, or (with the reason) refused, and nothing has changed."""

    operation: str
    refusal: str = ""


Effect: TypeAlias = Send | SetTimer | CancelTimer | LinkUp | LinkDown | Observe | Concluded


class Passed(NamedTuple):
    """What a machine wants done about a run: pass on its spans, then carry out the effects."""

    spans: list[Span]
    effects: list[Effect]
