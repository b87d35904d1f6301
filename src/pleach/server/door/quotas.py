"""Quotas of principals: names, predicates, and the rate of what they publish.

A principal that publishes faster than its quota is not refused: its connections are read from again once the rate has
come down, so that nothing is lost and its own back-pressure slows it. A second's worth may come at once.

Rule 1: of the connections of a principal that is too fast one is read from at a time: each has as much waiting as a
        read takes, and all at once would bring that many times its quota.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pleach.access.principals import Principal, Quotas
from pleach.core.effects import Passed
from pleach.core.events.filter import Filter
from pleach.core.links.frames import Ping
from pleach.core.messages import Message, Node, Publish
from pleach.core.messages.runs import Run
from pleach.server.feature import Feature
from pleach.server.links import Pause
from pleach.server.parts import NodeParts


@dataclass(slots=True)
class Allowance:
    """What a principal may still publish now; below zero, it waits."""

    events: float
    bytes: float
    at: float

    def refill(self, quotas: Quotas, now: float) -> None:
        passed = now - self.at
        self.at = now
        self.events = min(quotas.events_per_second, self.events + passed * quotas.events_per_second)
        self.bytes = min(quotas.bytes_per_second, self.bytes + passed * quotas.bytes_per_second)

    def is_spent(self, quotas: Quotas) -> bool:
        return (quotas.events_per_second > 0 and self.events < 0) or (quotas.bytes_per_second > 0 and self.bytes < 0)


class PrincipalQuotas(Feature):
    def __init__(self, parts: NodeParts, principal_of: Callable[[Node], Principal | None]) -> None:
        self._sessions, self._links, self._endpoint = parts.broker.sessions, parts.links, parts.endpoint
        self._counters, self._clock = parts.counters.door, parts.clock
        self._principal_of = principal_of
        self._allowances: dict[str, Allowance] = {}
        self._slowed: dict[Node, Principal] = {}  # clients that are not read from

    # Rates -----------------------------------------------------------------------------------------------------

    def connected(self, peer: Node) -> None:
        """What a principal has spent on other connections, and on former ones, counts on this one (rule 1)."""
        self._spend(peer, 0, 0)

    def message_received(self, sender: Node, message: Message) -> None:
        if isinstance(message, Publish):
            event = message.event
            self._spend(sender, 1, len(event.payload) + sum(map(_size, event.attributes.items())))

    def run_handled(self, sender: Node, run: Run, passed: Passed) -> None:
        """Of a run that is not handled at once, each message is received."""
        if run.kind is Publish:
            self._spend(sender, run.count, run.size)

    def _spend(self, client: Node, events: int, size: int) -> None:
        principal = self._principal_of(client)
        if principal is None or not (principal.quotas.events_per_second or principal.quotas.bytes_per_second):
            return
        quotas, now = principal.quotas, self._clock()
        allowance = self._allowances.setdefault(
            principal.name, Allowance(quotas.events_per_second, quotas.bytes_per_second, now)
        )
        allowance.refill(quotas, now)
        allowance.events -= events
        allowance.bytes -= size
        is_behind_others = not events and any(each.name == principal.name for each in self._slowed.values())
        if (allowance.is_spent(quotas) or is_behind_others) and client in self._links:
            self._counters.slowed += client not in self._slowed
            self._slowed.pop(client, None)  # the last to be read from again
            self._slowed[client] = principal
            self._links[client].pause(Pause.QUOTA)

    def before_tick(self, now: float) -> None:
        for client in [client for client in self._slowed if client not in self._links]:
            del self._slowed[client]
        for client in self._slowed:
            if self._links.is_up(client):  # it is not read from: its silence says nothing
                self._endpoint.receive(client, Ping(), now=now)
        for principal in {each.name: each for each in self._slowed.values()}.values():
            allowance = self._allowances[principal.name]
            allowance.refill(principal.quotas, now)
            if not allowance.is_spent(principal.quotas):
                self._resume_next(principal)

    def _resume_next(self, principal: Principal) -> None:
        """Rule 1; the next one follows a tick later."""
        client = next((each for each, slowed in self._slowed.items() if slowed.name == principal.name), None)
        if client is not None:
            del self._slowed[client]
            if client in self._links:
                self._links[client].resume(Pause.QUOTA)

    # Names -----------------------------------------------------------------------------------------------------

    def refuse_name(self, sender: Node, wanted: Filter) -> str:
        principal = self._principal_of(sender)
        if principal is None:
            return ""
        quotas = principal.quotas
        if not (quotas.subscriptions or quotas.predicates):
            return ""
        known = self._sessions.filters_of(principal.name)
        if quotas.subscriptions and len(known) >= quotas.subscriptions:
            return f"{principal.name!r} has {quotas.subscriptions:,} subscriptions and advertisements, its quota"
        total = sum(map(predicates_in, (*known, wanted)))
        if quotas.predicates and total > quotas.predicates:
            return f"{principal.name!r} would have {total:,} predicates; its quota is {quotas.predicates:,}"
        return ""

    def outbox_bytes_max(self, client: Node) -> int:
        """The quota of a client's outbox; 0: none."""
        principal = self._principal_of(client)
        return principal.quotas.outbox_bytes if principal else 0


def predicates_in(wanted: Filter) -> int:
    return sum(len(conjunction.constraints) for conjunction in wanted.conjunctions)


def _size(attribute: tuple[str, object]) -> int:
    name, value = attribute
    return len(name) + (len(value) if isinstance(value, str | bytes) else 8)
