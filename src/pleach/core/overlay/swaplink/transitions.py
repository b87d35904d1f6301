"""The legality table of SwapLink: (role, phase, message, sender) → phase (S0 §IV-A, figure 5).

Rule 1: a phase changes only through TRANSITIONS, or through OUTCOMES where a broker has lost its memory; see
        `state.SwapPart`.
Rule 2: a message of the swap under way whose key is absent is refused with ProtocolError, and changes nothing.
Rule 3: a message of another swap than the one under way is dropped if its type is in LATE, for such a swap may have
        been given up here; else it is refused as well.
Rule 4: ADOPTED becomes IDLE, without a message, once the broker's paths are closed and no event is owed to it
        (`Swapping.is_over`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from itertools import product
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from pleach.core.messages import (
    Abort,
    Aborted,
    Close,
    Forgot,
    Lock,
    LockAck,
    LockNack,
    Message,
    Open,
    RequestSwap,
    Swap,
    SwapAbandoned,
)


class SwapRole(IntEnum):
    A = 0
    B = 1
    C = 2


class SwapPhase(IntEnum):
    """The states of S0 §IV-A. ADOPTED is its state 0 with the new configuration, until all paths are closed."""

    IDLE = 0  # no swap: this phase is never stored
    LOCKED = 1  # old routing; other reconfigurations are refused
    FLOODING = 2
    SWAPPING = 3  # flooding goes on; everybody is in state 2 or 3
    ADOPTED = 4
    ABORTING = 5  # not in S0: old routing again, until nothing that was flooded is under way


class SwapFate(StrEnum):
    """What becomes of a swap of which a broker has lost its memory (failures.py)."""

    WAIT = "wait"  # another broker decides
    UNDO = "undo"
    GIVE_UP = "give up"  # b: as when a lease is over; a and b: as an operator says
    ASK = "ask"  # a: asks b to give up
    COMPLETE = "complete"  # as if the lost broker had closed its paths
    END = "end"  # the swap was being undone, and only the lost broker's answer is missing


A, B, C = SwapRole
IDLE, LOCKED, FLOODING, SWAPPING, ADOPTED, ABORTING = SwapPhase

Sender: TypeAlias = SwapRole | None  # None: an operator, or a broker that is none of the three
Key: TypeAlias = tuple[SwapRole, SwapPhase, type[Message], Sender]

PAPER: Mapping[Key, SwapPhase] = MappingProxyType(
    {
        (A, IDLE, RequestSwap, None): LOCKED,  # start; a sends 1
        (B, IDLE, Lock, A): LOCKED,  # 1
        (C, IDLE, Lock, B): FLOODING,  # 2; c passes through LOCKED while it opens a–c
        (B, LOCKED, LockAck, C): FLOODING,  # 3
        (A, LOCKED, LockAck, B): SWAPPING,  # 4; a passes through FLOODING: it sends 5 in the same step
        (B, LOCKED, LockNack, C): IDLE,
        (A, LOCKED, LockNack, B): IDLE,
        (B, FLOODING, Swap, A): SWAPPING,  # 5
        (C, FLOODING, Swap, B): SWAPPING,  # 6
        (A, SWAPPING, Swap, C): ADOPTED,  # 7
        (C, SWAPPING, Open, A): SWAPPING,  # 8, open(acb)
        (C, ADOPTED, Open, A): ADOPTED,  # 8 after 10, if a–c is slow
        (B, SWAPPING, Close, A): ADOPTED,  # 9, close(ab)
        (C, SWAPPING, Close, B): ADOPTED,  # 10, close(ab) and open(bca)
        (A, ADOPTED, Close, B): ADOPTED,  # 11, close(ba)
        (C, ADOPTED, Close, A): ADOPTED,  # 12, close(ba)
        (C, SWAPPING, Close, A): SWAPPING,  # 12 before 10, if b–c is slow
    }
)

# A locked broker answers with lockNack (S0 §IV-A, state 1), or puts the request off; its own swap goes on.
BEGINNINGS: tuple[type[Message], ...] = (RequestSwap, Lock)
REFUSED: Mapping[Key, SwapPhase] = MappingProxyType(
    {key: key[1] for key in product(SwapRole, [*SwapPhase][1:], BEGINNINGS, (A, B, C, None))}
)

# Not in S0, where brokers do not fail: b gives up, or decides for a broker that has lost its memory (failures.py).
FAILURES: Mapping[Key, SwapPhase] = MappingProxyType(
    {
        (C, FLOODING, Abort, B): IDLE,
        (A, SWAPPING, Abort, B): ABORTING,
        (B, ABORTING, Swap, A): ABORTING,  # 5 has crossed Abort
        (B, ABORTING, Aborted, C): IDLE,
        (A, ABORTING, Aborted, B): IDLE,
        # a is told to abandon it, and tells b; until b hears of it, it may have given up by itself
        (B, LOCKED, SwapAbandoned, A): IDLE,
        (B, FLOODING, SwapAbandoned, A): ABORTING,
        (B, ABORTING, SwapAbandoned, A): ABORTING,
        # b is lost, and c decides
        (A, SWAPPING, Abort, C): IDLE,
        (A, ABORTING, Abort, C): IDLE,
        # c is lost: a asks b to give up
        (B, SWAPPING, Abort, A): IDLE,
        (B, ABORTING, Abort, A): IDLE,
        (A, SWAPPING, Aborted, B): IDLE,
        # a is lost: c says close(ab) in its place
        (B, SWAPPING, Close, C): ADOPTED,
        (B, ADOPTED, Close, C): ADOPTED,  # after all, 9 had come
        # b tells of a broker that has lost its memory; what follows is in OUTCOMES
        (A, SWAPPING, Forgot, B): SWAPPING,
        (A, ADOPTED, Forgot, B): ADOPTED,
        (C, FLOODING, Forgot, B): FLOODING,
        (C, SWAPPING, Forgot, B): SWAPPING,
        # a asks c, as b is lost
        (C, FLOODING, Forgot, A): FLOODING,
        (C, SWAPPING, Forgot, A): SWAPPING,
        (C, ADOPTED, Forgot, A): ADOPTED,
    }
)

TRANSITIONS: Mapping[Key, SwapPhase] = MappingProxyType({**PAPER, **REFUSED, **FAILURES})

LATE: frozenset[type[Message]] = frozenset((LockAck, LockNack, Swap, Close, Abort, Aborted, Forgot, SwapAbandoned))

WAIT, UNDO, GIVE_UP, ASK, COMPLETE, END = SwapFate


class LostPeers(NamedTuple):
    """What a broker does when the first of its `others` is lost, the second, or both."""

    first: SwapFate
    second: SwapFate
    both: SwapFate


FATES: Mapping[tuple[SwapRole, SwapPhase], LostPeers] = MappingProxyType(
    {
        (A, LOCKED): LostPeers(UNDO, WAIT, UNDO),  # b, c
        (A, SWAPPING): LostPeers(WAIT, ASK, UNDO),
        (A, ADOPTED): LostPeers(COMPLETE, COMPLETE, COMPLETE),
        (A, ABORTING): LostPeers(END, WAIT, END),
        (B, LOCKED): LostPeers(GIVE_UP, GIVE_UP, GIVE_UP),  # a, c
        (B, FLOODING): LostPeers(GIVE_UP, GIVE_UP, GIVE_UP),
        (B, SWAPPING): LostPeers(WAIT, WAIT, UNDO),
        (B, ADOPTED): LostPeers(COMPLETE, COMPLETE, COMPLETE),
        (B, ABORTING): LostPeers(WAIT, END, END),
        (C, FLOODING): LostPeers(WAIT, UNDO, UNDO),  # a, b
        (C, SWAPPING): LostPeers(COMPLETE, COMPLETE, COMPLETE),
        (C, ADOPTED): LostPeers(COMPLETE, COMPLETE, COMPLETE),
    }
)

# What a loss leads to. WAIT changes nothing, COMPLETE is `Close` from the lost broker as far as it has not come.
OUTCOMES: Mapping[tuple[SwapRole, SwapPhase, SwapFate], SwapPhase] = MappingProxyType(
    {
        (A, LOCKED, UNDO): IDLE,
        (A, LOCKED, GIVE_UP): IDLE,
        (A, SWAPPING, UNDO): IDLE,
        (A, SWAPPING, ASK): SWAPPING,
        (A, ABORTING, END): IDLE,
        (B, LOCKED, GIVE_UP): IDLE,
        (B, FLOODING, GIVE_UP): ABORTING,
        (B, SWAPPING, UNDO): IDLE,
        (B, ABORTING, END): IDLE,
        (C, FLOODING, UNDO): IDLE,
    }
)

# Who has to say something next, and why the swap cannot be abandoned here (failures.py); empty where it can.
FORWARD = "all three are locked, and it only goes forward: it waits for {}"
UNDONE = "it is being undone already: that waits for {}"
OPEN: Mapping[tuple[SwapRole, SwapPhase], tuple[tuple[SwapRole, ...], str]] = MappingProxyType(
    {
        (A, LOCKED): ((B,), ""),
        (A, SWAPPING): ((B, C), FORWARD),
        (A, ADOPTED): ((B, C), FORWARD),
        (A, ABORTING): ((B, C), UNDONE),
        (B, LOCKED): ((C,), ""),
        (B, FLOODING): ((A,), ""),
        (B, SWAPPING): ((A, C), FORWARD),
        (B, ADOPTED): ((C,), FORWARD),
        (B, ABORTING): ((C,), UNDONE),
        (C, FLOODING): ((B,), "that is for {} to decide: abandon it there"),
        (C, SWAPPING): ((A, B), FORWARD),
        (C, ADOPTED): ((A,), FORWARD),
    }
)
PRINTED_AS = "the swap as S0 prints it cannot be given up: it waits for {}"  # it has no copies, which that rests on
