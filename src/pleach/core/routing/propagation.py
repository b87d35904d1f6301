"""Propagation of entries through the tree, for one layer: received entries, exports, and pending confirmations.

Invariant, after every call: neighbour N has been told exactly `reduce(entries of every destination except N that pass
the gate)`. A change of the received entries becomes the difference between two such sets, installs before withdrawals,
so that no neighbour knows too little in between.

When is an entry in effect everywhere? A neighbour answers each `Install` with `Installed` once the entry is in effect
at itself and behind it. A request is confirmed when every install that it caused is answered. Where it caused none
because a wider entry was told before, it waits for all that is unanswered on that link: the wider entry may be among
it.

A reconfiguration may *suspend* links: nothing is sent over them, and requests wait. It ends with `rewire`, which takes
over the tables of both sides of the changed links, sends the difference between what the peer has and what it should
have, and has the peer confirm (`Settle`) in place of all that was unanswered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from pleach.core.effects import Send
from pleach.core.messages import Install, Layer, Node, Settle, Withdraw
from pleach.core.routing.entries import Change, Entry, Gate, gated
from pleach.core.routing.exports import Export
from pleach.core.routing.pending_acks import WITH_THE_REST, Need, PendingAcks, Ticket
from pleach.core.routing.received import Received
from pleach.core.routing.renewal_relay import UNANSWERED, Relaying, RenewalRelay, once
from pleach.core.routing.rewiring import LayerLink, asked
from pleach.core.routing.snapshot import PropagationState
from pleach.core.routing.stages import Stage


class Propagation:
    def __init__(
        self,
        layer: Layer,
        make_stages: Callable[[], Sequence[Stage]],
        gate: Gate,
        relaying: Relaying = Relaying.NEVER,
    ) -> None:
        self._layer = layer
        self._make_stages = make_stages
        self._gate = gate
        self._received = Received()
        self._relay = RenewalRelay(layer, relaying, make_stages) if relaying is not Relaying.NEVER else None
        self._exports: dict[Node, Export] = {}  # sorted: the order of messages is independent of arrival order
        self._pending = PendingAcks()

    # Neighbours ----------------------------------------------------------------------------------------------

    def connect(self, neighbour: Node) -> list[Send]:
        """Send a new neighbour its entries."""
        assert neighbour not in self._exports, neighbour
        self._exports = dict(sorted({**self._exports, neighbour: Export(self._make_stages())}.items()))
        self._begin_relay(neighbour)
        return self._tell(neighbour, Change(added=tuple(e for _, e in self._concerning(neighbour))))[0]

    def disconnect(self, neighbour: Node) -> list[Ticket]:
        """Drop the export to a neighbour; returns the tickets that waited only for it.

        Entries received from it stay until they are removed one by one (`received_from`). Answers owed to it are
        dropped: it may return without its state and take them for answers to later requests.
        """
        for ticket in self.waiting_of(neighbour):
            self.forget(ticket)
        export = self._exports.pop(neighbour)
        return [t for number in sorted(export.unanswered) for t in self._answered(neighbour, export, number)]

    # Entries -------------------------------------------------------------------------------------------------

    def entries(self) -> Iterator[tuple[Node, Entry]]:
        return iter(self._received)

    def received_from(self, source: Node) -> Sequence[Entry]:
        return self._received.of(source)

    def told(self, neighbour: Node) -> frozenset[Entry]:
        return frozenset(self._exports[neighbour].told)

    def has(self, source: Node, entry: Entry) -> bool:
        return self._received.has(source, entry)

    def _concerning(self, neighbour: Node) -> list[tuple[Node, Entry]]:
        """The entries that are reduced for a neighbour."""
        return [(s, e) for s, e in self._received if s != neighbour and self._gate(neighbour, e.filter)]

    def add(self, source: Node, entry: Entry, ticket: Ticket | None = None) -> tuple[list[Send], bool]:
        """Add an entry. Returns the sends, and whether the ticket is due at once.

        An entry that exists is only renewed (S1 §2.2.1: subscribing is idempotent).
        """
        is_new, was_fresh = not self._received.has(source, entry), self._received.is_fresh(source, entry)
        self._received.put(source, entry)
        sends: list[Send] = []
        relayed: list[Send] = []
        needs: set[Need] = set()
        for neighbour, export in self._exports.items():
            if neighbour == source:
                continue
            if export.is_suspended:
                needs.add(Need(neighbour, WITH_THE_REST))
            if not self._gate(neighbour, entry.filter):
                continue
            numbers: Sequence[int] = ()
            if is_new:
                told, numbers = self._tell(neighbour, Change(added=(entry,)))
                sends += told
            needs.update(Need(neighbour, number) for number in numbers)
            if not numbers and ticket is not None and export.doubted is not None:
                asked, settled = self._ask_to_settle([(neighbour, export.doubted)])
                sends += asked
                needs |= settled
            elif not numbers and export.unanswered:
                needs.add(Need(neighbour, export.installs, with_earlier=True))
            if self._relay and not export.is_suspended:
                relayed += self._relay.renewed(neighbour, entry, export, is_first=not was_fresh)
        return once([*sends, *relayed]) if relayed else sends, self._pending.begin(ticket, needs)

    def remove(self, source: Node, entry: Entry) -> list[Send]:
        """Remove an entry, if it exists."""
        if not self._received.has(source, entry):
            return []
        was_fresh = self._received.is_fresh(source, entry)
        self._received.remove(source, entry)
        sends: list[Send] = []
        relayed: list[Send] = []
        for neighbour, export in self._exports.items():
            if neighbour != source and self._gate(neighbour, entry.filter):
                relayed += self._relay.removed(neighbour, entry, export) if self._relay and was_fresh else []
                sends += self._tell(neighbour, Change(removed=(entry,)))[0]
        return once([*sends, *relayed]) if relayed else sends

    def admit(self, neighbour: Node, entries: Iterable[Entry]) -> list[Send]:
        """The gate to `neighbour` has opened for these entries."""
        return self._tell(neighbour, Change(added=tuple(entries)))[0]

    def exclude(self, neighbour: Node, entries: Iterable[Entry]) -> list[Send]:
        """The gate to `neighbour` has closed for these entries."""
        return self._tell(neighbour, Change(removed=tuple(entries)))[0]

    def _tell(self, neighbour: Node, change: Change) -> tuple[list[Send], list[int]]:
        """Apply a change to the neighbour's reduction, and number the resulting installs."""
        export = self._exports[neighbour]
        if export.is_suspended:
            return [], []
        return self._send_change(neighbour, export.apply(change))

    def _send_change(self, neighbour: Node, change: Change) -> tuple[list[Send], list[int]]:
        export = self._exports[neighbour]
        sends: list[Send] = []
        numbers: list[int] = []
        for entry in sorted(change.added):
            numbers.append(export.number())
            sends.append(Send(neighbour, Install(self._layer, numbers[-1], entry.owner, entry.filter)))
        sends += [Send(neighbour, Withdraw(self._layer, e.owner, e.filter)) for e in sorted(change.removed)]
        return sends, numbers

    # Leases --------------------------------------------------------------------------------------------------

    def stale(self) -> list[tuple[Node, Entry]]:
        """Entries that were not renewed since the last tick, except those of suspended links."""
        suspended = [neighbour for neighbour, export in self._exports.items() if export.is_suspended]
        return [(source, entry) for source, entry in self._received.stale() if source not in suspended]

    def is_suspended(self, neighbour: Node) -> bool:
        return self._exports[neighbour].is_suspended

    def age(self) -> list[Send]:
        """A tick: clear the flags of all entries."""
        self._received.age()
        if not self._relay:
            return []
        return [send for n, export in self._exports.items() for send in self._relay.tick(n, export.told)]

    def renew(self, away: Collection[Node] = ()) -> list[Send]:
        """Send the neighbours their entries again, and ask again for unanswered installs: repairs what a fault lost."""
        sends: list[Send] = []
        for neighbour, export in self._exports.items():
            if export.is_suspended or neighbour in away:
                continue
            if not self._relay:
                told = sorted(export.told)
                sends += [Send(neighbour, Install(self._layer, UNANSWERED, e.owner, e.filter)) for e in told]
            if export.unanswered:
                sends.append(Send(neighbour, Settle(self._layer, export.settle(), [])))
        return sends

    def mend(self, known: AbstractSet[Node]) -> None:
        """Drop numbers out of range, and tickets that wait for them or whose requester is not `known`."""
        for export in self._exports.values():
            export.mend()
        for ticket in self._pending:
            is_of_neighbour = ticket.requester in self._exports
            fits = ticket.requester in known and is_of_neighbour == isinstance(ticket.token, int)
            if not fits or not all(self._is_open(need) for need in self._pending.needs(ticket)):
                self.forget(ticket)  # the requester asks again

    def _is_open(self, need: Need) -> bool:
        export = self._exports.get(need.neighbour)
        if export is None or need.number == WITH_THE_REST:
            return export is not None and export.is_suspended
        return export.is_open(need.number, with_earlier=need.with_earlier)

    def _begin_relay(self, neighbour: Node) -> None:
        if self._relay:
            concerning = self._concerning(neighbour)
            self._relay.begin(neighbour, [e for s, e in concerning if self._received.is_fresh(s, e)])

    # Reconfigurations ----------------------------------------------------------------------------------------

    def suspend(self, neighbours: Iterable[Node]) -> None:
        """Send these neighbours nothing until their links are rewired."""
        for neighbour in neighbours:
            self._exports[neighbour].is_suspended = True

    def rewire(
        self,
        gone: Iterable[Node],
        links: Mapping[Node, LayerLink],
        clients: Mapping[Node, Iterable[Entry]],
        *,
        settle: bool,
    ) -> tuple[list[Send], list[Ticket]]:
        """Replace changed links, and send every neighbour the resulting change.

        `clients`: entries of new clients. `settle`: have the peers of changed links confirm even if nothing is
        unanswered here. Returns the sends, and the tickets that are due because all their needs are gone.
        """
        changed = sorted({*gone, *links})
        settle = settle or not self.is_settled(changed)
        received = {**{neighbour: link.received for neighbour, link in links.items()}, **clients}
        difference = self._received.replace(changed, received)
        sends = []
        for neighbour in self._exports:
            if neighbour not in changed:
                sends += self._tell(neighbour, gated(difference, self._gate, neighbour))[0]
        former = {n: self._exports.pop(n).installs for n in changed if n in self._exports}
        for neighbour, link in sorted(links.items()):
            sends += self._reconnect(neighbour, link, former.get(neighbour, 0))
        self._exports = dict(sorted(self._exports.items()))
        if not settle:
            return sends, []
        ways = [(neighbour, link.beyond) for neighbour, link in sorted(links.items())]
        asked, settled = self._ask_to_settle(ways)
        owed = frozenset(changed) - {neighbour for neighbour, link in links.items() if link.is_same}
        due = self._pending.put_over(frozenset(changed), owed, settled)
        return [*sends, *asked], due

    def ask_also(self, awaited: Node, way: Sequence[Node]) -> list[Send]:
        """Let tickets that wait for one neighbour also wait for another path, which leads to the same brokers.

        Not tickets that came over that path: if requests waited for the link that they are answered over, requests from
        both ends of a cycle would wait for each other for ever.
        """
        waiting = [
            ticket
            for ticket in self._pending
            if ticket.requester != way[0] and any(need.neighbour == awaited for need in self._pending.needs(ticket))
        ]
        sends, settled = self._ask_to_settle([(way[0], way[1:])] if waiting else [])
        for ticket in waiting:
            self._pending.put(ticket, self._pending.needs(ticket) | settled)
        return sends

    def doubt(self, way: Sequence[Node]) -> None:
        """Links on this path are about to change: entries told to its first broker may not be in effect on it.

        A request that such an entry covers has that broker and those behind it confirm.
        """
        self._exports[way[0]].doubted = tuple(way[1:])

    def trust(self, neighbour: Node) -> None:
        """The links behind it no longer change."""
        if neighbour in self._exports:
            self._exports[neighbour].doubted = None

    def park(self, ticket: Ticket) -> bool:
        """Whether an answer must wait: over a suspended link it would overtake entries that are not sent yet."""
        export = self._exports.get(ticket.requester)
        if export is None or not export.is_suspended:
            return False
        self._pending.begin(ticket, {Need(ticket.requester, WITH_THE_REST)})
        return True

    def is_settled(self, neighbours: Iterable[Node]) -> bool:
        """Whether no answer is pending on the links to these neighbours, in either direction."""
        among = frozenset(neighbours)
        if any(self._exports[n].unanswered for n in among if n in self._exports):
            return False
        return not self._pending.concern(among)

    def _reconnect(self, neighbour: Node, link: LayerLink, installs: int) -> list[Send]:
        """Numbers continue where the link stays: an answer to an old install must not match a new one."""
        export = self._exports[neighbour] = Export(self._make_stages())
        export.installs = installs
        export.answered_before = installs + 1
        self._begin_relay(neighbour)
        if link.is_suspended:
            export.told = dict.fromkeys(sorted(link.told))
            export.is_suspended = True
            return []
        export.apply(Change(added=tuple(e for _, e in self._concerning(neighbour))))
        has, should = frozenset(link.told), frozenset(export.told)
        return self._send_change(neighbour, Change(tuple(should - has), tuple(has - should)))[0]

    def _ask_to_settle(self, ways: Iterable[tuple[Node, Sequence[Node]]]) -> tuple[list[Send], set[Need]]:
        sends = []
        settled = set()
        for neighbour, beyond in ways:
            export = self._exports[neighbour]
            if export.is_suspended:
                settled.add(Need(neighbour, WITH_THE_REST))
                continue
            number = export.number()
            settled.add(Need(neighbour, number))
            sends.append(Send(neighbour, Settle(self._layer, number, list(beyond))))
        return sends, settled

    def settle(self, source: Node, beyond: Sequence[Node], ticket: Ticket) -> tuple[list[Send], bool]:
        """Wait for all that is unanswered elsewhere. Returns the sends, and whether nothing is.

        If the named neighbour has moved, it may be behind any other: then all neighbours are asked.
        """
        others = {n: export for n, export in self._exports.items() if n != source}
        sends = []
        for neighbour, further in asked(beyond, others):
            if not others[neighbour].is_suspended:
                sends.append(Send(neighbour, Settle(self._layer, others[neighbour].number(), further)))
        needs = {Need(n, e.installs, with_earlier=True) for n, e in others.items() if e.unanswered}
        needs |= {Need(n, WITH_THE_REST) for n, export in others.items() if export.is_suspended}
        return sends, self._pending.begin(ticket, needs)

    # Confirmations -------------------------------------------------------------------------------------------

    def installed(self, neighbour: Node, number: int) -> list[Ticket]:
        """Record an answer of `neighbour`; returns the tickets that are due now."""
        export = self._exports.get(neighbour)
        if export is None or number not in export.unanswered:
            return []
        return self._answered(neighbour, export, number)

    def waiting_of(self, requester: Node) -> list[Ticket]:
        return self._pending.of(requester)

    def waiting(self) -> list[Ticket]:
        return list(self._pending)

    def forget(self, ticket: Ticket) -> None:
        """The confirmation is no longer wanted."""
        self._pending.forget(ticket)

    def _answered(self, neighbour: Node, export: Export, number: int) -> list[Ticket]:
        numbers, everything_up_to = export.answer(number)
        all_up_to = [Need(neighbour, upto, with_earlier=True) for upto in everything_up_to]
        return self._pending.meet([*(Need(neighbour, each) for each in numbers), *all_up_to])

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> PropagationState:
        return PropagationState(
            received=self._received.capture(),
            installs={n: export.installs for n, export in self._exports.items()},
            unanswered={n: sorted(export.unanswered) for n, export in self._exports.items()},
            waits=[(ticket, sorted(self._pending.needs(ticket))) for ticket in self._pending],
            suspended={n: sorted(export.told) for n, export in self._exports.items() if export.is_suspended},
            stale=self._received.captured_stale(),
            settles={n: sorted(export.settles) for n, export in self._exports.items() if export.settles},
            doubted={n: list(export.doubted) for n, export in self._exports.items() if export.doubted is not None},
        )

    def restore(self, state: PropagationState) -> None:
        """Restore a fresh instance; exports follow from the received entries."""
        self._received.restore(state.received, state.stale)
        for neighbour, installs in state.installs.items():
            export = self._exports[neighbour] = Export(self._make_stages())
            export.apply(Change(added=tuple(e for _, e in self._concerning(neighbour))))
            self._begin_relay(neighbour)
            export.installs = installs
            export.unanswered = set(state.unanswered[neighbour])
            export.settles = set(state.settles.get(neighbour, ()))
            export.answered_before = min(export.unanswered, default=installs + 1)
            if neighbour in state.doubted:
                export.doubted = tuple(state.doubted[neighbour])
            if neighbour in state.suspended:
                export.told = dict.fromkeys(state.suspended[neighbour])
                export.is_suspended = True
        for ticket, needs in state.waits:
            self._pending.begin(ticket, set(needs))
