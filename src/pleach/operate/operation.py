"""Operations over the operators' port: where each request is sent, and how it stands, as both ends say it.

A request is one type from the command line to the broker's protocols: a message of core/messages/requests.py. Over HTTP
it is the JSON object of its fields (server/http/operations.py reads it); fields that have their defaults are left out.
"""

from __future__ import annotations

import os
import time
from base64 import b32encode
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from types import MappingProxyType

import msgspec

from pleach.core.messages import (
    Node,
    OperatorRequest,
    RequestAdd,
    RequestExchange,
    RequestMove,
    RequestRemove,
    RequestSwap,
)
from pleach.errors import UnreachableError
from pleach.net.http_client import SECONDS_MAX, Answer, ask

PATHS: Mapping[type[OperatorRequest], str] = MappingProxyType(
    {
        RequestSwap: "/overlay/swap",
        RequestExchange: "/overlay/exchange",
        RequestAdd: "/overlay/add",
        RequestRemove: "/overlay/remove",
        RequestMove: "/overlay/move",
    }
)
NO_BROKER_THERE = "no broker runs there, it only holds copies of some"
ABANDON_PATH = "/overlay/abandon"
ASK_SECONDS = 10.0  # that a broker has to end an operation before it is asked about it again
NAME_BYTES = 4  # random bytes of a name; it is short, as every message of the operation carries it


class OperationState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"


class OperationStatus(msgspec.Struct):
    """`phase`: as the protocol reports it. `reason`: of a refusal. Times are seconds since 1970."""

    name: str
    what: str
    brokers: tuple[Node, ...]
    state: OperationState = OperationState.RUNNING
    phase: str = ""
    reason: str = ""
    asked_at: float = msgspec.field(default_factory=time.time)
    ended_at: float | None = None


class OpenStatus(msgspec.Struct, frozen=True):
    """An operation that a broker takes part in. `waits_for`: who has to say something next, and whether its link is up.

    `why_not`: why it cannot be abandoned there; empty where it can. `seconds`: since when the broker has known of it.
    """

    name: str
    phase: str
    what: str = ""  # at the broker that was asked for it
    seconds: float = 0.0
    waits_for: dict[Node, bool] = {}
    why_not: str = ""

    @property
    def in_words(self) -> str:
        awaited = ", ".join(name + ("" if is_up else " (down)") for name, is_up in self.waits_for.items())
        waits = f", waits for {awaited}" if awaited else ""
        return f"{self.phase}, for {self.seconds:.0f} s{waits}" + ("" if self.why_not else "; may be abandoned")


class OperationStep(msgspec.Struct, frozen=True):
    """A step of an operation at a broker that takes part, and how many messages it had held and flooded by then."""

    number: int
    at: float
    operation: str
    phase: str
    held: int
    flooded: int


async def ask_broker(address: str, page: str, body: object = None, *, seconds_max: float = SECONDS_MAX) -> Answer:
    """As `ask`. A machine whose broker runs elsewhere by now raises UnreachableError: what it says is no broker's."""
    answer = await ask(address, page, body, seconds_max=seconds_max)
    if answer.code == HTTPStatus.NOT_FOUND or answer.value.get("broker") is False:
        raise UnreachableError(address, NO_BROKER_THERE)
    return answer


async def send_request(admin: str, request: OperatorRequest, *, seconds: float = ASK_SECONDS, **more: object) -> Answer:
    """Ask the broker at `admin`; it answers when the operation has ended, or after `seconds`. `more`: other fields."""
    fields = {
        field.name: value
        for field in msgspec.structs.fields(request)
        if (value := getattr(request, field.name)) != field.default and (value or field.required)
    }
    return await ask_broker(
        admin, PATHS[type(request)], {**fields, **more, "timeout": seconds}, seconds_max=2 * seconds
    )


def fresh_name() -> str:
    """A short random name, unique among operations that are under way at the same time."""
    return b32encode(os.urandom(NAME_BYTES)).decode().rstrip("=").lower()
