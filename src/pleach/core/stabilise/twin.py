"""Two routing tables in place of one (S1 §3.4.1): while one is built anew, the other one still knows everything.

    renewal of a client          into the table that is being built
    request of a client          into both, and out of both; it is in effect once both say so
    what a neighbour's table says into the table of the same parity, and nowhere else
    event                        wherever either table sends it

Each table is a whole `Router`, which knows nothing of the other: any policy will do, with or without advertisements,
peer-to-peer and hierarchical.

Where brokers and links form cycles there is one pair of tables for each broker's tree of shortest ways (S1 §3.4.4:
reverse path forwarding). What is published at a broker goes down its tree; in it subscriptions go towards that broker,
as in hierarchical routing towards the root, and only its own clients advertise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from pleach.core.effects import Send
from pleach.core.messages import Install, Installed, InTable, Layer, Node, Parity, Round, Settle, Withdraw
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Ticket
from pleach.core.routing.router import Router, RoutingConfig, RoutingOutcome
from pleach.core.routing.snapshot import RouterState

Key: TypeAlias = tuple[Node, Parity]  # of a table: whose tree, and which of the two

ONLY_TREE: Node = ""  # its name, where there is but one


class TreePosition(NamedTuple):
    """A broker's place in one tree."""

    parent: Node | None
    neighbours: tuple[Node, ...]


@dataclass(frozen=True)
class Wiring:
    """All that a broker knows of its place in the network; S1 keeps it in ROM, where no fault gets at it.

    `home`: the tree that events of its own clients go down.
    """

    home: Node
    branches: Mapping[Node, TreePosition]

    @property
    def is_cyclic(self) -> bool:
        return self.home != ONLY_TREE


