"""Who asks the admin port for something, and what a caller may ask for.

A `Recognise` is the one place where a request becomes a caller. Without an access file that is `everybody`, for whom
nothing is closed; with one it is `OperatorDoor.recognise` (server/door/operator_door.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from pleach.access.principals import EVERY_TENANT, Verb, split_name


class LoginWay(StrEnum):
    """How a caller has proved who it is."""

    NONE = "none"  # not at all
    OPEN = "open"  # there is no access file: nobody has to
    CERTIFICATE = "certificate"
    BROKER = "broker"  # by the certificate of a broker on the membership list
    TOKEN = "token"  # noqa: S105 - no secret
    SESSION = "session"  # by a token before; since then by a cookie


class Evidence(NamedTuple):
    """What a request brings along. `certificate`: DER, of this network's authority; empty without one."""

    address: str
    certificate: bytes
    fields: Mapping[str, str]


class Caller(NamedTuple):
    """`address`: the host that the connection comes from.

    `token`: what it has logged in with, to ask other brokers in its name. `complaint`: why its log-in is not accepted.
    """

    address: str
    verbs: frozenset[Verb]
    principal: str = ""
    way: LoginWay = LoginWay.NONE
    tenant: str = ""
    token: str = ""
    complaint: str = ""

    @property
    def is_known(self) -> bool:
        return self.way is not LoginWay.NONE

    @property
    def is_of_network(self) -> bool:
        """Whether it sees the clients of all tenants."""
        return self.tenant in ("", EVERY_TENANT)

    def sees(self, client: str) -> bool:
        """Whether this name of a client or a component is for it to know."""
        return self.is_of_network or split_name(client)[0] == self.tenant

    def may(self, verb: Verb | None) -> bool:
        """None: what everybody may."""
        return verb is None or verb in self.verbs


Recognise: TypeAlias = Callable[[Evidence], Caller]
NOBODY = Caller("", frozenset())


def everybody(evidence: Evidence) -> Caller:
    """Whoever asks may do everything."""
    return Caller(evidence.address, frozenset(Verb), way=LoginWay.OPEN)
