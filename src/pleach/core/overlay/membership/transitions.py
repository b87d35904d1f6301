"""The legality table of AddBroker and RemoveBroker: (role, phase, message, speaker) → phase (S0 §IV-B, §IV-C).

Rule 1: a phase changes only through TRANSITIONS, or when the partner fails (failures.py); see `state.MembershipPart`.
Rule 2: a message whose key is absent, or of another operation, is refused with ProtocolError, and changes nothing.
Rule 3: `Connect` is answered in every phase: a is not locked for AddBroker. A `Farewell` that is not waited for is
        ignored: the driver says it in the name of a client that was away, and the client's own may still come.
Rule 4: An answer to an operation that is not under way here is dropped: it was abandoned here. So is `RemoveAbandoned`
        where the operation was refused; `ConnectAbandoned` is taken in every phase, as `Connect` is.
Rule 5: LEAVING, CLOSED becomes IDLE, without a message, once no client is on its way.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from itertools import product
from types import MappingProxyType
from typing import TypeAlias

from pleach.core.messages import (
    ClientLeft,
    CloseAB,
    Connect,
    ConnectAbandoned,
    ConnectAck,
    ConnectNack,
    Farewell,
    Handover,
    Left,
    Message,
    RemoveAbandoned,
    RemoveAck,
    RemoveNack,
    RemoveReq,
    RequestAdd,
    RequestRemove,
    Said,
)


class MembershipRole(IntEnum):
    JOINING = 0  # b of AddBroker
    LEAVING = 1  # b of RemoveBroker
    INHERITING = 2  # a of RemoveBroker


class MembershipPhase(IntEnum):
    IDLE = 0  # no change of membership: this phase is never stored
    ASKED = 1  # the other side has not answered
    HANDED = 2  # at b: the clients are a's; b passes on what they send, and delivers what a sent before
    CLOSED = 3  # nothing more comes from a by way of b; clients are on their way


class Speaker(StrEnum):
    PARTNER = "the other broker"
    CLIENT = "a client on its way"
    OTHER = "an operator, or anybody else"


JOINING, LEAVING, INHERITING = MembershipRole
IDLE, ASKED, HANDED, CLOSED = MembershipPhase
PARTNER, CLIENT, OTHER = Speaker

Key: TypeAlias = tuple[MembershipRole, MembershipPhase, type[Message], Speaker]

PAPER: Mapping[Key, MembershipPhase] = MappingProxyType(
    {
        # AddBroker, at b; a keeps no state
        (JOINING, IDLE, RequestAdd, OTHER): ASKED,  # b sends connect
        (JOINING, ASKED, ConnectAck, PARTNER): IDLE,
        (JOINING, ASKED, ConnectNack, PARTNER): IDLE,
        # RemoveBroker, at b
        (LEAVING, IDLE, RequestRemove, OTHER): ASKED,  # start; b sends removeReq
        (LEAVING, ASKED, RemoveAck, PARTNER): HANDED,
        (LEAVING, ASKED, RemoveNack, PARTNER): IDLE,
        (LEAVING, HANDED, CloseAB, PARTNER): CLOSED,  # close(ab)
        (LEAVING, CLOSED, Farewell, CLIENT): CLOSED,  # close(ba) of one client
        # RemoveBroker, at a
        (INHERITING, IDLE, RemoveReq, PARTNER): ASKED,
        (INHERITING, ASKED, Handover, PARTNER): CLOSED,
        (INHERITING, CLOSED, Said, PARTNER): CLOSED,
        (INHERITING, CLOSED, ClientLeft, PARTNER): CLOSED,  # close(ba) of one client
        (INHERITING, CLOSED, Left, PARTNER): IDLE,
    }
)

# Not in S0: b thinks better of it, before its clients are handed over.
ABANDONED: Mapping[Key, MembershipPhase] = MappingProxyType({(INHERITING, ASKED, RemoveAbandoned, PARTNER): IDLE})
LATE: tuple[type[Message], ...] = (ConnectAck, ConnectNack, RemoveAck, RemoveNack, RemoveAbandoned)

# A broker that takes part in a change answers other requests all the same: it takes b on, puts them off, or refuses.
BEGINNINGS: tuple[type[Message], ...] = (RequestAdd, RequestRemove, Connect, RemoveReq, ConnectAbandoned)
ANSWERED: Mapping[Key, MembershipPhase] = MappingProxyType(
    {key: key[1] for key in product(MembershipRole, (ASKED, HANDED, CLOSED), BEGINNINGS, Speaker)}
)

TRANSITIONS: Mapping[Key, MembershipPhase] = MappingProxyType({**PAPER, **ABANDONED, **ANSWERED})

# Why a change cannot be abandoned here (abandoning.py); empty where it can.
WHY_NOT: Mapping[tuple[MembershipRole, MembershipPhase], str] = MappingProxyType(
    {
        (JOINING, ASKED): "",
        (LEAVING, ASKED): "",
        (LEAVING, HANDED): "its clients have been handed to {partner}: it only goes forward, and waits for {awaited}",
        (LEAVING, CLOSED): "its clients have been sent to {partner}: it only goes forward, and waits for {awaited}",
        (INHERITING, ASKED): "that is for {partner} to decide, which leaves: abandon it there",
        (INHERITING, CLOSED): "{partner} has handed over its clients: it only goes forward, and waits for {awaited}",
    }
)
