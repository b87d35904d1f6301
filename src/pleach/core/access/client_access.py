"""Who a client is and what it may do, and what it asked for where less is in effect.

    Permit ──▶ expected ── Attach ──▶ the client's own ── Detach ──▶ expected      (bounded, the oldest are dropped)

Rule 1: a client without a permit has the rights of newcomers: everything, unless the driver has said otherwise. Where
        it has, the client is listed as unjudged until the driver judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pleach.core.access.rights import EVERYTHING, Rights, absent_in
from pleach.core.events.filter import Filter

EXPECTED_MAX = 4_096  # permits of clients that are not attached


class ClientAccess(msgspec.Struct, array_like=True):
    """`asked`: by layer, the filters of names whose effective filter is another one.

    `is_pending`: names are still to be judged by these rights; until then each delivery is. `unseen`: attributes that
    may have been removed from events that wait for the client.
    """

    principal: str = ""
    rights: Rights = EVERYTHING
    asked: tuple[dict[str, Filter], dict[str, Filter]] = msgspec.field(default_factory=lambda: ({}, {}))
    is_pending: bool = False
    unseen: tuple[str, ...] = ()

    def permit(self, principal: str, rights: Rights) -> None:
        """Other rights. What the scope says of both is true of whatever waits."""
        former, is_same_scope = self.rights, self.rights.scope == rights.scope
        known = set.intersection(*map(absent_in, rights.scope.conjunctions)) if rights.scope.conjunctions else set()
        self.unseen = tuple(sorted({*self.unseen, *former.hidden} - (known if is_same_scope else set())))
        self.is_pending |= former != rights
        self.principal, self.rights = principal, rights

    @property
    def of_waiting(self) -> Rights:
        """The rights, for events that wait for the client."""
        return self.rights.on_redacted(self.unseen)

    @property
    def screens(self) -> bool:
        """Whether a delivery may have to be changed: else the effective filters say all."""
        return self.is_pending or bool(self.rights.hidden)

    def changes(self, attributes: Mapping[str, Any]) -> bool:
        """Whether a delivery with these attributes may have to be changed."""
        return self.is_pending or any(name in attributes for name in self.rights.hidden)

    def shown(self, layer: int, name: str, effective: Filter) -> Filter | None:
        """The effective filter as the client is told it; None where it is all that was asked for."""
        asked = self.asked[layer].get(name)
        if asked is None or effective == self.rights.scoped(asked):
            return None
        return self.rights.shown(effective)

    def copy(self) -> ClientAccess:
        subscriptions, advertisements = (dict(sorted(names.items())) for names in self.asked)
        return ClientAccess(self.principal, self.rights, (subscriptions, advertisements), self.is_pending, self.unseen)

    def without_names(self) -> ClientAccess:
        return ClientAccess(self.principal, self.rights, unseen=self.unseen)


class ExpectedClients(msgspec.Struct):
    """Permits of clients that are not attached, and clients that the driver has not judged yet."""

    newcomers: Rights = EVERYTHING
    expected: dict[str, ClientAccess] = {}
    unjudged: dict[str, None] = {}

    @property
    def is_guarded(self) -> bool:
        """Whether a client needs a permit."""
        return self.newcomers != EVERYTHING

    def expect(self, client: str, access: ClientAccess) -> None:
        self.expected.pop(client, None)
        self.expected[client] = access
        if len(self.expected) > EXPECTED_MAX:
            del self.expected[next(iter(self.expected))]

    def permit(self, client: str, principal: str, rights: Rights) -> Rights | None:
        """Other rights of a client that is not attached. Returns its former ones: something may wait for it still."""
        access = self.expected.get(client) or ClientAccess()
        former = access.rights
        access = ClientAccess(access.principal, former, unseen=access.unseen)
        access.permit(principal, rights)
        access.is_pending = False  # it has no names
        self.expect(client, access)
        return former if former != rights else None

    def take(self, client: str) -> ClientAccess:
        """The rights of a client that attaches."""
        if client not in self.expected:
            self.await_judgement(client)
        return self.expected.pop(client, None) or ClientAccess("", self.newcomers)

    def await_judgement(self, client: str) -> None:
        if self.is_guarded:
            self.unjudged[client] = None

    def gone(self, client: str, access: ClientAccess) -> None:
        """It may attach again at once, after a loss of its memory: then nobody logs in anew."""
        self.unjudged.pop(client, None)
        if self.is_guarded:
            self.expect(client, access.without_names())
