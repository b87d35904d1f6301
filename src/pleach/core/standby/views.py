"""Views of a broker, and the register in which a member keeps them.

A view says who may be the broker (its primary), who holds its data (the copies; the primary is the first), and who else
has a vote (the witnesses). The successor of each view is chosen by the members of that view, by single-decree Paxos:
the register is an acceptor's memory.

Rule 1: a member promises a ballot once, and never one that is lower than another that it has promised.
Rule 2: a view is installed when a majority of its predecessor's members have accepted it under one ballot.
Rule 3: a register that is lost is not made up again: without one a member promises and accepts nothing.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import msgspec

from pleach.core.messages.base import NetworkAddress, Node

MEMBERS_MAX = 15
ROUNDS_AHEAD_MAX = 1_000_000  # of a ballot above those that a member has met: more is no honest one
VIEWS_AHEAD_MAX = 2**40

Machine: TypeAlias = Node  # where processes run, by name; another disk is another machine
ViewNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Machines: TypeAlias = Annotated[tuple[Machine, ...], msgspec.Meta(max_length=MEMBERS_MAX)]


class Ballot(NamedTuple):
    """Ballots of one view are ordered, and no two machines have the same."""

    round: ViewNumber
    machine: Machine


NO_BALLOT = Ballot(0, "")


class View(msgspec.Struct, frozen=True, array_like=True):
    broker: Node
    number: ViewNumber
    copies: Annotated[Machines, msgspec.Meta(min_length=1)]  # the first is the primary
    witnesses: Machines = ()
    addresses: Annotated[dict[Machine, NetworkAddress], msgspec.Meta(max_length=MEMBERS_MAX)] = {}
    is_decreed: bool = False  # by an operator, without a majority

    @property
    def primary(self) -> Machine:
        return self.copies[0]

    @property
    def standbys(self) -> tuple[Machine, ...]:
        return self.copies[1:]

    @property
    def members(self) -> tuple[Machine, ...]:
        return (*self.copies, *self.witnesses)

    @property
    def majority(self) -> int:
        return len(self.members) // 2 + 1

    @property
    def may_have_clients(self) -> bool:
        """What one copy has is lost with it: that is for an operator to decide."""
        return len(self.copies) > 1 or self.is_decreed

    @property
    def is_well_formed(self) -> bool:
        members = self.members
        is_named = bool(self.copies) and all(members) and len({*members}) == len(members)
        return is_named and self.number > 0 and len(members) <= MEMBERS_MAX and {*self.addresses} <= {*members}

    def may_follow(self, view: View) -> bool:
        """Whether it may be proposed as the successor of a view: the primary stays, or a standby takes its place."""
        if not self.is_well_formed or self.broker != view.broker or self.number != view.number + 1:
            return False
        is_replacement = self.primary == view.primary
        is_promotion = self.primary in view.standbys and {*self.copies} == {*view.copies}
        return is_replacement or (is_promotion and {*self.witnesses} == {*view.witnesses})

    def promoting(self, standby: Machine) -> View:
        """The view with another primary, and the same members."""
        others = tuple(copy for copy in self.copies if copy != standby)
        return msgspec.structs.replace(self, number=self.number + 1, copies=(standby, *others), is_decreed=False)

    def is_like(self, other: View) -> bool:
        """Whether all but the number is the same."""
        return msgspec.structs.replace(self, number=other.number) == other


class AcceptedView(NamedTuple):
    ballot: Ballot
    view: View


class Register(msgspec.Struct, frozen=True, array_like=True):
    """What a member knows of a broker's views: the newest one, and its part in the choice of its successor."""

    view: View
    promised: Ballot = NO_BALLOT
    accepted: AcceptedView | None = None

    @property
    def is_open(self) -> bool:
        """Whether no successor was promised: only then a primary confirms."""
        return self.promised == NO_BALLOT

    def promising(self, ballot: Ballot) -> Register:
        assert ballot > self.promised, "rule 1"
        return msgspec.structs.replace(self, promised=ballot)

    def accepting(self, ballot: Ballot, view: View) -> Register:
        assert ballot >= self.promised, "rule 1"
        return msgspec.structs.replace(self, promised=ballot, accepted=AcceptedView(ballot, view))
