"""Pending acknowledgements: tickets of requests, and the answers that each waits for.

A request may wait for everything that is unanswered on a link. That is one need, however many installs it stands for: a
neighbour may be absent for days while thousands of requests wait for thousands of installs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pleach.core.messages import Layer, Node

WITH_THE_REST = 0  # in place of a number: met when the suspended link is rewired


class Ticket(NamedTuple):
    """The requester to confirm to: a neighbour by its number, or a client by the name of its request."""

    layer: Layer
    requester: Node
    token: int | str


class Need(NamedTuple):
    """What a ticket waits for: the answer to one install on a link, or to all up to it."""

    neighbour: Node
    number: int
    with_earlier: bool = False


class PendingAcks:
    def __init__(self) -> None:
        self._needs: dict[Ticket, set[Need]] = {}
        self._tickets: dict[Need, dict[Ticket, None]] = {}

    def __iter__(self) -> Iterator[Ticket]:
        """Sorted, independent of arrival order: clients' tickets by name, neighbours' by number."""
        return iter(sorted(self._needs, key=by_number))

    def needs(self, ticket: Ticket) -> AbstractSet[Need]:
        return self._needs[ticket]

    def put(self, ticket: Ticket, needs: Iterable[Need]) -> None:
        """Let a ticket wait for exactly these needs; at least one."""
        self.forget(ticket)
        self._needs[ticket] = {*needs}
        for need in self._needs[ticket]:
            self._tickets.setdefault(need, {})[ticket] = None

    def begin(self, ticket: Ticket | None, needs: AbstractSet[Need]) -> bool:
        """Whether the ticket is due at once; otherwise it waits for `needs`."""
        if ticket is not None and needs:
            self.put(ticket, needs)
        return ticket is not None and not needs

    def of(self, requester: Node) -> list[Ticket]:
        return [ticket for ticket in self if ticket.requester == requester]

    def concern(self, neighbours: AbstractSet[Node]) -> bool:
        """Whether an answer is pending from or to these neighbours."""
        return any(
            ticket.requester in neighbours or any(need.neighbour in neighbours for need in needs)
            for ticket, needs in self._needs.items()
        )

    def put_over(self, changed: AbstractSet[Node], gone: AbstractSet[Node], settled: AbstractSet[Need]) -> list[Ticket]:
        """Move needs from changed links to `settled`, and drop tickets of requesters in `gone`.

        A ticket never waits for the link of its own requester. Returns the tickets that have no needs left.
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
        """The confirmation is no longer wanted."""
        for need in self._needs.pop(ticket, ()):
            waiting = self._tickets[need]
            del waiting[ticket]
            if not waiting:
                del self._tickets[need]

    def meet(self, needs: Iterable[Need]) -> list[Ticket]:
        """Mark needs as met; returns the tickets that are due now."""
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
