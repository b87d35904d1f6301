"""Requests of the dashboard's forms, and the plans that they make of the current tree.

A swap and an exchange are the steps of plans themselves. A new request is a struct here, a case of `planned` (or of the
sources, if it does not change the tree), and an entry of `ACTIONS` in page/actions.js.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, TypeAlias, assert_never

import msgspec

from pleach.access.principals import Verb
from pleach.core.overlay.plans import (
    ExchangeStep,
    Plan,
    SwapStep,
    Topology,
    add_broker,
    exchange,
    insert_broker,
    remove_broker,
)
from pleach.errors import InvalidInputError
from pleach.server.http.operations import Name
from pleach.server.settings import NAME_BYTES_MAX

MaybeName: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_BYTES_MAX)]
Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0.1, le=1_000.0)]  # clients per second
RATE = 10.0
TARGETS_MAX = 64


class Add(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="add"):
    """A broker that runs without neighbours, at admin address `at`, joins at `to`, or between `to` and `beyond`."""

    broker: Name
    to: Name
    at: Name
    beyond: MaybeName = ""


class Remove(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="remove"):
    """`to`: the neighbour that gets its links and clients; empty: the one with the fewest links."""

    broker: Name
    to: MaybeName = ""
    detach_absent: bool = False


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="drain"):
    """All clients of a broker move to brokers `to`, in turn; empty: to its neighbours. The broker stays."""

    broker: Name
    to: Annotated[tuple[Name, ...], msgspec.Meta(max_length=TARGETS_MAX)] = ()
    rate: Rate = RATE


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="move"):
    """A client moves from its broker to another one."""

    client: Name
    to: Name


TreeRequest: TypeAlias = SwapStep | ExchangeStep | Add | Remove
DashboardRequest: TypeAlias = TreeRequest | Drain | Move
# Requests by the tag of their struct, and the verb that each needs.
VERBS = MappingProxyType(
    {
        "swap": Verb.REWEAVE,
        "exchange": Verb.REWEAVE,
        "add": Verb.REWEAVE,
        "remove": Verb.REMOVE,
        "drain": Verb.MOVE,
        "move": Verb.MOVE,
    }
)
CAN = tuple(VERBS)


def verb_of(request: DashboardRequest) -> Verb:
    return VERBS[str(type(request).__struct_config__.tag)]


def planned(request: TreeRequest, tree: Topology) -> Plan:
    match request:
        case SwapStep():
            return Plan.of(tree, [request])
        case ExchangeStep(removed, added, protocol):
            return exchange(tree, remove=removed, add=added, protocol=protocol)
        case Add(broker, to, _, ""):
            return add_broker(tree, broker, to=to)
        case Add(broker, to, _, beyond):
            return insert_broker(tree, broker, into=(to, beyond))
        case Remove(broker, to):
            return remove_broker(tree, broker, to=to or None)
        case _:
            assert_never(request)


def read_request(data: object) -> DashboardRequest:
    try:
        request: DashboardRequest = msgspec.convert(data, DashboardRequest)
    except msgspec.ValidationError as error:
        raise InvalidInputError(
            f"not a request: {error}; send one of {', '.join(CAN)}, with the names that it takes"
        ) from None
    return request
