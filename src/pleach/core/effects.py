"""Effects: values that a machine returns and a driver carries out, in the order returned.

The duties of every driver:
- Carry out the effects of one `handle` before the next `handle` of the same machine.
- Messages over one link arrive in the order sent, each once.
- `SetTimer` replaces a timer of the same name; when it is due, `handle_timer(name)` is called.
- After `LinkUp` the machine may send at once; messages wait until the link is up. After `LinkDown` the machine sends
  nothing more; the link is closed once all messages have arrived, and messages that still arrive are delivered.
- After `Withhold` nothing that is queued for the client tells it more than its rights allow; what was sent before was
  allowed then. A driver without queues (a simulator: all is in flight) has nothing to do.
- `Observe` goes to the trace only; `Concluded` goes to the requester of the operation, and to the trace.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.core.access.rights import Rights
from pleach.core.events.event import Event
from pleach.core.messages import Message, Node
from pleach.core.messages.runs import Span


class Send(msgspec.Struct, frozen=True, gc=False):
    to: Node
    message: Message


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """`is_upkeep`: it recurs without end; a simulator that runs until nothing is left to do ignores it."""

    name: str
    after: float  # seconds
    is_upkeep: bool = False


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    name: str


class LinkUp(msgspec.Struct, frozen=True, gc=False):
    """Open a link to another node; messages to it may follow at once. `address`: where it listens, if known.

    `is_client`: the node is a client of this machine, and connects by itself. `life`: the epoch in which the node knows
    this machine; if it answers with a later one, it has lost its state, and `peer_reset` is called.
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

    `is_done`: it has ended at this broker, and has changed the tree here.
    """

    protocol: str
    operation: str
    phase: str
    is_done: bool = False

    def __str__(self) -> str:
        return f"{self.protocol} {self.operation}: {self.phase}"


class Observe(msgspec.Struct, frozen=True, gc=False):
    """`detail` is for people and traces; programs use `phase`, which an operation has reached.

    `client`: the component that observed it, if it was not the machine itself.
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
    """The report of a protocol whose operation has reached a phase."""
    reached = OperationPhase(protocol, operation, phase, is_done)
    return Observe(Observed.STATE, detail=str(reached), phase=reached)


class Concluded(msgspec.Struct, frozen=True, gc=False):
    """A requested operation has ended here: done, or refused for a reason, with nothing changed."""

    operation: str
    refusal: str = ""


class Withhold(msgspec.Struct, frozen=True, gc=False):
    """A client may see less from now on; events that wait for it may be none of its business (links/withholding.py)."""

    client: Node
    rights: Rights


Effect: TypeAlias = Send | SetTimer | CancelTimer | LinkUp | LinkDown | Observe | Concluded | Withhold


class Passed(NamedTuple):
    """Effects of a run: forward its spans, then carry out the effects."""

    spans: list[Span]
    effects: list[Effect]
