"""One operation that a broker was asked for, as brokers and operators tell each other of it."""

from __future__ import annotations

import os
import time
from base64 import b32encode
from enum import StrEnum

import msgspec

from pleach.core.messages import Node

NAME_BYTES = 4  # random bytes of a name: it travels in every message of its operation, so it is short


class OperationState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"


class OperationStatus(msgspec.Struct):
    """`phase`: what the protocol says of itself. `reason`: of a refusal. Times are seconds since 1970."""

    name: str
    what: str
    brokers: tuple[Node, ...]
    state: OperationState = OperationState.RUNNING
    phase: str = ""
    reason: str = ""
    asked_at: float = msgspec.field(default_factory=time.time)
    ended_at: float | None = None


class OperationStep(msgspec.Struct, frozen=True):
    """A step of an operation that this broker takes part in, and how much it had held and flooded by then."""

    number: int
    at: float
    operation: str
    phase: str
    held: int
    flooded: int


def asked_name(on_the_wire: str) -> str:
    """An operation as it was asked for; each attempt at it has a name of its own."""
    return on_the_wire.partition("~")[0]


def fresh_name() -> str:
    """Short and, for all that is under way at once, unique."""
    return b32encode(os.urandom(NAME_BYTES)).decode().rstrip("=").lower()
