"""Planted bugs: members and drivers that break one rule each. The explorer must find every one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType

import msgspec

from pleach.core.standby.effects import MemberEffect, SaveRegister, StoreRecord, ToMember
from pleach.core.standby.leadership import Leadership
from pleach.core.standby.member import StandbyMember
from pleach.core.standby.messages import Accepted, Append, Appended, Prepare, Promise, Propose, Rejected, StandbyMessage
from pleach.core.standby.positions import Position
from pleach.core.standby.views import NO_BALLOT, AcceptedView, Machine
from pleach.explore.standby_host import HostRules


class HastyLeadership(Leadership):
    def reached_by_all(self, standbys: Iterable[Machine]) -> int:
        """Not by all, but by a majority of the copies; by itself, if there are two."""
        reached = sorted((self.written, *map(self.reached, standbys)), reverse=True)
        return reached[(len(reached) - 1) // 2]


class CarelessLeadership(Leadership):
    def is_whole(self, machine: Machine) -> bool:
        return machine in self.acknowledged


class TrustingLeadership(Leadership):
    def view_installed(self) -> None:
        pass


class HastyMember(StandbyMember):
    leadership_class: type[Leadership] = HastyLeadership

    def lead(self, base: Position, run: int) -> Sequence[MemberEffect]:
        self.position, self.leadership = base, self.leadership_class.begin(base, run)
        return [*self._greet(self.timing.now), *self._confirm()]


class CarelessMember(HastyMember):
    leadership_class = CarelessLeadership


class TrustingMember(HastyMember):
    leadership_class = TrustingLeadership


class OpenMember(StandbyMember):
    def _confirm(self) -> Sequence[MemberEffect]:
        register = self.register
        if register is not None:
            self.register = msgspec.structs.replace(register, promised=NO_BALLOT)
        effects = super()._confirm()
        self.register = register
        return effects


class LoyalMember(StandbyMember):
    """It acknowledges to whoever sent the record, in the view of the record."""

    teacher: tuple[Machine, int] = ("", 0)

    def handle(self, sender: Machine, message: StandbyMessage, now: float) -> Sequence[MemberEffect]:
        if isinstance(message, Append) and not self.is_primary:
            self.teacher = sender, message.number
            return [StoreRecord(message.previous, message.position, message.record)]
        return super().handle(sender, message, now)

    def stored(self, position: Position) -> Sequence[MemberEffect]:
        self.position = position
        machine, number = self.teacher
        return [ToMember(machine, Appended(self.broker, number, position))] if machine else ()


class DeafProposer(StandbyMember):
    """It proposes what it wants, whatever may have been chosen."""

    def _count(self, sender: Machine, message: Promise | Accepted | Rejected, now: float) -> Sequence[MemberEffect]:
        if isinstance(message, Promise):
            message = msgspec.structs.replace(message, accepted=None)
        return super()._count(sender, message, now)


class FickleVoter(StandbyMember):
    """It accepts below what it has promised."""

    def _vote(self, sender: Machine, message: Prepare | Propose, now: float) -> Sequence[MemberEffect]:
        register = self.register
        if isinstance(message, Prepare) or register is None or message.ballot >= register.promised:
            return super()._vote(sender, message, now)
        accepted = AcceptedView(message.ballot, message.view)
        self.register = msgspec.structs.replace(register, accepted=accepted)
        return [SaveRegister(self.register), ToMember(sender, Accepted(self.broker, self.number, message.ballot))]


class LonelyProposer(StandbyMember):
    """It needs nobody's vote."""

    def _install_if_accepted(self, now: float) -> Sequence[MemberEffect]:
        change = self._change
        if change is None or change.proposed is None:
            return ()
        return self._install(change.proposed, now, is_told=True)


class GullibleCopy(StandbyMember):
    """It takes a fill from anyone."""

    def takes_fill_of(self, machine: Machine, number: int) -> bool:
        return not self.is_primary and bool(machine) and number > 0


class EarlyServer(StandbyMember):
    """It serves before the copies have what it has."""

    def lead(self, base: Position, run: int) -> Sequence[MemberEffect]:
        effects = [*super().lead(base, run)]
        assert self.leadership is not None
        standbys = self.register.view.standbys if self.register is not None else ()
        self.leadership.acknowledged |= dict.fromkeys(standbys, base)
        return [*effects, *self._confirm()]


STANDBY_PLANTS = MappingProxyType(
    {
        "confirm-by-few": HostRules(HastyMember),
        "copy-not-whole": HostRules(CarelessMember),
        "old-acknowledgements": HostRules(TrustingMember),
        "confirm-while-closed": HostRules(OpenMember),
        "acknowledge-in-an-old-view": HostRules(LoyalMember),
        "propose-over-accepted": HostRules(DeafProposer),
        "accept-a-lower-ballot": HostRules(FickleVoter),
        "install-without-majority": HostRules(LonelyProposer),
        "fill-by-anyone": HostRules(GullibleCopy),
        "serve-early": HostRules(EarlyServer),
        "promise-not-saved": HostRules(saves_promises=False),
        "fill-in-place": HostRules(fills_beside=False),
        "run-not-new": HostRules(draws_runs=False),
    }
)
