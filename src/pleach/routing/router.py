"""The routing layer of one broker: which destinations an event has, and what the neighbours must know.

    client requests ─▶ Router ◀─▶ neighbours
                        ├─ subscriptions   Propagation, gated by direction and by advertisements
                        ├─ advertisements  Propagation (only where the network uses them)
                        └─ table           MatchingIndex: filter → destination

Peer-to-peer: entries go to every neighbour, events where they match. Hierarchical (S1 §2.2.3): subscriptions go
only towards the root, and every event goes at least there. With advertisements a subscription goes only to
neighbours from which an overlapping advertisement came; advertisements themselves go everywhere, in either mode.

The router knows nothing of reconfigurations, clocks or sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pleach.effects import Send
from pleach.events.filter import Filter
from pleach.events.index import MatchingIndex
from pleach.messages import Install, Installed, Layer, Node, Withdraw
from pleach.routing.entries import Entry
from pleach.routing.interests import FilterMap
from pleach.routing.policies import POLICIES
from pleach.routing.propagation import Propagation, PropagationState, Ticket
from pleach.routing.stages import Stage


@dataclass(frozen=True)
class RoutingConfig:
    """How a network routes; the same for all its brokers."""

    policy: str = "covering"
    hierarchical: bool = False
    advertisements: bool = False
    merge_bound: float = 0.0  # share of a merged filter that nobody asked for (policy merging)


@dataclass(frozen=True)
class Outcome:
    """What a request leads to: messages for neighbours, in order, and the clients' tickets that are due."""

    sends: Sequence[Send] = ()
    due: Sequence[Ticket] = ()


class RouterState(msgspec.Struct, frozen=True, array_like=True):
    parent: Node | None
    neighbours: list[Node]
    subscriptions: PropagationState
    advertisements: PropagationState


