"""Periodic rebuild as printed in S1 §3.4.1, for comparison: it loses events, and recovers later than stated.

1. Withdrawals apply to both tables. An entry that one table withdraws may still be needed by the other: a live
   subscription loses its entry without any fault.
2. Subscriptions go only into the table that is being rebuilt. With advertisements, that table may not know yet where
   to forward them.
3. Entries that the old table uncovers by a withdrawal are sent for the new one: a damaged, covered entry of the old
   table gets into the new one and stays for two more rounds.
4. There is no fence. On a tree outdated messages come only from below; on a cycle (S1 §3.4.4) new ones may arrive
   before the switch, which discards them.
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
        """Send all for the table that is being rebuilt; equal messages of both tables once."""
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

    def _neighbour_switched(self, sender: Node, parity: Parity) -> list[Send]:  # noqa: ARG002
        return []
