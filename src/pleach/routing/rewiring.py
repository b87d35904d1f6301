"""How a reconfiguration leaves the links of one broker: what the routing layer takes over from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from pleach.messages import Layer, Node, Told
from pleach.routing.entries import Entry

Tables: TypeAlias = Mapping[Layer, Iterable[Entry]]

NO_TABLES: Tables = MappingProxyType(dict.fromkeys(Layer, ()))


@dataclass(frozen=True)
class NewLink:
    """A link as it is from now on. Both sides take over the same tables, so that neither has to send them.

    received  what the neighbour has told us, as of now
    told      what the neighbour has of us, as of now: the difference to what it should have is sent to it
    beyond    the neighbour of this neighbour for which it cannot answer (see `Settle`)
    is_same   the link was only suspended, and the neighbour knows of no change
    """

    received: Tables
    told: Tables
    beyond: Node = ""
    is_same: bool = False


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


def packed(tables: Tables) -> tuple[Told, ...]:
    """Tables as they travel: sorted, and without layers that have nothing to say."""
    return tuple(
        Told(layer, [(e.owner, e.filter) for e in sorted(tables[layer])])
        for layer in Layer
        if any(True for _ in tables[layer])
    )


def unpacked(told: Iterable[Told]) -> dict[Layer, frozenset[Entry]]:
    tables: dict[Layer, frozenset[Entry]] = dict.fromkeys(Layer, frozenset())
    for layer, entries in ((each.layer, each.entries) for each in told):
        tables[layer] = frozenset(Entry(owner, wanted) for owner, wanted in entries)
    return tables
