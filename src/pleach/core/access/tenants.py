"""Tenants: whose an event is. It carries the name as an attribute, so that filters keep tenants apart."""

from __future__ import annotations

from typing import Final

from pleach.core.events.constraint import Conjunction
from pleach.core.events.filter import Filter
from pleach.core.events.predicates import absent, equals

TENANT: Final = "pleachtenant"  # reserved; the client library adds it


def of_tenant(tenant: str) -> Filter:
    """The events of a tenant; of the empty one: those that are no tenant's."""
    return Filter([Conjunction({TENANT: equals(tenant) if tenant else absent()})])
