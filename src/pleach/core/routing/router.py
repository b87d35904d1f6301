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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pleach.core.effects import Send
from pleach.core.events.filter import Filter
from pleach.core.events.index import MatchingIndex
from pleach.core.messages import Install, Installed, Layer, Node, Round, Settle, Withdraw
from pleach.core.routing.entries import Change, Entry
from pleach.core.routing.exports import Export
from pleach.core.routing.filter_map import FilterMap
from pleach.core.routing.pending_acks import Ticket
from pleach.core.routing.policies import POLICIES
from pleach.core.routing.propagation import Propagation
from pleach.core.routing.renewal_relay import UNANSWERED, Relaying
from pleach.core.routing.renewal_rounds import RenewalRounds
from pleach.core.routing.rewiring import LayerLink, Rewiring
from pleach.core.routing.snapshot import RouterState
from pleach.core.routing.stages import Stage


@dataclass(frozen=True)
class RoutingConfig:
    """How a network routes; the same for all its brokers."""

    policy: str = "covering"
    hierarchical: bool = False
    advertisements: bool = False
    merge_bound: float = 0.0  # share of a merged filter that nobody asked for (policy merging)
    relaying: Relaying = Relaying.NEVER  # of renewals, where subscriptions are leased
    refresh: float = 0.0  # seconds after which clients have to renew what they want; 0: never


@dataclass(frozen=True)
class RoutingOutcome:
    """What a request leads to: messages for neighbours, in order, and the clients' tickets that are due."""

    sends: Sequence[Send] = ()
    due: Sequence[Ticket] = ()


