"""Neighbours of dead brokers, reconstructed from the states of the others (docs/protocols/healing.md).

A broker that died during a change of the tree has these neighbours:

    living   all brokers that have it as a neighbour or take part in that change with it: each reports the outcome
    dead     brokers that it had as neighbours and that had it as one, except for a link whose two ends are neighbours
             of one living broker: a tree has no triangles, so this link was being replaced, and if it led to the root,
             the path now leads over that living broker
"""

from __future__ import annotations

from collections.abc import Mapping

from pleach.core.broker import Broker
from pleach.core.messages import Node, StandFor
from pleach.core.overlay.context import MiddleBroker
from pleach.core.overlay.healing.stand_in import StandIn, StandInPhase
from pleach.core.overlay.membership.machine import Membership
from pleach.core.overlay.swaplink.machine import SwapLink
from pleach.scenario.planted_bugs import BrokerMachine


class DeadPositions:
    def __init__(self, brokers: Mapping[Node, BrokerMachine]) -> None:
        self._brokers = brokers
        self._last: dict[Node, StandFor] = {}  # neighbours of each broker when it last died

    def note(self, dying: Node) -> StandFor:
        """The neighbours of a broker that dies now."""
        router = self._brokers[dying].router
        if router.neighbours or dying not in self._last:  # a stand-in has none until it is complete
            left = [other for other in [self._membership(dying).heir_of] if other]  # it is back in the tree
            self._last[dying] = StandFor([*router.neighbours, *left], router.parent or "")
        return self._last[dying]

    def _membership(self, broker: Node) -> Membership:
        machine = self._brokers[broker]
        membership = machine.machine(Membership) if isinstance(machine, Broker) else None
        assert membership is not None, "every broker of a network that heals has one"
        return membership

    def heir_of(self, broker: Node) -> Node:
        """The broker that took over its clients and links; empty if there is none."""
        return next((other for other in sorted(self._brokers) if self._membership(other).heir_of == broker), "")

    def bereft_of(self, heir: Node) -> list[Node]:
        """Brokers that have handed their clients over to this one, and depend on it."""
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
        """Whether the stand-in needs the events of this witness: it is, or was, a neighbour of the dead."""
        broker = self._brokers[witness]
        swaps = broker.machine(SwapLink) if isinstance(broker, Broker) else None
        between = swaps.between(dead) if swaps is not None else MiddleBroker()
        return dead in self.neighbours_of(witness) or bool(between.node and not between.had_all)

    def _is_replaced(self, one: Node, other: Node, dead: Mapping[Node, object]) -> bool:
        living = (broker.router.neighbours for name, broker in self._brokers.items() if name not in dead)
        return any(one in neighbours and other in neighbours for neighbours in living)

    def forsaken_by(self, broker: Node) -> list[Node]:
        """Stand-ins that wait for a testimony of this broker although they are not its neighbours."""
        place = self._last[broker].neighbours
        return [
            name
            for name, each in sorted(self._brokers.items())
            if isinstance(each, Broker) and is_gathering(each) and broker in each.seam.peers and name not in place
        ]


def is_gathering(broker: Broker) -> bool:
    stand_in = broker.machine(StandIn)
    return stand_in is not None and stand_in.phase is StandInPhase.GATHERING
