"""Principals: who may connect under which names, publish and see what, how much of it, and what operators may do.

A client of tenant T has a name `T/NAME`; without a tenant, NAME alone. Tenants are kept apart by rights alone: events
of tenant T carry the attribute `pleachtenant = 'T'`, and every right of its principals is restricted to those.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import msgspec

from pleach.core.access.rights import TRUE, Rights, conjunction
from pleach.core.access.tenants import of_tenant
from pleach.core.events.language import parse_filter

EVERY_TENANT = "*"  # a principal that may see and publish events of all tenants
ANY = "*"  # at the end of a name: any characters


class Verb(StrEnum):
    """What operators do. Each route of the operators' port needs one."""

    READ = "read"  # status, metrics, trees, plans
    REWEAVE = "reweave"  # change links, add brokers, improve
    MOVE = "move"  # clients and components
    REMOVE = "remove"  # brokers
    FAULTS = "faults"  # damage on purpose


TENANTS_MAY = frozenset({Verb.READ, Verb.MOVE})  # of operators of one tenant, and of what is theirs


class Quotas(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much a principal may use at one broker, all its clients together. 0: no limit but the broker's own."""

    connections: int = 0
    subscriptions: int = 0  # and advertisements
    predicates: int = 0  # in the filters of all of them
    events_per_second: float = 0.0  # published; above, its connections are read more slowly
    bytes_per_second: float = 0.0
    outbox_bytes: int = 0  # of one client; a client that lets more pile up is sent away


NO_QUOTAS = Quotas()


class RightTexts(msgspec.Struct, frozen=True):
    """Rights as the access file has them; the filters are valid."""

    publish: str = "FALSE"
    subscribe: str = "FALSE"
    advertise: str = "FALSE"
    hidden: tuple[str, ...] = ()
    strict: bool = False


@dataclass(frozen=True)
class Principal:
    name: str
    tenant: str
    names: tuple[str, ...]  # of clients, without the tenant; `*` at the end stands for any characters
    components: tuple[str, ...]  # likewise, of components that have its rights
    texts: RightTexts
    quotas: Quotas = NO_QUOTAS
    verbs: frozenset[Verb] = frozenset()

    @cached_property
    def rights(self) -> Rights:
        """Made when they are needed first: of thousands of principals few are at one broker."""
        scope = TRUE if self.tenant == EVERY_TENANT else of_tenant(self.tenant)
        texts = self.texts
        publish, subscribe, advertise = (
            conjunction(parse_filter(text), scope) for text in (texts.publish, texts.subscribe, texts.advertise)
        )
        return Rights(publish, subscribe, advertise, texts.hidden, texts.strict, scope)

    def may_be(self, client: str) -> bool:
        """Whether it may use this full name of a client."""
        return self._has(client, self.names)

    def may_host(self, component: str) -> bool:
        return self._has(component, self.components)

    def _has(self, full_name: str, patterns: tuple[str, ...]) -> bool:
        tenant, name = split_name(full_name)
        if self.tenant not in (tenant, EVERY_TENANT):
            return False
        return any(matches_name(pattern, name) for pattern in patterns)


def full_name(tenant: str, name: str) -> str:
    return f"{tenant}/{name}" if tenant else name


def split_name(full_name: str) -> tuple[str, str]:
    """Tenant and name of a client; the tenant is empty where there is none."""
    tenant, slash, name = full_name.partition("/")
    return (tenant, name) if slash else ("", full_name)


def matches_name(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith(ANY) else name == pattern
