"""Carrying entries through the tree: what was received from whom, what was told to whom, and who waits for it.

Invariant, after every call: what neighbour N has been told equals `reduce(entries of every destination but N that
the gate lets through)`. A change of what is received becomes the difference between two such sets, installs before
withdrawals, so that there is no moment in between at which too little is known.

When is an entry in effect everywhere? A neighbour answers each `Install` with `Installed` once the entry is in
effect at itself and behind it. A request is confirmed when every install that it caused is answered; where it
caused none because a wider entry was told before, it waits for whatever is still unanswered on that link, for one
of those may be the wider entry.

A reconfiguration may *suspend* links: nothing is told over them, and requests wait. It ends by `rewire`, which takes
over what lies on both sides of the changed links, tells the difference between what the far side has and what it
should have, and has it confirm (`Settle`) in place of all that was unanswered.
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
        self._relays = RenewalRelay(layer, relaying, make_stages) if relaying is not Relaying.NEVER else None
        self._exports: dict[Node, Export] = {}  # sorted: the order of messages must not tell who came first
        self._waits = PendingAcks()

    # Neighbours ----------------------------------------------------------------------------------------------

    def connect(self, neighbour: Node) -> list[Send]:
        """Tell a new neighbour what it has to know."""
        assert neighbour not in self._exports, neighbour
        self._exports = dict(sorted({**self._exports, neighbour: Export(self._make_stages())}.items()))
        self._begin_relay(neighbour)
        return self._tell(neighbour, Change(added=tuple(e for _, e in self._concerning(neighbour))))[0]

    def disconnect(self, neighbour: Node) -> list[Ticket]:
        """Forget what a neighbour was told; returns the tickets that only waited for it.

        What it had asked for stays until it is removed entry by entry (`received_from`). Answers owed to it are not: it
        may come back without its memory, and take them for answers to what it asks then.
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
        """What is reduced for a neighbour."""
        return [(s, e) for s, e in self._received if s != neighbour and self._gate(neighbour, e.filter)]

    def add(self, source: Node, entry: Entry, ticket: Ticket | None = None) -> tuple[list[Send], bool]:
        """Take an entry in. Returns what to send, and whether the ticket is due at once.

        An entry that is already there changes nothing (S1 §2.2.1: subscribing is idempotent), but is renewed.
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
            if self._relays and not export.is_suspended:
                relayed += self._relays.renewed(neighbour, entry, export, is_first=not was_fresh)
        return once([*sends, *relayed]) if relayed else sends, self._waits.begin(ticket, needs)

    def remove(self, source: Node, entry: Entry) -> list[Send]:
        """Take an entry back; one that is not there changes nothing."""
        if not self._received.has(source, entry):
            return []
        was_fresh = self._received.is_fresh(source, entry)
        self._received.remove(source, entry)
        sends: list[Send] = []
        relayed: list[Send] = []
        for neighbour, export in self._exports.items():
            if neighbour != source and self._gate(neighbour, entry.filter):
                relayed += self._relays.removed(neighbour, entry, export) if self._relays and was_fresh else []
                sends += self._tell(neighbour, Change(removed=(entry,)))[0]
        return once([*sends, *relayed]) if relayed else sends

    def admit(self, neighbour: Node, entries: Iterable[Entry]) -> list[Send]:
        """The gate to `neighbour` has opened for these entries."""
        return self._tell(neighbour, Change(added=tuple(entries)))[0]

    def exclude(self, neighbour: Node, entries: Iterable[Entry]) -> list[Send]:
        """The gate to `neighbour` has closed for these entries."""
        return self._tell(neighbour, Change(removed=tuple(entries)))[0]

    def _tell(self, neighbour: Node, change: Change) -> tuple[list[Send], list[int]]:
        """Pass a change through the neighbour's reduction and number the installs that come out."""
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
        """What was not renewed since the last tick. A link that is being changed is given the benefit of the doubt."""
        suspended = [neighbour for neighbour, export in self._exports.items() if export.is_suspended]
        return [(source, entry) for source, entry in self._received.stale() if source not in suspended]

    def is_suspended(self, neighbour: Node) -> bool:
        return self._exports[neighbour].is_suspended

    def age(self) -> list[Send]:
        """A tick: from now on everything has to be renewed again."""
        self._received.age()
        if not self._relays:
            return []
        return [send for n, export in self._exports.items() for send in self._relays.tick(n, export.told)]

    def renew(self, away: Collection[Node] = ()) -> list[Send]:
        """Tell the neighbours again what they should have, and ask again for answers that are due.

        Nothing is lost between neighbours but in a fault; whatever it was, this mends it.
        """
        sends: list[Send] = []
        for neighbour, export in self._exports.items():
            if export.is_suspended or neighbour in away:
                continue
            if not self._relays:
                told = sorted(export.told)
                sends += [Send(neighbour, Install(self._layer, UNANSWERED, e.owner, e.filter)) for e in told]
            if export.unanswered:
                sends.append(Send(neighbour, Settle(self._layer, export.settle(), [])))
        return sends

    def mend(self, known: AbstractSet[Node]) -> None:
        """Forget what cannot be: numbers out of range, and what waits for such, or for nobody who is `known`."""
        for export in self._exports.values():
            export.mend()
        for ticket in self._waits:
            is_of_neighbour = ticket.requester in self._exports
            fits = ticket.requester in known and is_of_neighbour == isinstance(ticket.token, int)
            if not fits or not all(self._is_open(need) for need in self._waits.needs(ticket)):
                self.forget(ticket)  # who asked asks again

    def _is_open(self, need: Need) -> bool:
        export = self._exports.get(need.neighbour)
        if export is None or need.number == WITH_THE_REST:
            return export is not None and export.is_suspended
        return export.is_open(need.number, with_earlier=need.with_earlier)

    def _begin_relay(self, neighbour: Node) -> None:
        if self._relays:
            concerning = self._concerning(neighbour)
            self._relays.begin(neighbour, [e for s, e in concerning if self._received.is_fresh(s, e)])

    # Reconfigurations ----------------------------------------------------------------------------------------

    def suspend(self, neighbours: Iterable[Node]) -> None:
        """Tell these neighbours nothing more, until the links to them are rewired."""
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
        """Put the changed links in place of the former ones, and tell everyone what that changes for them.

        `clients`: what new clients want. `settle`: have the changed links confirm what was told, even if nothing of it
        is unanswered here. Returns what to send, and the tickets that are due since all they waited for is gone.
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
        due = self._waits.put_over(frozenset(changed), owed, settled)
        return [*sends, *asked], due

    def ask_also(self, awaited: Node, way: Sequence[Node]) -> list[Send]:
        """What waits for answers of one neighbour waits for those on another way too, which leads where that one did.

        Not what came that way: if requests were to wait for the link that they are answered over, those of both ends of
        a cycle would wait for each other for ever.
        """
        waiting = [
            ticket
            for ticket in self._waits
            if ticket.requester != way[0] and any(need.neighbour == awaited for need in self._waits.needs(ticket))
        ]
        sends, settled = self._ask_to_settle([(way[0], way[1:])] if waiting else [])
        for ticket in waiting:
            self._waits.put(ticket, self._waits.needs(ticket) | settled)
        return sends

    def doubt(self, way: Sequence[Node]) -> None:
        """Links on this way are about to change: what its first broker was told before may not be in effect on it.

        A request that is covered by such an entry has that broker confirm, and the brokers behind it.
        """
        self._exports[way[0]].doubted = tuple(way[1:])

    def trust(self, neighbour: Node) -> None:
        """The links behind it are as they will be."""
        if neighbour in self._exports:
            self._exports[neighbour].doubted = None

    def park(self, ticket: Ticket) -> bool:
        """Whether the answer has to wait: over a suspended link none goes that would overtake what is not told."""
        export = self._exports.get(ticket.requester)
        if export is None or not export.is_suspended:
            return False
        self._waits.begin(ticket, {Need(ticket.requester, WITH_THE_REST)})
        return True

    def is_settled(self, neighbours: Iterable[Node]) -> bool:
        """Whether nothing is unanswered on the links to these neighbours, in either direction."""
        among = frozenset(neighbours)
        if any(self._exports[n].unanswered for n in among if n in self._exports):
            return False
        return not self._waits.concern(among)

    def _reconnect(self, neighbour: Node, link: LayerLink, installs: int) -> list[Send]:
        """Numbers go on where the link stays: an answer to an old one must not be taken for that to a new one."""
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
        """Wait for all that is unanswered elsewhere. Returns what to send, and whether nothing is.

        A neighbour that is asked for and has moved on may be behind any other: then everyone is asked.
        """
        others = {n: export for n, export in self._exports.items() if n != source}
        sends = []
        for neighbour, further in asked(beyond, others):
            if not others[neighbour].is_suspended:
                sends.append(Send(neighbour, Settle(self._layer, others[neighbour].number(), further)))
        needs = {Need(n, e.installs, with_earlier=True) for n, e in others.items() if e.unanswered}
        needs |= {Need(n, WITH_THE_REST) for n, export in others.items() if export.is_suspended}
        return sends, self._waits.begin(ticket, needs)

    # Confirmations -------------------------------------------------------------------------------------------

    def installed(self, neighbour: Node, number: int) -> list[Ticket]:
        """`neighbour` has answered; returns the tickets that are due now."""
        export = self._exports.get(neighbour)
        if export is None or number not in export.unanswered:
            return []
        return self._answered(neighbour, export, number)

    def waiting_of(self, requester: Node) -> list[Ticket]:
        return self._waits.of(requester)

    def waiting(self) -> list[Ticket]:
        return list(self._waits)

    def forget(self, ticket: Ticket) -> None:
        """Nobody wants to know any more."""
        self._waits.forget(ticket)

    def _answered(self, neighbour: Node, export: Export, number: int) -> list[Ticket]:
        numbers, everything_up_to = export.answer(number)
        all_up_to = [Need(neighbour, upto, with_earlier=True) for upto in everything_up_to]
        return self._waits.meet([*(Need(neighbour, each) for each in numbers), *all_up_to])

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> PropagationState:
        return PropagationState(
            received=self._received.capture(),
            installs={n: export.installs for n, export in self._exports.items()},
            unanswered={n: sorted(export.unanswered) for n, export in self._exports.items()},
            waits=[(ticket, sorted(self._waits.needs(ticket))) for ticket in self._waits],
            suspended={n: sorted(export.told) for n, export in self._exports.items() if export.is_suspended},
            stale=self._received.captured_stale(),
            settles={n: sorted(export.settles) for n, export in self._exports.items() if export.settles},
            doubted={n: list(export.doubted) for n, export in self._exports.items() if export.doubted is not None},
        )

    def restore(self, state: PropagationState) -> None:
        """Take over a captured state, into a fresh instance; what was told follows from what was received."""
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
            self._waits.begin(ticket, set(needs))
