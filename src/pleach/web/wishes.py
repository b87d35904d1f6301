"""What an operator may ask for on the dashboard, and the plan that it makes of the tree as it is.

A new wish is a struct here, a case of `planned` (or of the sources, where it is not the tree that changes), and an
entry of `ACTIONS` in page/actions.js.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, assert_never

import msgspec

from pleach.core.overlay.plans import Plan, SwapStep, Topology, add_broker, exchange, insert_broker, remove_broker
from pleach.errors import InvalidInputError
from pleach.server.http.operations import Name
from pleach.server.settings import NAME_BYTES_MAX

MaybeName: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_BYTES_MAX)]
Rate: TypeAlias = Annotated[float, msgspec.Meta(ge=0.1, le=1_000.0)]  # per second; slower, and it would last for days
RATE = 10.0
TARGETS_MAX = 64


class Swap(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="swap"):
    """a–b–c becomes a–c–b."""

    a: Name
    b: Name
    c: Name


class Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="exchange"):
    """Link `remove` goes, link `add` comes."""

    remove: tuple[Name, Name]
    add: tuple[Name, Name]


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
    """All clients of a broker go to brokers `to`, in turn; empty: to its neighbours. The broker stays."""

    broker: Name
    to: Annotated[tuple[Name, ...], msgspec.Meta(max_length=TARGETS_MAX)] = ()
    rate: Rate = RATE


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="move"):
    """A client goes from the broker where it is to another one."""

    client: Name
    to: Name


TreeWish: TypeAlias = Swap | Exchange | Add | Remove
Wish: TypeAlias = TreeWish | Drain | Move
CAN = ("swap", "exchange", "add", "remove", "drain", "move")


def planned(wish: TreeWish, tree: Topology) -> Plan:
    match wish:
        case Swap(a, b, c):
            return Plan.of(tree, [SwapStep(a, b, c)])
        case Exchange(removed, added):
            return exchange(tree, remove=removed, add=added)
        case Add(broker, to, _, ""):
            return add_broker(tree, broker, to=to)
        case Add(broker, to, _, beyond):
            return insert_broker(tree, broker, into=(to, beyond))
        case Remove(broker, to):
            return remove_broker(tree, broker, to=to or None)
        case _:
            assert_never(wish)


def read_wish(data: object) -> Wish:
    try:
        wish: Wish = msgspec.convert(data, Wish)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"no wish: {error}; one of {', '.join(CAN)}, with its names") from None
    return wish
