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

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from pleach.effects import Send
from pleach.events.filter import Filter
from pleach.messages import Install, Layer, Node, Settle, Withdraw
from pleach.routing.entries import Change, Entry
from pleach.routing.stages import Stage

Gate: TypeAlias = Callable[[Node, Filter], bool]

WITH_THE_REST = 0  # in place of a number: what waits for this is confirmed when its suspended link is rewired
EVERYONE: Final = "*"  # in place of the name of a neighbour


class Ticket(NamedTuple):
    """Whom to tell that a request is in effect: a neighbour by number, or a client by the name it gave."""

    layer: Layer
    requester: Node
    token: int | str


class LayerLink(NamedTuple):
    """One layer of a link as a reconfiguration leaves it: what came over it, and what the far side has of us.

    `beyond`: the neighbour of the far side whose confirmations the far side cannot vouch for (see `Settle`).
    """

    received: Iterable[Entry]
    told: Iterable[Entry]
    beyond: Node = ""


class Export:
    """What one neighbour has been told."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self.told: dict[Entry, None] = {}
        self.installs = 0  # sent so far; the number of the last one
        self.unanswered: set[int] = set()
        self.is_suspended = False

    def number(self) -> int:
        self.installs += 1
        self.unanswered.add(self.installs)
        return self.installs

    def apply(self, change: Change) -> Change:
        for stage in self._stages:
            change = stage.apply(change)
        for entry in change.removed:
            del self.told[entry]
        for entry in change.added:
            self.told[entry] = None
        return change


class PropagationState(msgspec.Struct, frozen=True, array_like=True):
    """All that a `Propagation` cannot compute anew, as plain sorted data."""

    received: dict[Node, list[Entry]]
    installs: dict[Node, int]
    unanswered: dict[Node, list[int]]
    waits: list[tuple[Ticket, list[tuple[Node, int]]]]
    suspended: dict[Node, list[Entry]]  # what a suspended link was told: this does not follow from what was received


class Propagation:
    def __init__(self, layer: Layer, make_stages: Callable[[], Sequence[Stage]], gate: Gate) -> None:
        self._layer = layer
        self._make_stages = make_stages
        self._gate = gate
        self._received: dict[Node, dict[Entry, None]] = {}
        self._exports: dict[Node, Export] = {}  # sorted: the order of messages must not tell who came first
        self._waits: dict[Ticket, set[tuple[Node, int]]] = {}
        self._waiting_for: dict[tuple[Node, int], list[Ticket]] = {}

    # Neighbours ----------------------------------------------------------------------------------------------

    def connect(self, neighbour: Node) -> list[Send]:
        """Tell a new neighbour what it has to know."""
        assert neighbour not in self._exports, neighbour
        self._exports = dict(sorted({**self._exports, neighbour: Export(self._make_stages())}.items()))
        entries = [e for source, e in self.entries() if source != neighbour and self._gate(neighbour, e.filter)]
        return self._tell(neighbour, Change(added=tuple(entries)))[0]

    def disconnect(self, neighbour: Node) -> list[Ticket]:
        """Forget what a neighbour was told; returns the tickets that only waited for it.

        What it had asked for stays until it is removed entry by entry (`received_from`).
        """
        export = self._exports.pop(neighbour)
        return [ticket for number in sorted(export.unanswered) for ticket in self._answered(neighbour, number)]

    # Entries -------------------------------------------------------------------------------------------------

    def entries(self) -> Iterator[tuple[Node, Entry]]:
        return ((source, entry) for source, entries in self._received.items() for entry in entries)

    def received_from(self, source: Node) -> Sequence[Entry]:
        return sorted(self._received.get(source, ()))

    def told(self, neighbour: Node) -> frozenset[Entry]:
        return frozenset(self._exports[neighbour].told)

    def has(self, source: Node, entry: Entry) -> bool:
        return entry in self._received.get(source, ())

    def add(self, source: Node, entry: Entry, ticket: Ticket | None = None) -> tuple[list[Send], bool]:
        """Take an entry in. Returns what to send, and whether the ticket is due at once.

        An entry that is already there changes nothing (S1 §2.2.1: subscribing is idempotent).
        """
        known = self._received.setdefault(source, {})
        is_new = entry not in known
        known[entry] = None
        sends: list[Send] = []
        needs: set[tuple[Node, int]] = set()
        for neighbour, export in self._exports.items():
            if neighbour == source:
                continue
            if export.is_suspended:
                needs.add((neighbour, WITH_THE_REST))
            if not self._gate(neighbour, entry.filter):
                continue
            numbers: Iterable[int] = ()
            if is_new:
                told, numbers = self._tell(neighbour, Change(added=(entry,)))
                sends += told
            needs.update((neighbour, number) for number in numbers or export.unanswered)
        return sends, self._await(ticket, needs)

    def remove(self, source: Node, entry: Entry) -> list[Send]:
        """Take an entry back; one that is not there changes nothing."""
        known = self._received.get(source, {})
        if entry not in known:
            return []
        del known[entry]
        if not known:
            del self._received[source]
        sends: list[Send] = []
        for neighbour in self._exports:
            if neighbour != source and self._gate(neighbour, entry.filter):
                sends += self._tell(neighbour, Change(removed=(entry,)))[0]
        return sends

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
        difference = self._replace_received(changed, received)
        sends = []
        for neighbour in self._exports:
            if neighbour not in changed:
                sends += self._tell(neighbour, _gated(difference, self._gate, neighbour))[0]
        former = {n: self._exports.pop(n).installs for n in changed if n in self._exports}
        for neighbour, link in sorted(links.items()):
            sends += self._reconnect(neighbour, link, former.get(neighbour, 0))
        self._exports = dict(sorted(self._exports.items()))
        if not settle:
            return sends, []
        settles, due = self._settle_again(changed, links)
        return sends + settles, due

    def is_settled(self, neighbours: Iterable[Node]) -> bool:
        """Whether nothing is unanswered on the links to these neighbours, in either direction."""
        among = frozenset(neighbours)
        if any(self._exports[n].unanswered for n in among if n in self._exports):
            return False
        return not any(
            ticket.requester in among or any(neighbour in among for neighbour, _ in needs)
            for ticket, needs in self._waits.items()
        )

    def _replace_received(self, gone: Iterable[Node], received: Mapping[Node, Iterable[Entry]]) -> Change:
        """The difference that other sources make to all that is received, as seen from a link that stays."""
        before = Counter(entry for source in gone for entry in self._received.pop(source, ()))
        for source, entries in sorted(received.items()):
            if known := dict.fromkeys(sorted(entries)):
                self._received[source] = known
        after = Counter(entry for source in received for entry in self._received.get(source, ()))
        return Change(tuple((after - before).elements()), tuple((before - after).elements()))

    def _reconnect(self, neighbour: Node, link: LayerLink, installs: int) -> list[Send]:
        """Numbers go on where the link stays: an answer to an old one must not be taken for that to a new one."""
        export = self._exports[neighbour] = Export(self._make_stages())
        export.installs = installs
        entries = [e for source, e in self.entries() if source != neighbour and self._gate(neighbour, e.filter)]
        export.apply(Change(added=tuple(entries)))
        has, should = frozenset(link.told), frozenset(export.told)
        return self._send_change(neighbour, Change(tuple(should - has), tuple(has - should)))[0]

    def _settle_again(
        self, changed: Sequence[Node], links: Mapping[Node, LayerLink]
    ) -> tuple[list[Send], list[Ticket]]:
        """What waited for an answer over a changed link waits for the new links; what was owed over one, no more."""
        sends = []
        settled = set()
        for neighbour, link in sorted(links.items()):
            number = self._exports[neighbour].number()
            settled.add((neighbour, number))
            sends.append(Send(neighbour, Settle(self._layer, number, link.beyond)))
        due = []
        for ticket in sorted(self._waits, key=_by_number):
            before = self._waits[ticket]
            after = {need for need in before if need[0] not in changed}
            self.forget(ticket)
            if ticket.requester in changed:
                continue
            if self._await(ticket, after if after == before else after | settled):
                due.append(ticket)
        return sends, due

    def settle(self, source: Node, beyond: Node, ticket: Ticket) -> tuple[list[Send], bool]:
        """Wait for all that is unanswered elsewhere. Returns what to send, and whether nothing is.

        A neighbour that is asked for and has moved on may be behind any other: then everyone is asked.
        """
        others = {n: export for n, export in self._exports.items() if n != source}
        sends = []
        for neighbour, export in others.items():
            if beyond and not export.is_suspended and (beyond == neighbour or beyond not in others):
                further = "" if beyond == neighbour else EVERYONE
                sends.append(Send(neighbour, Settle(self._layer, export.number(), further)))
        needs = {(n, number) for n, export in others.items() for number in export.unanswered}
        needs |= {(n, WITH_THE_REST) for n, export in others.items() if export.is_suspended}
        return sends, self._await(ticket, needs)

    # Confirmations -------------------------------------------------------------------------------------------

    def installed(self, neighbour: Node, number: int) -> list[Ticket]:
        """`neighbour` has answered; returns the tickets that are due now."""
        export = self._exports.get(neighbour)
        if export is None or number not in export.unanswered:
            return []
        return self._answered(neighbour, number)

    def forget(self, ticket: Ticket) -> None:
        """Nobody wants to know any more."""
        for need in self._waits.pop(ticket, ()):
            self._waiting_for[need].remove(ticket)

    def _await(self, ticket: Ticket | None, needs: set[tuple[Node, int]]) -> bool:
        if ticket is None:
            return False
        if not needs:
            return True
        self.forget(ticket)
        self._waits[ticket] = needs
        for need in sorted(needs):
            self._waiting_for.setdefault(need, []).append(ticket)
        return False

    def _answered(self, neighbour: Node, number: int) -> list[Ticket]:
        export = self._exports.get(neighbour)
        if export is not None:
            export.unanswered.discard(number)
        due = []
        for ticket in self._waiting_for.pop((neighbour, number), ()):
            needs = self._waits[ticket]
            needs.discard((neighbour, number))
            if not needs:
                del self._waits[ticket]
                due.append(ticket)
        return sorted(due, key=_by_number)

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> PropagationState:
        return PropagationState(
            received={source: sorted(entries) for source, entries in sorted(self._received.items())},
            installs={n: export.installs for n, export in self._exports.items()},
            unanswered={n: sorted(export.unanswered) for n, export in self._exports.items()},
            waits=[(ticket, sorted(self._waits[ticket])) for ticket in sorted(self._waits, key=_by_number)],
            suspended={n: sorted(export.told) for n, export in self._exports.items() if export.is_suspended},
        )

    def restore(self, state: PropagationState) -> None:
        """Take over a captured state, into a fresh instance; what was told follows from what was received."""
        for source, entries in state.received.items():
            self._received[source] = dict.fromkeys(entries)
        for neighbour, installs in state.installs.items():
            export = self._exports[neighbour] = Export(self._make_stages())
            told = [e for source, e in self.entries() if source != neighbour and self._gate(neighbour, e.filter)]
            export.apply(Change(added=tuple(told)))
            export.installs = installs
            export.unanswered = set(state.unanswered[neighbour])
            if neighbour in state.suspended:
                export.told = dict.fromkeys(state.suspended[neighbour])
                export.is_suspended = True
        for ticket, needs in state.waits:
            self._await(ticket, set(needs))


def _gated(change: Change, gate: Gate, neighbour: Node) -> Change:
    added = tuple(entry for entry in change.added if gate(neighbour, entry.filter))
    return Change(added, tuple(entry for entry in change.removed if gate(neighbour, entry.filter)))


def _by_number(ticket: Ticket) -> tuple[Node, int, str]:
    """An order of tickets that does not depend on which came first: clients' by name, neighbours' by number."""
    token = ticket.token
    return (ticket.requester, token, "") if isinstance(token, int) else (ticket.requester, 0, token)
