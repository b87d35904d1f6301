"""How a reconfiguration leaves the links of one broker: what the routing layer takes over from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from pleach.core.messages import Layer, Node, TableEntries
from pleach.core.routing.entries import Entry

Tables: TypeAlias = Mapping[Layer, Iterable[Entry]]

EVERYONE: Final = "*"  # in place of the name of a neighbour: all of them, and so on from there
NO_TABLES: Tables = MappingProxyType(dict.fromkeys(Layer, ()))


@dataclass(frozen=True)
class NewLink:
    """A link as it is from now on. Both sides take over the same tables, so that neither has to send them.

    received  what the neighbour has told us, as of now
    told      what the neighbour has of us, as of now: the difference to what it should have is sent to it
    beyond    the way from there to brokers for which it cannot answer (see `Settle`)
    is_same   the link was only suspended, and the neighbour knows of no change
    is_suspended   nothing is told over it until it is rewired again
    """

    received: Tables
    told: Tables
    beyond: Sequence[Node] = ()
    is_same: bool = False
    is_suspended: bool = False


class LayerLink(NamedTuple):
    """One layer of a `NewLink`."""

    received: Iterable[Entry]
    told: Iterable[Entry]
    beyond: Sequence[Node] = ()
    is_same: bool = False
    is_suspended: bool = False


@dataclass(frozen=True)
class Rewiring:
    """Links that are gone, links that are new or lead elsewhere, clients that came along, and who is the parent now.

    `settle`: whether the far sides have to confirm what they were told, even if nothing is unanswered here.
    """

    gone: tuple[Node, ...] = ()
    links: Mapping[Node, NewLink] = field(default_factory=dict)
    clients: Mapping[Node, Tables] = field(default_factory=dict)
    parent: Node | None = None
    settle: bool = False


def packed(tables: Tables) -> list[TableEntries]:
    """Tables as they travel: sorted, and without layers that have nothing to say."""
    return [
        TableEntries(layer, [(e.owner, e.filter) for e in sorted(tables[layer])])
        for layer in Layer
        if any(True for _ in tables[layer])
    ]


def unpacked(told: Iterable[TableEntries]) -> dict[Layer, frozenset[Entry]]:
    tables: dict[Layer, frozenset[Entry]] = dict.fromkeys(Layer, frozenset())
    for layer, entries in ((each.layer, each.entries) for each in told):
        tables[layer] = frozenset(Entry(owner, wanted) for owner, wanted in entries)
    return tables


def asked(beyond: Sequence[Node], others: Iterable[Node]) -> list[tuple[Node, list[Node]]]:
    """Whom to ask on the way to brokers beyond, and whom these shall ask."""
    if not beyond:
        return []
    if beyond[0] in others:
        return [(beyond[0], list(beyond[1:]))]
    return [(neighbour, [EVERYONE]) for neighbour in others]
