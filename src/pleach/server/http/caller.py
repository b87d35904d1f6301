"""Who asks the admin port for something, and what a caller may ask for.

`caller_of` is the one place where a request becomes a caller. Nobody logs in yet, so that everybody has every verb; a
log-in by certificate or token belongs here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Verb(StrEnum):
    """What a request does; each route needs one (routes.py)."""

    READ = "read"  # look at state, and be told of traffic
    REWEAVE = "reweave"  # change the tree, or what brokers host; have a broker dial an address
    MOVE = "move"  # have clients go to another broker
    REMOVE = "remove"  # end a broker, or declare one dead
    FAULTS = "faults"  # damage a broker on purpose


class Caller(NamedTuple):
    """`address`: the host that the connection comes from."""

    address: str
    verbs: frozenset[Verb]

    def may(self, verb: Verb | None) -> bool:
        """None: what everybody may."""
        return verb is None or verb in self.verbs


NOBODY = Caller("", frozenset())


def caller_of(address: str, fields: Mapping[str, str]) -> Caller:  # noqa: ARG001 - the fields will carry tokens
    return Caller(address, frozenset(Verb))