class TwinRouter(Router):
    """The routing layer of a broker, as its sessions and drivers see it.

    Its links are given, and stay: nothing is asked of it that has to do with changing them.
    """

    def __init__(self, wiring: Wiring, config: RoutingConfig, *, parent: Node | None = None) -> None:
        super().__init__(config, parent=parent)
        self.wiring = wiring
        self.building = Parity.EVEN  # the paper's a_B
        self._table_config = replace(config, hierarchical=True) if wiring.is_cyclic else config
        self.tables: dict[Key, Router] = {(t, p): self._empty(t) for t, p in product(wiring.branches, Parity)}

    def _empty(self, tree: Node) -> Router:
        branch = self.wiring.branches[tree]
        table = Router(self._table_config, parent=branch.parent)
        for neighbour in branch.neighbours:
            table.connect(neighbour)
        return table

    # Rounds --------------------------------------------------------------------------------------------------

    def switch(self, parity: Parity) -> RoutingOutcome:
        """Begin a round: this table is emptied and built anew. What waited for it alone is in effect by the other."""
        emptied = [(tree, parity) for tree in self.wiring.branches]
        waited = [ticket for key in emptied for ticket in self.tables[key].waiting()]
        self.tables.update({key: self._empty(key[0]) for key in emptied})
        self.building = parity
        return RoutingOutcome([], self._due(waited))

    def again(self, parity: Parity, neighbour: Node) -> list[Send]:
        """All that a neighbour should have of this table."""
        sends: list[Send] = []
        for tree, branch in self.wiring.branches.items():
            if neighbour in branch.neighbours:
                others = {*branch.neighbours} - {neighbour}
                sends += _tagged((tree, parity), self.tables[tree, parity].told_again(others))
        return sends

    # Events --------------------------------------------------------------------------------------------------

    def destinations(self, attributes: Mapping[str, Any], source: Node) -> list[Node]:
        return self.destinations_along(self.wiring.home, attributes, source)

    def destinations_along(self, tree: Node, attributes: Mapping[str, Any], source: Node) -> list[Node]:
        return sorted({to for p in Parity for to in self.tables[tree, p].destinations(attributes, source)})

    # Requests ------------------------------------------------------------------------------------------------

    def add(self, layer: Layer, source: Node, entry: Entry, ticket: Ticket | None) -> RoutingOutcome:
        """Of a client: with a ticket it is a request, without one a renewal."""
        parities = self._concerned(ticket)
        trees = (self.wiring.home,) if layer is Layer.ADVERTISEMENTS else self.wiring.branches
        keys = product(trees, parities)
        return self._joined([(key, self.tables[key].add(layer, source, entry, ticket)) for key in keys])

    def _concerned(self, ticket: Ticket | None) -> Sequence[Parity]:
        return tuple(Parity) if ticket else (self.building,)

    def remove(self, layer: Layer, source: Node, entry: Entry) -> RoutingOutcome:
        return self._joined([(key, table.remove(layer, source, entry)) for key, table in self.tables.items()])

    def handle(self, sender: Node, message: Install | Withdraw | Installed | Settle | Round) -> RoutingOutcome:  # noqa: ARG002
        """What belongs to no table was made up by a fault."""
        return RoutingOutcome()

    def handle_in_table(self, sender: Node, message: InTable) -> RoutingOutcome:
        branch = self.wiring.branches.get(message.tree)
        if branch is None or sender not in branch.neighbours:
            return RoutingOutcome()  # made up by a fault
        key = (message.tree, message.parity)
        return self._joined([(key, self.tables[key].handle(sender, message.message))])

    def waiting_of(self, requester: Node) -> list[Ticket]:
        return list(dict.fromkeys(t for table in self.tables.values() for t in table.waiting_of(requester)))

    def forget(self, ticket: Ticket) -> None:
        for table in self.tables.values():
            table.forget(ticket)

    def mend(self, clients: Iterable[Node]) -> None:
        known = list(clients)
        for table in self.tables.values():
            table.mend(known)

    def _joined(self, outcomes: Sequence[tuple[Key, RoutingOutcome]]) -> RoutingOutcome:
        sends = [send for key, outcome in outcomes for send in _tagged(key, outcome.sends)]
        return RoutingOutcome(sends, self._due([ticket for _, outcome in outcomes for ticket in outcome.due]))

    def _due(self, tickets: Iterable[Ticket]) -> list[Ticket]:
        """Those of clients that no table waits with any more."""
        asked = dict.fromkeys(ticket for ticket in tickets if isinstance(ticket.token, str))
        return [ticket for ticket in asked if ticket not in self.waiting_of(ticket.requester)]

    # Neighbours ----------------------------------------------------------------------------------------------

    def connect(self, neighbour: Node) -> RoutingOutcome:
        self.neighbours.append(neighbour)
        return RoutingOutcome()

    def disconnect(self, neighbour: Node) -> RoutingOutcome:
        """Links stay: what a neighbour has forgotten it is told in the next round."""
        self.neighbours.remove(neighbour)
        return RoutingOutcome()

    # Looking in ----------------------------------------------------------------------------------------------

    def received_from(self, layer: Layer, source: Node) -> Sequence[Entry]:
        return sorted({entry for table in self.tables.values() for entry in table.received_from(layer, source)})

    def told(self, layer: Layer, neighbour: Node) -> frozenset[Entry]:
        linked = [table for table in self.tables.values() if neighbour in table.neighbours]
        return frozenset(entry for table in linked for entry in table.told(layer, neighbour))

    def remote_entries(self) -> int:
        return sum(table.remote_entries() for table in self.tables.values())

    @property
    def subscription_count(self) -> int:
        """Events of our clients go by either table: the fuller one has all of them, as the other is being built."""
        return max(self.tables[self.wiring.home, parity].subscription_count for parity in Parity)

    def capture_tables(self) -> list[tuple[Node, Parity, RouterState]]:
        return [(tree, parity, table.capture()) for (tree, parity), table in self.tables.items()]

    def restore_tables(self, states: Iterable[tuple[Node, Parity, RouterState]]) -> None:
        for tree, parity, state in states:
            table = self.tables[tree, parity] = Router(self._table_config)
            table.restore(state)


def _tagged(key: Key, sends: Iterable[Send]) -> list[Send]:
    return [Send(send.to, InTable(*key, send.message)) for send in sends]  # type: ignore[arg-type]
