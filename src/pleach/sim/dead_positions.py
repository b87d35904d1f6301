"""Which place in the tree a dead broker had, as far as the living say: where it died in the middle of a change of the
tree, they settle it among themselves, and tell its stand-in (docs/protocols/healing.md).

    living   all that count it as a neighbour, or take part in a change of the tree with it: each says what became of it
    dead     those that it counted as a neighbour and that counted it as one, but for a link of which a living
             broker has both ends for neighbours: the tree has no such triangles, so this link was being replaced,
             and if it led to the root, the way leads over that living broker now
"""

from __future__ import annotations

from collections.abc import Mapping

from pleach.core.broker import Broker
from pleach.core.messages import Node, StandFor
from pleach.core.overlay.context import Between
from pleach.core.overlay.healing.stand_in import StandIn, StandInPhase
from pleach.core.overlay.membership.machine import Membership
from pleach.core.overlay.swaplink.machine import SwapLink
from pleach.scenario.planted_bugs import BrokerMachine


class DeadPositions:
    def __init__(self, brokers: Mapping[Node, BrokerMachine]) -> None:
        self._brokers = brokers
        self._last: dict[Node, StandFor] = {}  # of those that ever died, as they saw it

    def note(self, dying: Node) -> StandFor:
        """What a broker that dies now has for its place."""
        router = self._brokers[dying].router
        if router.neighbours or dying not in self._last:  # a stand-in that gathers has none yet
            left = [other for other in [self._membership(dying).heir_of] if other]  # it is back in the tree
            self._last[dying] = StandFor([*router.neighbours, *left], router.parent or "")
        return self._last[dying]

    def _membership(self, broker: Node) -> Membership:
        machine = self._brokers[broker]
        membership = machine.machine(Membership) if isinstance(machine, Broker) else None
        assert membership is not None, "every broker of a network that heals has one"
        return membership

    def heir_of(self, broker: Node) -> Node:
        """Who has its clients, and its place; empty if nobody has."""
        return next((other for other in sorted(self._brokers) if self._membership(other).heir_of == broker), "")

    def bereft_of(self, heir: Node) -> list[Node]:
        """Who has handed its clients over to this one, and is nobody without it."""
        return [other for other in sorted(self._brokers) if self._membership(other).handed_to == heir]

    def neighbours_of(self, broker: Node) -> list[Node]:
        place = self._last.get(broker)
        return list(self._brokers[broker].router.neighbours) or (place.neighbours if place else [])

    def of(self, broker: Node, dead: Mapping[Node, object]) -> StandFor:
        """`dead`: those that have no stand-in yet."""
        own = self._last[broker]
        claimants = [other for other in sorted(self._brokers) if other != broker and self._claims(other, broker, dead)]
        parent = own.parent
        if parent and parent not in claimants:
            parent = next((each for each in claimants if {broker, parent} <= {*self.neighbours_of(each)}), parent)
        self._last[broker] = StandFor(claimants, parent)
        return self._last[broker]

    def _claims(self, other: Node, broker: Node, dead: Mapping[Node, object]) -> bool:
        candidate = self._brokers[other]
        if not isinstance(candidate, Broker):
            return False
        if other in dead or is_gathering(candidate):
            last = self._last
            is_mutual = other in last[broker].neighbours and broker in last[other].neighbours
            return is_mutual and not self._is_replaced(broker, other, dead)
        return broker in candidate.router.neighbours or broker in candidate.seam.peers

    def counts(self, witness: Node, dead: Node) -> bool:
        """Whether what the witness still has for the dead broker is wanted: they are, or were, neighbours."""
        broker = self._brokers[witness]
        swaps = broker.machine(SwapLink) if isinstance(broker, Broker) else None
        between = swaps.between(dead) if swaps is not None else Between()
        return dead in self.neighbours_of(witness) or bool(between.node and not between.had_all)

    def _is_replaced(self, one: Node, other: Node, dead: Mapping[Node, object]) -> bool:
        living = (broker.router.neighbours for name, broker in self._brokers.items() if name not in dead)
        return any(one in neighbours and other in neighbours for neighbours in living)

    def forsaken_by(self, broker: Node) -> list[Node]:
        """Stand-ins that wait for a word of this one, and turn out not to be its neighbours."""
        place = self._last[broker].neighbours
        return [
            name
            for name, each in sorted(self._brokers.items())
            if isinstance(each, Broker) and is_gathering(each) and broker in each.seam.peers and name not in place
        ]


def is_gathering(broker: Broker) -> bool:
    stand_in = broker.machine(StandIn)
    return stand_in is not None and stand_in.phase is StandInPhase.GATHERING
