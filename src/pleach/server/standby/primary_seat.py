"""The place of a broker as the primary of its view: what a process gives to the broker that it starts.

    seat ── the store is opened ──▶ run begun, records are logged ── the broker listens ──▶ Replication leads

Rule 1: the member is ticked, and hears others, from the beginning: opening a store takes time, and a primary that says
        nothing meanwhile is replaced.
Rule 2: it may be deposed at any time; the process ends the broker then, or does not start it (`on_deposed`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from pleach.core.messages import HostLocation, Node
from pleach.core.standby.effects import Depose, MemberEffect
from pleach.core.standby.member import StandbyMember
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Machine, View
from pleach.errors import PromotionError
from pleach.net.enquiry import Whereabouts
from pleach.server.links import Port
from pleach.server.standby.driving import MemberDriver
from pleach.server.standby.links import MemberLinks
from pleach.server.standby.messages import BetweenMachines, BrokerFiles, FillMessage, HostIsHere
from pleach.server.standby.record_log import LoggedRecord, RecordLog
from pleach.server.standby.registers import RegisterFile
from pleach.server.storage.store import Store, new_run

DISSOLVED_TIMES = 5  # it is said so often, since a message may be lost

log = logging.getLogger(__name__)


class PrimaryRole(Protocol):
    """The broker, once it is there (replication.py)."""

    def perform(self, effect: MemberEffect) -> None: ...

    def received(self, machine: Machine, message: BetweenMachines) -> None: ...

    def lost(self, machine: Machine) -> None: ...

    def recorded(self, logged: LoggedRecord) -> None: ...

    def before_member_tick(self) -> None: ...

    def meet_host(self, machine: Machine, host: HostLocation) -> None: ...

    def end(self) -> None:
        """The store is closed."""


class MachineHost:
    """What the host of a broker's machine knows: this process's own, or another one, of which only the address is."""

    def __init__(self, address: str = "", client_address: str = "") -> None:
        """For peers, and for clients that ask for brokers. Empty: where the broker itself listens."""
        self.address, self.client_address = address, client_address

    def status(self) -> dict[str, object]:
        """For operators."""
        return {}

    def decree(self, broker: Node) -> View:
        """An operator says that the machine of a broker is lost, and that this one shall run it.

        Raises PromotionError where this machine cannot.
        """
        raise PromotionError(f"no copy of {broker} is held by this process: ask its host, at {self.address}")

    def locate(self, broker: Node, port: Port) -> Whereabouts | None:
        """Where a broker is, for whoever asks at this port."""
        return None


class PrimarySeat:
    def __init__(
        self,
        member: StandbyMember,
        register: RegisterFile,
        links: MemberLinks,
        *,
        files: Callable[[], BrokerFiles],
        on_deposed: Callable[[View], None],
        on_failed: Callable[[str], None],
        host: MachineHost,
        silent: Sequence[Machine] = (),
        is_promoted: bool = False,
    ) -> None:
        """`on_failed`: the disk has; why. `silent`: members that had not been heard for long when it was promoted.

        `is_promoted`: from a copy, and nobody but the members of its view has said that it shall run.
        """
        self.links = links
        self.files = files
        self.host = host
        self.run = new_run()
        self.log: RecordLog | None = None  # since the store is open
        self.base = Position(0, 0)  # where the store was then
        self.role: PrimaryRole | None = None
        self.driver = MemberDriver(member, register, links, perform=self._perform, on_failed=on_failed)
        self.on_deposed = on_deposed
        self.is_promoted = is_promoted
        self._silent = silent
        self._has_left = False
        self._loop = asyncio.get_running_loop()
        links.attach(member.broker, self)

    @property
    def member(self) -> StandbyMember:
        return self.driver.member

    def begin_to_lead(self) -> None:
        """The broker is there. Its process is new: it need not wait once more to know who is silent."""
        member, now = self.member, self.driver.now
        member.timing.ran(now)
        for machine in [each for each in self._silent if each not in member.heard]:
            member.timing.note_heard(machine, now - member.config.after)
        self.driver.perform(member.lead(self.base, self.run))

    def opened(self, store: Store) -> None:
        """The store of the broker is open, and nothing was written to it yet. In any thread."""
        self.base = store.position
        self.log = RecordLog(store.position)
        store.begin_run(self.run)
        store.on_record = self._hand_out

    def _hand_out(self, previous: Position, position: Position, record: bytes) -> None:
        """In the thread that commits."""
        logged = LoggedRecord(previous, position, record, time.monotonic())
        self._loop.call_soon_threadsafe(self._recorded, logged)

    def _recorded(self, logged: LoggedRecord) -> None:
        assert self.log is not None
        self.log.append(logged)
        if self.role is not None:
            self.role.recorded(logged)

    # The member ----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        if self._has_left:
            return
        if self.role is not None:
            self.role.before_member_tick()
        self.driver.tick()

    def _perform(self, effect: MemberEffect) -> None:
        if self.role is not None:
            self.role.perform(effect)
        elif isinstance(effect, Depose):
            self.on_deposed(effect.view)

    def received(self, machine: Machine, message: BetweenMachines) -> None:
        if self._has_left:
            return  # an answer would tell the view again
        if self.role is not None:
            self.role.received(machine, message)
        elif not isinstance(message, FillMessage):
            self.driver.handle(machine, message)

    def lost(self, machine: Machine) -> None:
        if self.role is not None:
            self.role.lost(machine)

    def meet_host(self, here: HostIsHere) -> None:
        """A machine that runs no broker may hold copies."""
        if self.role is not None:
            self.role.meet_host(here.machine, here.location)

    def decree(self) -> View:
        """An operator says that the other machines of the view are lost for good: go on without them.

        Raises PromotionError where that is not for an operator to say.
        """
        member, now = self.member, self.driver.now
        if self.role is None or member.leadership is None:
            raise PromotionError(f"{member.broker} is being started here")
        if not member.lacks_majority(now):
            raise PromotionError(f"{member.broker} runs here, and enough of its machines answer: they choose others")
        log.warning("an operator says that the other machines of %s are lost", member.broker)
        self.driver.perform(member.decree(now))
        assert member.view is not None
        return member.view

    def status(self) -> dict[str, object]:
        """For operators: as whom this process leads."""
        member = self.member
        return {member.broker: {"view": member.number, "lacks_majority": member.lacks_majority(self.driver.now)}}

    async def dissolve(self) -> None:
        """The broker has left the network for good, and its store is closed."""
        self._has_left = True
        self._end_role()
        for _ in range(DISSOLVED_TIMES):
            self.driver.perform(self.member.dissolve())
            await asyncio.sleep(self.member.config.after / DISSOLVED_TIMES)

    def end(self) -> None:
        self._end_role()
        self.links.detach(self.member.broker)

    def _end_role(self) -> None:
        if self.role is not None:
            self.role.end()
