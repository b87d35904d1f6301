"""Who waits for which answers: tickets, and what must be answered before they are due.

A request may wait for all that is unanswered on a link. That is one need, however many installs it stands for: a
neighbour may be away for days, and thousands of requests may wait for thousands of installs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pleach.core.messages import Layer, Node

WITH_THE_REST = 0  # in place of a number: what waits for this is confirmed when its suspended link is rewired


class Ticket(NamedTuple):
    """Whom to tell that a request is in effect: a neighbour by number, or a client by the name it gave."""

    layer: Layer
    requester: Node
    token: int | str


class Need(NamedTuple):
    """What a ticket waits for: the answer to one install on a link, or to that one and all before it."""

    neighbour: Node
    number: int
    with_earlier: bool = False


class PendingAcks:
    def __init__(self) -> None:
        self._needs: dict[Ticket, set[Need]] = {}
        self._tickets: dict[Need, dict[Ticket, None]] = {}

    def __iter__(self) -> Iterator[Ticket]:
        """In an order that does not tell which came first: clients' by name, neighbours' by number."""
        return iter(sorted(self._needs, key=by_number))

    def needs(self, ticket: Ticket) -> AbstractSet[Need]:
        return self._needs[ticket]

    def put(self, ticket: Ticket, needs: Iterable[Need]) -> None:
        """Let a ticket wait for these needs, and no others; there is at least one."""
        self.forget(ticket)
        self._needs[ticket] = {*needs}
        for need in self._needs[ticket]:
            self._tickets.setdefault(need, {})[ticket] = None

    def begin(self, ticket: Ticket | None, needs: AbstractSet[Need]) -> bool:
        """Whether the ticket is due at once, as it needs nothing; otherwise it waits."""
        if ticket is not None and needs:
            self.put(ticket, needs)
        return ticket is not None and not needs

    def of(self, requester: Node) -> list[Ticket]:
        return [ticket for ticket in self if ticket.requester == requester]

    def concern(self, neighbours: AbstractSet[Node]) -> bool:
        """Whether anything is to be answered over the links to these neighbours, or by them."""
        return any(
            ticket.requester in neighbours or any(need.neighbour in neighbours for need in needs)
            for ticket, needs in self._needs.items()
        )

    def put_over(self, changed: AbstractSet[Node], gone: AbstractSet[Node], settled: AbstractSet[Need]) -> list[Ticket]:
        """What waited for an answer over a changed link waits for the new ones; what was owed over one, no more.

        Nobody waits for the link that it has to answer over. Returns the tickets that have nothing left to wait for.
        """
        due = []
        for ticket in self:
            before = self._needs[ticket]
            after = {need for need in before if need.neighbour not in changed}
            self.forget(ticket)
            if ticket.requester in gone:
                continue
            instead = {need for need in settled if need.neighbour != ticket.requester}
            if self.begin(ticket, after if after == before else after | instead):
                due.append(ticket)
        return due

    def forget(self, ticket: Ticket) -> None:
        """Nobody wants to know any more."""
        for need in self._needs.pop(ticket, ()):
            waiting = self._tickets[need]
            del waiting[ticket]
            if not waiting:
                del self._tickets[need]

    def meet(self, needs: Iterable[Need]) -> list[Ticket]:
        """These needs are met; returns the tickets that are due now."""
        due = []
        for need in needs:
            for ticket in self._tickets.pop(need, ()):
                left = self._needs[ticket]
                left.discard(need)
                if not left:
                    del self._needs[ticket]
                    due.append(ticket)
        return sorted(due, key=by_number)


def by_number(ticket: Ticket) -> tuple[Node, int, str]:
    token = ticket.token
    return (ticket.requester, token, "") if isinstance(token, int) else (ticket.requester, 0, token)