class Router:
    def __init__(self, config: RoutingConfig, *, parent: Node | None = None) -> None:
        self.config = config
        self.parent = parent  # the neighbour towards the root; only read in hierarchical mode
        self.neighbours: list[Node] = []
        self._policy = POLICIES[config.policy]
        self._table = MatchingIndex()
        self._subscriptions = Propagation(Layer.SUBSCRIPTIONS, self._stages, self._subscription_gate)
        self._advertisements = Propagation(Layer.ADVERTISEMENTS, self._stages, self._advertisement_gate)
        self._layers = {Layer.SUBSCRIPTIONS: self._subscriptions, Layer.ADVERTISEMENTS: self._advertisements}
        self._wanted: FilterMap[tuple[Node, Entry]] = FilterMap()  # subscriptions by filter, to find what overlaps
        self._advertised: dict[Node, FilterMap[Entry]] = {}  # advertisements by the destination they came from

    def _stages(self) -> Sequence[Stage]:
        return self._policy.stages(self.config.merge_bound)

    # Gates ---------------------------------------------------------------------------------------------------

    def _subscription_gate(self, neighbour: Node, wanted: Filter) -> bool:
        if self._policy.floods or (self.config.hierarchical and neighbour != self.parent):
            return False
        return not self.config.advertisements or self._is_advertised(neighbour, wanted)

    def _advertisement_gate(self, _neighbour: Node, _advertised: Filter) -> bool:
        return self.config.advertisements and not self._policy.floods

    def _is_advertised(self, source: Node, wanted: Filter) -> bool:
        advertised = self._advertised.get(source)
        return advertised is not None and advertised.overlaps_any(wanted)

    # Events --------------------------------------------------------------------------------------------------

    def destinations(self, attributes: Mapping[str, Any], source: Node) -> list[Node]:
        """Everyone an event with these attributes goes to, sorted, but not back to the neighbour that it came from."""
        found = self._table.match(attributes)
        if self._policy.floods:
            found.update(self.neighbours)
        elif self.config.hierarchical and self.parent is not None:
            found.add(self.parent)
        if source in found and source in self.neighbours:
            found.remove(source)
        return sorted(found) if len(found) > 1 else list(found)

    # Requests, of clients and of neighbours ------------------------------------------------------------------

    def add(self, layer: Layer, source: Node, entry: Entry, ticket: Ticket | None) -> Outcome:
        sends: list[Send] = []
        propagation = self._layers[layer]
        if not propagation.has(source, entry):
            sends += self._note_added(layer, source, entry)
        more, is_due = propagation.add(source, entry, ticket)
        return self._outcome([*sends, *more], [ticket] if ticket and is_due else [])

    def remove(self, layer: Layer, source: Node, entry: Entry) -> Outcome:
        propagation = self._layers[layer]
        if not propagation.has(source, entry):
            return Outcome()
        sends = propagation.remove(source, entry)
        sends += self._note_removed(layer, source, entry)
        return Outcome(sends)

    def handle(self, sender: Node, message: Install | Withdraw | Installed) -> Outcome:
        match message:
            case Install(layer, number, owner, wanted):
                return self.add(layer, sender, Entry(owner, wanted), Ticket(layer, sender, number))
            case Withdraw(layer, owner, wanted):
                return self.remove(layer, sender, Entry(owner, wanted))
            case Installed(layer, number):
                return self._outcome([], self._layers[layer].installed(sender, number))

    def forget(self, ticket: Ticket) -> None:
        self._layers[ticket.layer].forget(ticket)

    def _outcome(self, sends: list[Send], due: Sequence[Ticket]) -> Outcome:
        """Answer the neighbours among the due tickets; the clients' ones are the caller's."""
        answers = [Send(t.requester, Installed(t.layer, t.token)) for t in due if isinstance(t.token, int)]
        return Outcome(sends + answers, [t for t in due if isinstance(t.token, str)])

    def _note_added(self, layer: Layer, source: Node, entry: Entry) -> list[Send]:
        if layer is Layer.SUBSCRIPTIONS:
            self._table.add((source, entry), entry.filter, source)
            if self.config.advertisements:
                self._wanted.add(entry.filter, (source, entry))
            return []
        newly = self._gated_by(source, entry.filter)
        self._advertised.setdefault(source, FilterMap()).add(entry.filter, entry)
        return self._regate(source, newly, self._subscriptions.admit)

    def _note_removed(self, layer: Layer, source: Node, entry: Entry) -> list[Send]:
        if layer is Layer.SUBSCRIPTIONS:
            self._table.remove((source, entry))
            self._wanted.remove(entry.filter, (source, entry))
            return []
        self._advertised[source].remove(entry.filter, entry)
        return self._regate(source, self._gated_by(source, entry.filter), self._subscriptions.exclude)

    def _gated_by(self, neighbour: Node, advertised: Filter) -> list[Entry]:
        """Subscriptions from elsewhere for which only `advertised` opens the gate to `neighbour`."""
        if neighbour not in self.neighbours or not (self.config.advertisements and self._may_tell(neighbour)):
            return []
        return [
            entry
            for wanted, (source, entry) in self._wanted.overlapping(advertised)
            if source != neighbour and not self._is_advertised(neighbour, wanted)
        ]

    def _may_tell(self, neighbour: Node) -> bool:
        return not self._policy.floods and (not self.config.hierarchical or neighbour == self.parent)

    def _regate(
        self, neighbour: Node, entries: list[Entry], act: Callable[[Node, list[Entry]], list[Send]]
    ) -> list[Send]:
        return act(neighbour, entries) if entries else []

    # Neighbours ----------------------------------------------------------------------------------------------

    def connect(self, neighbour: Node) -> Outcome:
        """A new link: tell the neighbour what it has to know."""
        self.neighbours.append(neighbour)
        return Outcome(self._advertisements.connect(neighbour) + self._subscriptions.connect(neighbour))

    def disconnect(self, neighbour: Node) -> Outcome:
        """A link is gone, and with it all that came over it."""
        self.neighbours.remove(neighbour)
        sends: list[Send] = []
        due: list[Ticket] = []
        for layer, propagation in self._layers.items():
            settled = self._outcome([], propagation.disconnect(neighbour))
            for entry in propagation.received_from(neighbour):
                sends += self.remove(layer, neighbour, entry).sends
            sends += settled.sends
            due += settled.due
        return Outcome(sends, due)

    # Looking in ----------------------------------------------------------------------------------------------

    def received_from(self, layer: Layer, source: Node) -> Sequence[Entry]:
        return self._layers[layer].received_from(source)

    def told(self, layer: Layer, neighbour: Node) -> frozenset[Entry]:
        return self._layers[layer].told(neighbour)

    def remote_entries(self) -> int:
        """Subscriptions held for neighbours: the size by which S1 §2.2.2 compares policies."""
        return sum(len(self._subscriptions.received_from(neighbour)) for neighbour in self.neighbours)

    def capture(self) -> RouterState:
        return RouterState(
            self.parent, list(self.neighbours), self._subscriptions.capture(), self._advertisements.capture()
        )

    def restore(self, state: RouterState) -> None:
        self.parent = state.parent
        self.neighbours = list(state.neighbours)
        self._advertisements.restore(state.advertisements)
        for source, entry in self._advertisements.entries():
            self._advertised.setdefault(source, FilterMap()).add(entry.filter, entry)
        self._subscriptions.restore(state.subscriptions)
        for source, entry in self._subscriptions.entries():
            self._note_added(Layer.SUBSCRIPTIONS, source, entry)
