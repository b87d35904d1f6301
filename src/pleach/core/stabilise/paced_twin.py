"""Two routing tables where rounds wait for evidence (paced.py): what that asks of them besides (twin.py).

Rule 1: a client's round of renewals counts for the table that is being built if it began after that was emptied.
Rule 2: what a client says, it says of both tables, its renewals too: what is missing is back with the first of them.
Rule 3: for a client that cannot speak, its broker says again what the complete table has of it.
Rule 4: the links are those of the broker's state: what is on its disk wins over what it was made with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product

from pleach.core.effects import Send
from pleach.core.messages import Layer, Node, Parity
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Ticket
from pleach.core.routing.router import RoutingConfig, RoutingOutcome
from pleach.core.routing.snapshot import RouterState
from pleach.core.stabilise.twin import ONLY_TREE, TreePosition, TwinRouter, Wiring

NOTHING: tuple[Send, ...] = ()


class PacedTwin(TwinRouter):
    def __init__(self, neighbours: Sequence[Node], config: RoutingConfig, *, parent: Node | None = None) -> None:
        super().__init__(_wiring(parent, neighbours), config, parent=parent)
        self.on_round: Callable[[Node], Sequence[Send]] = lambda _client: NOTHING  # a client has said all again

    def switch(self, parity: Parity) -> RoutingOutcome:
        self._rounds.tick()
        return super().switch(parity)

    def end_round(self, source: Node) -> Sequence[Send]:
        super().end_round(source)
        return self.on_round(source) if self._rounds.is_whole(source) else NOTHING

    def _concerned(self, ticket: Ticket | None) -> Sequence[Parity]:  # noqa: ARG002
        return tuple(Parity)

    def carry_over(self, client: Node) -> RoutingOutcome:
        """Say for a client, in the table that is being built, what the other one has of it."""
        known, built = (self.tables[ONLY_TREE, parity] for parity in (self.building.other, self.building))
        entries = [(layer, entry) for layer in _LAYERS for entry in known.received_from(layer, client)]
        added = [built.add(layer, client, entry, None) for layer, entry in entries]
        return self._joined([((ONLY_TREE, self.building), outcome) for outcome in added])

    def differences(self, clients: Iterable[Node]) -> tuple[int, int]:
        """How much the table that is complete by now has that the other one lacks, and the other way round.

        By filters: of those who want the same, policies name the one or the other.
        """
        sources = (*self.neighbours, *clients)
        complete, former = (self._filters(parity, sources) for parity in (self.building, self.building.other))
        return len(complete - former), len(former - complete)

    def _filters(self, parity: Parity, sources: Sequence[Node]) -> set[tuple[Layer, Node, str]]:
        received_from = self.tables[ONLY_TREE, parity].received_from
        return {
            (layer, source, entry.filter.text)
            for layer, source in product(_LAYERS, sources)
            for entry in received_from(layer, source)
        }

    # Neighbours ----------------------------------------------------------------------------------------------

    def connect(self, neighbour: Node) -> RoutingOutcome:
        """One that is new to the tables is told what both have for it."""
        self.neighbours.append(neighbour)
        new = [(key, table) for key, table in self.tables.items() if neighbour not in table.neighbours]
        return self._joined([(key, table.connect(neighbour)) for key, table in new])

    def disconnect(self, neighbour: Node) -> RoutingOutcome:
        self.neighbours.remove(neighbour)
        return self._joined([(key, table.disconnect(neighbour)) for key, table in self.tables.items()])

    # Looking in, and state -----------------------------------------------------------------------------------

    def has(self, layer: Layer, source: Node, entry: Entry) -> bool:
        return any(table.has(layer, source, entry) for table in self.tables.values())

    def restore(self, state: RouterState) -> None:
        super().restore(state)
        self.wiring = _wiring(state.parent, state.neighbours)


_LAYERS = (Layer.ADVERTISEMENTS, Layer.SUBSCRIPTIONS)  # they gate, so they come first


def _wiring(parent: Node | None, neighbours: Sequence[Node]) -> Wiring:
    return Wiring(ONLY_TREE, {ONLY_TREE: TreePosition(parent, tuple(neighbours))})
