"""The connections of a broker process; each has one role.

STRANGER ── Hello ──▶ PEER      a client or a broker that has a session, or was dialled
                 ├──▶ READER    reads what is kept for a client (readers.py)
                 ├──▶ MEMBER    a machine that holds copies of brokers (standby/links.py)
                 ├──▶ TUNNEL     carries a connection with another broker (relay/tunnels.py)
                 ├──▶ METER     only measures how far it is to here (distances.py)
                 └──▶ REFUSED   is about to be closed
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import msgspec

from pleach.core.messages import Node
from pleach.net.connection import Connection, Statistics


class RoleKind(Enum):
    STRANGER = "stranger"
    PEER = "peer"
    READER = "reader"
    MEMBER = "member"
    TUNNEL = "tunnel"
    METER = "meter"
    REFUSED = "refused"


class ConnectionRole(NamedTuple):
    role: RoleKind
    peer: Node = ""  # of a PEER


STRANGER = ConnectionRole(RoleKind.STRANGER)


class ConnectionTable:
    def __init__(self) -> None:
        self._roles: dict[Connection, ConnectionRole] = {}
        self._by_role: dict[RoleKind, dict[Connection, None]] = {role: {} for role in RoleKind}  # the oldest first
        self._ended = Statistics()  # the traffic of connections that have ended

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._roles))

    def role_of(self, connection: Connection) -> ConnectionRole:
        return self._roles.get(connection, STRANGER)

    def of_role(self, role: RoleKind) -> list[Connection]:
        """The oldest first."""
        return list(self._by_role[role])

    def count(self, role: RoleKind) -> int:
        return len(self._by_role[role])

    def set(self, connection: Connection, role: ConnectionRole) -> None:
        self._by_role[self.role_of(connection).role].pop(connection, None)
        self._roles[connection] = role
        self._by_role[role.role][connection] = None

    def remove(self, connection: Connection) -> ConnectionRole:
        """A connection has ended; returns the role that it had."""
        role = self._roles.pop(connection, STRANGER)
        self._by_role[role.role].pop(connection, None)
        _add(self._ended, connection.statistics)
        return role

    @property
    def traffic(self) -> Statistics:
        """Of all connections since the process started."""
        total = msgspec.structs.replace(self._ended)
        for connection in self._roles:
            _add(total, connection.statistics)
        return total


def _add(total: Statistics, more: Statistics) -> None:
    for field in Statistics.__struct_fields__:
        setattr(total, field, getattr(total, field) + getattr(more, field))
