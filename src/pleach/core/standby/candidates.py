"""Which machines should hold copies of a broker, the best first: a pure choice, for processes and for the simulator.

Rule 1: machines that the operator names come first, in that order; then the owner of the broker's key in a ring: it
        comes back where hosts look for it; then neighbours in another zone, other neighbours, other machines in another
        zone, and the rest.
Rule 2: of equals, those come first that run one broker at most, and then a hash of broker and machine decides: not all
        brokers should choose the same ones.
Rule 3: there are few candidates for each copy: a copy on a machine that is no candidate any more moves, and so copies
        follow their broker when the tree changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple
from zlib import crc32

from pleach.core.messages.base import Node
from pleach.core.standby.composition import Candidate
from pleach.core.standby.views import Machine

CANDIDATES_PER_COPY = 2


class KnownMachine(NamedTuple):
    """`address`: of its host process. `brokers`: which run there now."""

    machine: Machine
    address: str = ""
    zone: str = ""
    brokers: tuple[Node, ...] = ()


class Preference(NamedTuple):
    """What a broker goes by. `named`: machines or addresses. `owner`: of its key in the ring, if there is one."""

    zone: str = ""
    neighbours: Collection[Node] = ()
    named: Sequence[str] = ()
    owner: Node = ""


def candidates(broker: Node, own: Machine, known: Iterable[KnownMachine], preference: Preference) -> list[Candidate]:
    """All machines but the broker's own, the best first."""
    others = [each for each in known if each.machine != own]
    others.sort(key=lambda each: (_rank(each, preference), len(each.brokers) > 1, _draw(broker, each), each.machine))
    return [Candidate(each.machine, each.address) for each in others]


def _draw(broker: Node, each: KnownMachine) -> int:
    return crc32(f"{broker}/{each.machine}".encode())


def best(ranked: Sequence[Candidate], copies: int) -> tuple[Candidate, ...]:
    """As many as a primary should choose from (rule 3)."""
    return tuple(ranked[: CANDIDATES_PER_COPY * copies])


def _rank(machine: KnownMachine, preference: Preference) -> tuple[int, int]:
    named = [*preference.named]
    for name in (machine.machine, machine.address):
        if name in named:
            return 0, named.index(name)
    is_elsewhere = machine.zone != preference.zone
    if preference.owner and preference.owner in machine.brokers:
        return 1, 0
    if any(broker in preference.neighbours for broker in machine.brokers):
        return (2 if is_elsewhere else 3), 0
    return (4 if is_elsewhere else 5), 0
