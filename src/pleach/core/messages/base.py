"""What all messages share."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Final, TypeAlias

import msgspec

CONFIRMED_TOGETHER_MAX = 1_024  # events that one message confirms

Node: TypeAlias = str  # the name of a broker or a client; one name space for both
Life: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # of a node with its memory: its epoch. 0: not known
OPERATOR: Final = ""  # the sender of requests that come from nobody in the network


class Layer(IntEnum):
    """What is propagated: who wants events, and who will publish them. Both travel by the same mechanism."""

    SUBSCRIPTIONS = 0
    ADVERTISEMENTS = 1


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    """Base of all messages."""
