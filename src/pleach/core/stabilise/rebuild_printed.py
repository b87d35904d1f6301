"""Periodic rebuild as S1 §3.4.1 prints it, for the comparison: it loses events, and finds back later than it says.

Withdrawals count for both tables. What one table does not want any more the other one may still want: a live
    subscription loses its entry, without any fault.
Subscriptions go into the table that is being built, alone. With advertisements that table may not know yet where
    they have to go.
What the old table says after a withdrawal is said for the new one: what a fault left in the old one, hidden, comes
    to the new one, and stays for two more rounds.
There is no fence. On a tree a neighbour's old words can only come from below; on a cycle (S1 §3.4.4) new ones may
    come before the switch, and are lost by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from pleach.core.effects import Effect, Send
from pleach.core.messages import InTable, Layer, Node, Parity, Withdraw
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Ticket
from pleach.core.routing.router import RoutingOutcome
from pleach.core.stabilise.rebuild import Rebuild
from pleach.core.stabilise.twin import Key, TwinRouter


class TwinRouterPrinted(TwinRouter):
    def _concerned(self, ticket: Ticket | None) -> Sequence[Parity]:  # noqa: ARG002
        return (self.building,)

    def remove(self, layer: Layer, source: Node, entry: Entry) -> RoutingOutcome:
        return self._removed([(key, table.remove(layer, source, entry)) for key, table in self.tables.items()])

    def handle_in_table(self, sender: Node, message: InTable) -> RoutingOutcome:
        if not isinstance(message.message, Withdraw) or message.tree not in self.wiring.branches:
            return super().handle_in_table(sender, message)
        keys = product((message.tree,), Parity)
        return self._removed([(key, self.tables[key].handle(sender, message.message)) for key in keys])

    def _removed(self, outcomes: Sequence[tuple[Key, RoutingOutcome]]) -> RoutingOutcome:
        """All is said for the table that is being built; what both say, once."""
        tagged = {}
        for send in self._joined(outcomes).sends:
            match send.message:
                case InTable(tree, _, message):
                    said = InTable(tree, self.building, message)
                    tagged[send.to, tree, _without_number(message)] = Send(send.to, said)
        return RoutingOutcome(list(tagged.values()))


def _without_number(message: object) -> tuple[object, ...]:
    return type(message), *(getattr(message, name, None) for name in ("layer", "owner", "filter"))


class RebuildPrinted(Rebuild):
    def _switch(self, parity: Parity) -> list[Effect]:
        effects = super()._switch(parity)
        self._fenced[parity] = set()
        return effects

    def _is_with_us(self, sender: Node, parity: Parity) -> list[Send]:  # noqa: ARG002
        return []
