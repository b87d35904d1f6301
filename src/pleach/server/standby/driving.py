"""What a member needs of its process, in whatever role: its register on disk, its messages sent, and time.

Rule 1: effects are performed in order. A register is on disk before anything behind it is done; one that cannot be
        written ends the member here, as a crash would (`on_failed`).
Rule 2: a member is ticked several times within the time that counts as silence. After a tick that is late, what has
        arrived meanwhile is heard first (server/ticking.py): nobody is taken for dead because this process was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from pleach.core.standby.effects import MemberEffect, SaveRegister, ToMember
from pleach.core.standby.member import StandbyMember
from pleach.core.standby.messages import StandbyMessage
from pleach.core.standby.views import Machine
from pleach.errors import StoreError
from pleach.server.standby.links import MemberLinks
from pleach.server.standby.messages import BetweenMachines
from pleach.server.standby.registers import RegisterFile

TICKS_PER_SILENCE = 5
TICK_SECONDS_MAX = 0.25  # where much silence is allowed, too: what is to be said does not wait for long

log = logging.getLogger(__name__)


class MemberDriver:
    def __init__(
        self,
        member: StandbyMember,
        file: RegisterFile,
        links: MemberLinks,
        *,
        perform: Callable[[MemberEffect], None],
        on_failed: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`perform`: effects that depend on the role. `on_failed`: the register cannot be written; why."""
        self.member = member
        self.links = links
        self._file = file
        self._perform_in_role = perform
        self._on_failed = on_failed
        self._clock = clock

    @property
    def now(self) -> float:
        return self._clock()

    def handle(self, machine: Machine, message: StandbyMessage) -> None:
        self.perform(self.member.handle(machine, message, self.now))

    def tick(self) -> None:
        self.perform(self.member.tick(self.now))

    def perform(self, effects: Iterable[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case SaveRegister(register):
                    try:
                        self._file.save(register)
                    except StoreError as error:
                        self._on_failed(str(error))
                        return
                case ToMember(to, message):
                    self.send(to, message)
                case _:
                    self._perform_in_role(effect)

    def send(self, machine: Machine, message: BetweenMachines) -> None:
        self.links.send(self.member.broker, machine, self.address_of(machine), message)

    def address_of(self, machine: Machine) -> str:
        """Of the machine's host process; empty: not known."""
        told = next((each.address for each in self.member.candidates if each.machine == machine), "")
        view = self.member.view
        return told or (view.addresses.get(machine, "") if view else "")


def tick_seconds(after: float) -> float:
    """Between two ticks, where `after` seconds count as silence."""
    return min(after / TICKS_PER_SILENCE, TICK_SECONDS_MAX)
