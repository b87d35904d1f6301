"""The result of a reconfiguration at one broker: changed links and their tables, for the routing layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from pleach.core.messages import Layer, Node, TableEntries
from pleach.core.routing.entries import Entry

Tables: TypeAlias = Mapping[Layer, Iterable[Entry]]

EVERYONE: Final = "*"  # in place of a neighbour's name: all neighbours, recursively
NO_TABLES: Tables = MappingProxyType(dict.fromkeys(Layer, ()))


@dataclass(frozen=True)
class NewLink:
    """A link from now on. Both sides take over the same tables, so that neither has to send them.

    received  the entries received from the neighbour
    told      the entries that the neighbour has from us; the difference to what it should have is sent
    beyond    the path behind it to brokers that it cannot answer for (see `Settle`)
    is_same   the link was only suspended, and the neighbour sees no change
    is_suspended   nothing is sent over it until it is rewired again
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
    """Removed links, new or changed links, clients that moved here, and the parent from now on.

    `settle`: whether the peers must confirm their entries even if nothing is unanswered here.
    """

    gone: tuple[Node, ...] = ()
    links: Mapping[Node, NewLink] = field(default_factory=dict)
    clients: Mapping[Node, Tables] = field(default_factory=dict)
    parent: Node | None = None
    settle: bool = False


def packed(tables: Tables) -> list[TableEntries]:
    """Tables for a message: sorted, without empty layers."""
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
    """The neighbours to ask on the path `beyond`, each with the rest of the path."""
    if not beyond:
        return []
    if beyond[0] in others:
        return [(beyond[0], list(beyond[1:]))]
    return [(neighbour, [EVERYONE]) for neighbour in others]
