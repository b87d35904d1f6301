"""The phases of a movement in each of its roles, and the transitions between them (S4 Fig. 4).

    source   NEGOTIATING ─ approve ─▶ HALTING ─ halted ─▶ PREPARED ─ ack ─▶ committed
                                        └─ halted, has changed its requests ─▶ AMENDING ─ approve ─▶ PREPARED
    target   APPROVED ─ state ─▶ COMMITTED ─ commit ─▶ over
    path     LOCKED ─ approve ─▶ SHADOWED ─ state ─▶ CARRIED ─ ack ─▶ ANSWERED ─ commit ─▶ over
    client   RUNNING ─ halt ─▶ HALTED ─ resume ─▶ RUNNING

The source may give up (ABORTING) until it has sent the state; from then on the target decides, which may refuse until
the state has come. If the client loses its memory meanwhile, the target drops the client that it expected or took over.

Rule 1: a phase changes only along these tables; this is asserted.
Rule 2: a message that the table does not have for a phase is a fault of its sender (`ProtocolError`).
Rule 3: no two roles have a phase of the same name, so that the phase alone is the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from pleach.core.messages import (
    Approve,
    Halt,
    Halted,
    Message,
    MoveAbort,
    MoveAck,
    MoveCommit,
    MoveState,
    Negotiate,
    Reject,
    Resume,
)


class SourcePhase(StrEnum):
    """At the broker that the client leaves."""

    NEGOTIATING = "negotiating"  # the target has not answered; the client goes on as always
    HALTING = "halting"  # the target has approved; the client is asked to send nothing more
    AMENDING = (
        "amending"  # it has halted, but its requests are not those that were negotiated: the target is asked again
    )
    PREPARED = "prepared"  # the state is on its way: what comes for the client is kept, in case it stays
    ABORTING = "aborting"  # given up: the client stays, and goes on. The movement is over when the target confirms it


class TargetPhase(StrEnum):
    """At the broker that the client goes to."""

    APPROVED = "approved"  # what comes for the client is queued
    COMMITTED = "committed"  # the client is here; the source still clears up


class PathPhase(StrEnum):
    """At a broker in between: what has passed by."""

    LOCKED = "locked"  # the negotiation
    SHADOWED = "shadowed"  # the approval: events for the client go both ways
    CARRIED = "carried"  # the state
    ANSWERED = "answered"  # the acknowledgement


class ClientPhase(StrEnum):
    RUNNING = "running"
    HALTED = "halted"  # what the application asks for waits


class Late:
    """The input of a timer: a message has not come in time."""


class ClientReborn:
    """The input of `peer_reset` where the client has lost its memory."""


class BeforeReborn:
    """The same where the broker before this one, towards the source, has."""


class AfterReborn:
    """The same where the broker after this one, towards the target, has."""


Phase: TypeAlias = SourcePhase | TargetPhase | PathPhase
Input: TypeAlias = type[Message | Late | ClientReborn | BeforeReborn | AfterReborn]
OVER: Final = None

_S, _T, _P = SourcePhase, TargetPhase, PathPhase

TRANSITIONS: Mapping[tuple[Phase, Input], tuple[Phase | None, ...]] = MappingProxyType(
    {
        (_S.NEGOTIATING, Approve): (_S.HALTING, _S.ABORTING),  # it has left by itself
        (_S.NEGOTIATING, Reject): (OVER,),
        (_S.NEGOTIATING, Late): (_S.ABORTING,),
        (_S.HALTING, Halted): (_S.PREPARED, _S.AMENDING, _S.ABORTING),
        (_S.HALTING, Reject): (OVER,),
        (_S.HALTING, Late): (_S.ABORTING,),
        (_S.AMENDING, Approve): (_S.PREPARED, _S.ABORTING),
        (_S.AMENDING, Reject): (OVER,),
        (_S.AMENDING, Late): (_S.ABORTING,),
        (_S.PREPARED, MoveAck): (OVER,),
        (_S.PREPARED, Reject): (OVER,),
        (_S.PREPARED, Late): (OVER,),  # where delays are bounded: the target has it
        **dict.fromkeys(((phase, ClientReborn) for phase in _S), (_S.ABORTING,)),
        **dict.fromkeys(((phase, AfterReborn) for phase in (*_S, *_P)), (OVER,)),
        **dict.fromkeys(((phase, BeforeReborn) for phase in (*_T, *_P)), (OVER,)),
        (_S.ABORTING, Approve): (_S.ABORTING,),
        (_S.ABORTING, Halted): (_S.ABORTING,),
        (_S.ABORTING, MoveAck): (_S.ABORTING,),  # the state had gone, and is taken back
        (_S.ABORTING, Reject): (OVER,),
        (_T.APPROVED, Negotiate): (_T.APPROVED,),
        (_T.APPROVED, MoveState): (_T.COMMITTED, OVER),  # a component that cannot be made of it goes on where it was
        (_T.APPROVED, MoveAbort): (OVER,),
        (_T.APPROVED, Late): (OVER,),
        (_T.COMMITTED, MoveCommit): (OVER,),
        (_T.COMMITTED, MoveAbort): (OVER,),
        (_P.LOCKED, Approve): (_P.SHADOWED,),
        (_P.LOCKED, MoveAbort): (_P.LOCKED,),
        (_P.LOCKED, Reject): (OVER,),
        (_P.SHADOWED, Negotiate): (_P.SHADOWED,),
        (_P.SHADOWED, Approve): (_P.SHADOWED,),
        (_P.SHADOWED, MoveAbort): (_P.SHADOWED,),
        (_P.SHADOWED, Reject): (OVER,),
        (_P.SHADOWED, MoveState): (_P.CARRIED,),
        (_P.CARRIED, MoveAck): (_P.ANSWERED,),
        (_P.CARRIED, MoveAbort): (_P.CARRIED,),
        (_P.CARRIED, Reject): (OVER,),
        (_P.CARRIED, MoveCommit): (OVER,),  # the source did not wait for the acknowledgement
        (_P.ANSWERED, MoveAbort): (_P.ANSWERED,),
        (_P.ANSWERED, Reject): (OVER,),
        (_P.ANSWERED, MoveCommit): (OVER,),
    }
)

# Of a client. A component that a target has taken over and has to give back ends by `Resume`, without a `Halt` there.
CLIENT_TRANSITIONS: Mapping[tuple[ClientPhase, type[Message]], ClientPhase] = MappingProxyType(
    {(phase, Halt): ClientPhase.HALTED for phase in ClientPhase}
    | {(phase, Resume): ClientPhase.RUNNING for phase in ClientPhase}
)
