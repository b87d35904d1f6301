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

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import NamedTuple, TypeAlias
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
    others.sort(key=lambda each: _order(broker, each, preference))
    return [Candidate(each.machine, each.address) for each in others]


_Order: TypeAlias = tuple[tuple[int, int], bool, int, Machine]


def _order(broker: Node, each: KnownMachine, preference: Preference) -> _Order:
    return _rank(each, preference), len(each.brokers) > 1, _draw(broker, each), each.machine


class BestCandidates:
    """The best candidates of one broker, which stay what they are while only others change.

    So a change of one machine costs each broker one comparison, not a look at all machines.
    """

    def __init__(
        self, broker: Node, own: Machine, known: Iterable[KnownMachine], preference: Preference, copies: int
    ) -> None:
        self.own, self.preference = own, preference
        self._broker = broker
        ordered = ((_order(broker, each, preference), each) for each in known if each.machine != own)
        found = nsmallest(CANDIDATES_PER_COPY * copies, ordered, key=lambda pair: pair[0])
        self.best = tuple(Candidate(each.machine, each.address) for _, each in found)
        self._chosen = {each.machine: each for _, each in found}
        self._worst = found[-1][0] if len(found) == CANDIDATES_PER_COPY * copies else None  # None: there is room

    def bear(self, changes: Mapping[Machine, KnownMachine | None]) -> bool:
        """Whether these are still the best after changes of machines; None: it is gone."""
        return not any(self._is_moved_by(machine, after) for machine, after in changes.items() if machine != self.own)

    def _is_moved_by(self, machine: Machine, after: KnownMachine | None) -> bool:
        if machine in self._chosen:
            return self._chosen[machine] != after
        if after is None:
            return False
        return self._worst is None or _order(self._broker, after, self.preference) < self._worst


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