class Router:
    def __init__(self, config: RoutingConfig, *, parent: Node | None = None) -> None:
        self.config = config
        self.parent = parent  # the neighbour towards the root; only read in hierarchical mode
        self.neighbours: list[Node] = []
        self._policy = POLICIES[config.policy]
        self._table = MatchingIndex()
        self._subscriptions = Propagation(Layer.SUBSCRIPTIONS, self._stages, self._subscription_gate, config.relaying)
        self._advertisements = Propagation(Layer.ADVERTISEMENTS, self._stages, self._advertisement_gate)
        self._layers = {Layer.SUBSCRIPTIONS: self._subscriptions, Layer.ADVERTISEMENTS: self._advertisements}
        self._rounds = RenewalRounds()
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

    def add(self, layer: Layer, source: Node, entry: Entry, ticket: Ticket | None) -> RoutingOutcome:
        sends: list[Send] = []
        propagation = self._layers[layer]
        if not propagation.has(source, entry):
            sends += self._note_added(layer, source, entry)
        more, is_due = propagation.add(source, entry, ticket)
        return self._outcome([*sends, *more], [ticket] if ticket and is_due else [])

    def remove(self, layer: Layer, source: Node, entry: Entry) -> RoutingOutcome:
        propagation = self._layers[layer]
        if not propagation.has(source, entry):
            return RoutingOutcome()
        sends = propagation.remove(source, entry)
        sends += self._note_removed(layer, source, entry)
        return RoutingOutcome(sends)

    def handle(self, sender: Node, message: Install | Withdraw | Installed | Settle | Round) -> RoutingOutcome:
        match message:
            case Install(layer, number, owner, wanted):
                ticket = Ticket(layer, sender, number) if number != UNANSWERED else None
                return self.add(layer, sender, Entry(owner, wanted), ticket)
            case Settle(layer, number, beyond):
                return self._settle(Ticket(layer, sender, number), beyond)
            case Withdraw(layer, owner, wanted):
                return self.remove(layer, sender, Entry(owner, wanted))
            case Installed(layer, number):
                return self._outcome([], self._layers[layer].installed(sender, number))
            case Round(ends):
                (self.end_round if ends else self.begin_round)(sender)
                return RoutingOutcome()

    def wait_for_all(self, ticket: Ticket) -> RoutingOutcome:
        """Have the ticket wait for whatever is unanswered now."""
        return self._settle(ticket, beyond=())

    def _settle(self, ticket: Ticket, beyond: Sequence[Node]) -> RoutingOutcome:
        sends, is_due = self._layers[ticket.layer].settle(ticket.requester, beyond, ticket)
        return self._outcome(sends, [ticket] if is_due else [])

    def waiting_of(self, requester: Node) -> list[Ticket]:
        return [ticket for propagation in self._layers.values() for ticket in propagation.waiting_of(requester)]

    def waiting(self) -> list[Ticket]:
        return [ticket for propagation in self._layers.values() for ticket in propagation.waiting()]

    def forget(self, ticket: Ticket) -> None:
        self._layers[ticket.layer].forget(ticket)

    def _outcome(self, sends: list[Send], due: Sequence[Ticket]) -> RoutingOutcome:
        """Answer the neighbours among the due tickets; the clients' ones are the caller's."""
        answers = [
            Send(t.requester, Installed(t.layer, t.token))
            for t in due
            if isinstance(t.token, int) and not self._layers[t.layer].park(t)
        ]
        return RoutingOutcome(sends + answers, [t for t in due if isinstance(t.token, str)])

    def _note_added(self, layer: Layer, source: Node, entry: Entry) -> list[Send]:
        newly = [] if layer is Layer.SUBSCRIPTIONS else self._gated_by(source, entry.filter)
        self._enter(layer, source, entry)
        return self._regate(source, newly, self._subscriptions.admit)

    def _enter(self, layer: Layer, source: Node, entry: Entry) -> None:
        if layer is Layer.ADVERTISEMENTS:
            self._advertised.setdefault(source, FilterMap()).add(entry.filter, entry)
            return
        self._table.add((source, entry), entry.filter, source)
        if self.config.advertisements:
            self._wanted.add(entry.filter, (source, entry))

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

    # Leases (stabilise/) -------------------------------------------------------------------------------------

    def begin_round(self, source: Node) -> None:
        self._rounds.begin(source)

    def end_round(self, source: Node) -> Sequence[Send]:
        """All that this one wants has come again since the round began. Returns whom to tell of it: here, nobody."""
        self._rounds.end(source)
        return ()

    def forget_round(self, source: Node) -> None:
        """It is gone, and so is what it has begun to say."""
        self._rounds.forget(source)

    def _is_judged(self, source: Node) -> bool:
        """Renewals that are relayed come in no rounds: there only time tells (S1 §3.3.2)."""
        return self.config.relaying is not Relaying.NEVER or self._rounds.is_whole(source)

    def lapse(self) -> tuple[RoutingOutcome, int]:
        """A tick of the leases: what was not renewed since the last one goes. Returns how much that was, too."""
        sends: list[Send] = []
        count = 0
        for layer, propagation in self._layers.items():
            for source, entry in propagation.stale():
                if self._is_judged(source):
                    sends += self.remove(layer, source, entry).sends
                    count += 1
            sends += propagation.age()
        self._rounds.tick()
        return RoutingOutcome(sends), count

    def renew(self, away: Collection[Node] = ()) -> RoutingOutcome:
        """Tell the neighbours again what they should have, as a whole round; those `away` could not hear it."""
        told = [n for n in self.neighbours if n not in away and not self._subscriptions.is_suspended(n)]
        again = self.told_again(away)
        if self.config.relaying is not Relaying.NEVER:
            return RoutingOutcome(again)
        begins, ends = ([Send(n, Round(ends=is_end)) for n in sorted(told)] for is_end in (False, True))
        return RoutingOutcome([*begins, *again, *ends])

    def told_again(self, away: Collection[Node] = ()) -> list[Send]:
        """What the neighbours should have, but for those who are away."""
        return [send for propagation in self._layers.values() for send in propagation.renew(away)]

    def mend(self, clients: Iterable[Node]) -> None:
        """Forget what a fault has left that cannot be."""
        known = frozenset((*self.neighbours, *clients))
        for layer, propagation in self._layers.items():
            for source, entry in [each for each in propagation.entries() if each[0] not in known]:
                self.remove(layer, source, entry)
            propagation.mend(known)

    # Neighbours ----------------------------------------------------------------------------------------------

    def connect(self, neighbour: Node) -> RoutingOutcome:
        """A new link: tell the neighbour what it has to know."""
        self.neighbours.append(neighbour)
        return RoutingOutcome(self._advertisements.connect(neighbour) + self._subscriptions.connect(neighbour))

    def disconnect(self, neighbour: Node) -> RoutingOutcome:
        """A link is gone, and with it all that came over it."""
        self.neighbours.remove(neighbour)
        self.forget_round(neighbour)
        sends: list[Send] = []
        due: list[Ticket] = []
        for layer, propagation in self._layers.items():
            settled = self._outcome([], propagation.disconnect(neighbour))
            for entry in propagation.received_from(neighbour):
                sends += self.remove(layer, neighbour, entry).sends
            sends += settled.sends
            due += settled.due
        return RoutingOutcome(sends, due)

    # Reconfigurations ----------------------------------------------------------------------------------------

    def suspend(self, neighbours: Sequence[Node]) -> None:
        """Tell these neighbours nothing until `rewire`; requests meanwhile are confirmed after it."""
        for propagation in self._layers.values():
            propagation.suspend(neighbours)

    def rewire(self, rewiring: Rewiring) -> RoutingOutcome:
        """Take over changed links, and tell everyone what that changes for them. Advertisements first: they gate."""
        for node in sorted({*rewiring.gone, *rewiring.links}):
            self._forget_tables(node)
        self.neighbours = [n for n in self.neighbours if n not in rewiring.gone]
        self.neighbours += [n for n in sorted(rewiring.links) if n not in self.neighbours]
        self.parent = rewiring.parent
        sends: list[Send] = []
        due: list[Ticket] = []
        for layer in (Layer.ADVERTISEMENTS, Layer.SUBSCRIPTIONS):
            told, settled = self._rewire_layer(layer, rewiring)
            sends += told
            due += settled
        return self._outcome(sends, due)  # answers come after all that was told, as always

    def _rewire_layer(self, layer: Layer, rewiring: Rewiring) -> tuple[list[Send], list[Ticket]]:
        links = {
            neighbour: LayerLink(link.received[layer], link.told[layer], link.beyond, link.is_same, link.is_suspended)
            for neighbour, link in rewiring.links.items()
        }
        clients = {client: tables[layer] for client, tables in rewiring.clients.items()}
        for source, entries in (*((n, link.received) for n, link in links.items()), *clients.items()):
            for entry in entries:
                self._enter(layer, source, entry)
        rewire = self._layers[layer].rewire
        return rewire(rewiring.gone, links, clients, settle=rewiring.settle)

    def ask_also(self, awaited: Node, way: Sequence[Node]) -> list[Send]:
        """What waits for answers of `awaited` waits for those on this way too: by a neighbour, and on from there."""
        return [send for propagation in self._layers.values() for send in propagation.ask_also(awaited, way)]

    def doubt(self, way: Sequence[Node]) -> None:
        """Until `trust`, requests that need not be told on this way are to be confirmed by all brokers on it."""
        for propagation in self._layers.values():
            propagation.doubt(way)

    def trust(self, neighbour: Node) -> None:
        for propagation in self._layers.values():
            propagation.trust(neighbour)

    def _forget_tables(self, source: Node) -> None:
        for entry in self._subscriptions.received_from(source):
            self._table.remove((source, entry))
            self._wanted.remove(entry.filter, (source, entry))
        self._advertised.pop(source, None)

    def reduced(self, entries: Iterable[Entry]) -> frozenset[Entry]:
        """What the policy leaves of a set of entries."""
        if self._policy.floods:
            return frozenset()
        export = Export(self._stages())
        export.apply(Change(added=tuple(entries)))
        return frozenset(export.told)

    def advertised_among(self, entries: Iterable[Entry], advertisements: Iterable[Entry]) -> list[Entry]:
        """Those subscriptions for which these advertisements open the gate."""
        if not self.config.advertisements:
            return list(entries)
        advertised: FilterMap[None] = FilterMap()
        for advertisement in advertisements:
            advertised.add(advertisement.filter, None)
        return [entry for entry in entries if advertised.overlaps_any(entry.filter)]

    def is_settled(self, neighbours: Iterable[Node]) -> bool:
        """Whether nothing is unanswered between this broker and these neighbours."""
        return all(propagation.is_settled(neighbours) for propagation in self._layers.values())

    def entries_but_from(self, layer: Layer, sources: Iterable[Node]) -> list[Entry]:
        left_out = frozenset(sources)
        return [entry for source, entry in self._layers[layer].entries() if source not in left_out]

    # Looking in ----------------------------------------------------------------------------------------------

    def has(self, layer: Layer, source: Node, entry: Entry) -> bool:
        return self._layers[layer].has(source, entry)

    def received_from(self, layer: Layer, source: Node) -> Sequence[Entry]:
        return self._layers[layer].received_from(source)

    def told(self, layer: Layer, neighbour: Node) -> frozenset[Entry]:
        return self._layers[layer].told(neighbour)

    def remote_entries(self) -> int:
        """Subscriptions held for neighbours: the size by which S1 §2.2.2 compares policies."""
        return sum(len(self._subscriptions.received_from(neighbour)) for neighbour in self.neighbours)

    @property
    def subscription_count(self) -> int:
        """Those in the table, of clients and of neighbours."""
        return len(self._table)

    def capture(self) -> RouterState:
        return RouterState(
            self.parent,
            list(self.neighbours),
            self._subscriptions.capture(),
            self._advertisements.capture(),
            self._rounds.capture(),
        )

    def restore(self, state: RouterState) -> None:
        self.parent = state.parent
        self.neighbours = list(state.neighbours)
        self._rounds.restore(state.rounds)
        self._advertisements.restore(state.advertisements)
        for source, entry in self._advertisements.entries():
            self._enter(Layer.ADVERTISEMENTS, source, entry)
        self._subscriptions.restore(state.subscriptions)
        for source, entry in self._subscriptions.entries():
            self._enter(Layer.SUBSCRIPTIONS, source, entry)
