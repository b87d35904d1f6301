"""A member of another broker's view on this machine, and the replica that it keeps, if it is a copy.

Rule 1: while the replica's disk is slower than what comes, nothing is read from the machine that it comes from; the
        silence of a machine that is not read from means nothing.
Rule 2: what is left of a broker when this machine is no member any more is the register: without it, a vote might be
        given twice. Nothing is left of a broker that has gone for good.
Rule 3: from the moment when the end of a fill comes until it is known what came of it, the member answers for nothing:
        a view may be installed meanwhile, in whose primary's eyes only the old copy has everything, and the new copy
        takes the old one's place all the same.
"""

from __future__ import annotations

import logging
import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from pleach.core.messages import Node
from pleach.core.standby.effects import Depose, Discard, MemberEffect, Promote, StoreRecord
from pleach.core.standby.member import StandbyMember
from pleach.core.standby.messages import Append
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Machine, View
from pleach.disk.private_files import make_private_folder
from pleach.errors import SettingsError, StoreError
from pleach.net.addresses import BrokerAddresses
from pleach.server.bugs import watched
from pleach.server.standby.driving import MemberDriver
from pleach.server.standby.launch_settings import addresses_in, decode_settings
from pleach.server.standby.links import MemberLinks
from pleach.server.standby.messages import (
    REASON_LENGTH_MAX,
    BetweenMachines,
    BrokerFiles,
    FillBegin,
    FillEnd,
    FillPart,
    FillRefused,
    FillTaken,
    HostIsHere,
    SendFiles,
)
from pleach.server.standby.registers import RegisterFile, replace_file
from pleach.server.standby.replica_writer import (
    ChunkTaken,
    FillEnded,
    Job,
    ReplicaWriter,
    Report,
    Settled,
    Stored,
    Strayed,
    WriterFailed,
)

DATA, FILES = "data", "files"
WAITING_BYTES_MAX = 16 * 1_048_576  # for a replica's disk: then nothing more is read
UNHEARD_SECONDS_MAX = 60.0  # then a primary is forgotten that has sent neither a view nor a copy
ALARM_PATIENCE = 0.5  # of the silence that counts as death
UNUSED_SECONDS_MAX = 600.0  # then a copy is deleted that is in no view and gets no records

log = logging.getLogger(__name__)


class CopyPlace:
    """Where a machine keeps what it has of a broker."""

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        """`data`: the data directory of this process, where the broker is its own."""
        self.folder = folder
        self.data = data or folder / DATA
        self._is_own = data is not None

    @property
    def register(self) -> RegisterFile:
        return RegisterFile(self.folder)

    def load_files(self) -> BrokerFiles | None:
        try:
            return msgspec.msgpack.decode((self.folder / FILES).read_bytes(), type=BrokerFiles)
        except (OSError, msgspec.DecodeError):
            return None  # the primary sends them again

    def save_files(self, files: BrokerFiles) -> None:
        """Raises StoreError."""
        make_private_folder(self.folder)
        replace_file(self.folder / FILES, msgspec.msgpack.encode(files))

    def clear(self, *, has_gone: bool) -> None:
        """Rule 2. What a broker's own process has stays, until a copy takes its place."""
        if has_gone and not self._is_own:
            shutil.rmtree(self.folder, ignore_errors=True)
        elif not self._is_own:
            shutil.rmtree(self.data, ignore_errors=True)
            (self.folder / FILES).unlink(missing_ok=True)


class CopyHolder(Protocol):
    """The host of a member (host.py)."""

    links: MemberLinks

    def promoted(self, broker: Node, view: View, silent: Sequence[Machine]) -> None:
        """This machine is to run the broker. `silent`: members that have not been heard for long."""

    def failed(self, broker: Node, reason: str) -> None:
        """The member cannot go on."""


class HeldCopy:
    def __init__(
        self, holder: CopyHolder, place: CopyPlace, member: StandbyMember, writer: ReplicaWriter | None
    ) -> None:
        """`writer`: of the replica that is there, if there is one."""
        broker = member.broker
        self.place = place
        self.files = place.load_files()
        self.driver = MemberDriver(
            member,
            place.register,
            holder.links,
            perform=self._perform,
            on_failed=lambda reason: holder.failed(broker, reason),
        )
        self._holder = holder
        self._broker = broker
        self._source: Machine = ""  # where records and chunks come from
        self._heard: dict[Machine, float] = {}  # when each member was
        self._paused: dict[Machine, None] = {}  # former sources among them, and all of them not read from
        self._fills_ending = 0  # so many ends of fills are with the writer
        self._met_at = self.driver.now  # when something came
        self._used_at = time.monotonic()  # when something came for the replica
        self._writer: ReplicaWriter | None = None
        self._late: list[Job] | None = None  # what comes while a former replica is closed; None: none is
        if writer is not None:
            self._adopt(writer)

    def _adopt(self, writer: ReplicaWriter) -> None:
        self._writer, self._fills_ending = writer, 0
        writer.on_report = self._reported
        writer.may_end = lambda end: self.member.takes_fill_of(self._source, end.number)

    @property
    def member(self) -> StandbyMember:
        return self.driver.member

    # Messages ------------------------------------------------------------------------------------------------

    def received(self, machine: Machine, message: BetweenMachines) -> None:
        self._met_at = self.driver.now
        self._note_heard(machine)
        match message:
            case FillBegin() | FillPart() | FillEnd() | SendFiles():
                if self.member.takes_fill_of(machine, message.number):
                    self._source = machine
                    self._take(message)
            case FillTaken() | FillRefused() | HostIsHere():
                pass  # for a primary
            case _:
                if isinstance(message, Append):
                    self._source = machine
                self.driver.handle(machine, message)

    def _note_heard(self, machine: Machine) -> None:
        view = self.member.view
        members = view.members if view is not None else ()
        self._heard = {each: at for each, at in self._heard.items() if each in members}
        if machine in members:
            self._heard[machine] = self.driver.now

    def _silent_members(self) -> list[Machine]:
        """The others that count as silent, where the former primary does, which comes first of them.

        Where it has asked for the promotion itself, no others were asked whether they are there.
        """
        view, oldest = self.member.view, self.driver.now - self.member.config.after
        others = [each for each in view.members if each != self.member.machine] if view is not None else []
        silent = [each for each in others if self._heard.get(each, -math.inf) <= oldest]
        return silent if silent[:1] == others[:1] else []

    def lost(self, machine: Machine) -> None:
        """Members say again what matters."""

    def begin(self) -> None:
        """It was opened while others took it for one that takes what they send: let them begin anew."""
        view = self.member.view
        if view is not None and view.primary != self.member.machine:
            refusal = FillRefused(self._broker, self.member.number, 0, "its process has begun to take it only now")
            self.driver.send(view.primary, refusal)

    def _take(self, message: FillBegin | FillPart | FillEnd | SendFiles) -> None:
        if isinstance(message, FillBegin | SendFiles):
            self._keep(message.files)
        if not isinstance(message, SendFiles):
            self._write(message)

    def _keep(self, files: BrokerFiles) -> None:
        if files == self.files:
            return
        self.files = files
        try:
            self.place.save_files(files)
        except StoreError as error:
            log.error("what %s needs to run here is not kept: %s", self._broker, error)  # noqa: TRY400

    @property
    def addresses(self) -> BrokerAddresses:
        """Where the primary listens, by the settings that it has sent; empty: they do not tell."""
        try:
            settings = decode_settings(self.files.settings, "the broker's files") if self.files is not None else None
        except SettingsError:
            return BrokerAddresses()
        said = addresses_in(settings) if settings is not None else BrokerAddresses()
        return BrokerAddresses(*("" if each.endswith(":0") else each for each in msgspec.structs.astuple(said)))

    # The replica ---------------------------------------------------------------------------------------------

    def _write(self, job: Job) -> None:
        if self._late is not None:
            self._late.append(job)
            return
        if self._writer is None:
            self._adopt(ReplicaWriter(self.place.data, self._broker))
            assert self._writer is not None
        self._used_at = time.monotonic()
        if isinstance(job, FillEnd):  # rule 3
            self._fills_ending += 1
            self.member.position = None
        self._writer.add(job)
        if self._writer.waiting_bytes > WAITING_BYTES_MAX:  # rule 1; it may have come by another connection
            self._paused[self._source] = None
            self._holder.links.pause_reading(self._source, self._broker)

    def _read_again(self) -> None:
        for machine in self._paused:
            self._holder.links.resume_reading(machine, self._broker)
        self._paused.clear()

    def _reported(self, report: Report) -> None:
        member, perform = self.member, self.driver.perform
        if self._writer is not None and self._writer.waiting_bytes <= WAITING_BYTES_MAX // 2:
            self._read_again()
        match report:
            case Settled(position):
                self._fills_ending -= 1
                self._vouch_for(position)
            case Stored(position):
                self._vouch_for(position)
            case Strayed(needs_fill):
                perform(member.lost_track(needs_fill=needs_fill))
            case ChunkTaken(fill, chunk):
                self.driver.send(self._source, FillTaken(self._broker, member.number, fill, chunk))
            case FillEnded(fill, reason) if reason:
                refusal = FillRefused(self._broker, member.number, fill, reason[:REASON_LENGTH_MAX])
                self.driver.send(self._source, refusal)
            case FillEnded():
                log.info("there is a copy of %s here", self._broker)
            case WriterFailed(reason):
                self._holder.failed(self._broker, reason)

    def _vouch_for(self, position: Position | None) -> None:
        """Rule 3."""
        if position is not None and not self._fills_ending:
            self.driver.perform(self.member.stored(position))

    # Effects -------------------------------------------------------------------------------------------------

    def _perform(self, effect: MemberEffect) -> None:
        match effect:
            case StoreRecord():
                self._write(effect)
            case Promote(view):
                self._holder.promoted(self._broker, view, self._silent_members())
            case Discard():
                watched(self._discard())
            case Depose():
                pass  # it was not started yet
            case _:
                raise AssertionError(f"a copy does not {effect}")

    async def _discard(self) -> None:
        """What comes meanwhile is for another replica, in the same place: it waits until that is free."""
        self._used_at = time.monotonic()
        self._read_again()
        if self._late is not None:
            return
        writer, self._writer, self.files, self._late = self._writer, None, None, []
        if writer is not None:
            log.info("the copy of %s here is not needed any more", self._broker)
            await writer.close()
        late, self._late = self._late, None
        if not late:
            self.place.clear(has_gone=self.member.register is None)
        for job in late:
            self._write(job)

    async def close(self) -> None:
        """What is being written is finished; then others may open the replica."""
        self._read_again()
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()

    # Time ----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        view = self.member.view
        if view is not None and self._holder.links.is_paused(view.primary):
            return  # rule 1
        self.driver.tick()
        idle = time.monotonic() - self._used_at
        if idle > UNUSED_SECONDS_MAX and self._writer is not None and not self.is_member:
            self.member.position = None
            watched(self._discard())

    @property
    def is_member(self) -> bool:
        view = self.member.view
        return view is not None and self.member.machine in view.members

    @property
    def is_copy(self) -> bool:
        view = self.member.view
        return view is not None and self.member.machine in view.copies

    @property
    def is_forgettable(self) -> bool:
        """Whether there is nothing of this broker but the voice of a primary, long ago."""
        if self.member.register is not None or self._writer is not None:
            return False
        return self.driver.now - self._met_at > UNHEARD_SECONDS_MAX

    @property
    def hears_primary(self) -> bool:
        """Whether the broker runs, elsewhere, as far as this machine can tell."""
        return self.may_be_promoted and not self.member.timing.is_primary_silent(self.driver.now)

    @property
    def primary(self) -> Machine:
        """Empty: no view is known."""
        return self.member.view.primary if self.member.view is not None else ""

    @property
    def is_first_standby(self) -> bool:
        """Whether this machine is the first to seek promotion."""
        view = self.member.view
        return view is not None and view.standbys[:1] == (self.member.machine,)

    @property
    def may_be_promoted(self) -> bool:
        """Whether this machine could run the broker from the copy that it has."""
        return self.member.is_standby and self.member.position is not None

    @property
    def is_alarmed(self) -> bool:
        """Whether this machine may have to run the broker soon."""
        is_silent = self.member.timing.is_primary_silent(self.driver.now, patience=ALARM_PATIENCE)
        return self.may_be_promoted and is_silent

    def status(self) -> dict[str, object]:
        member, view = self.member, self.member.view
        return {
            "view": member.number,
            "role": "copy" if self.is_copy else "witness" if self.is_member else "none",
            "primary": view.primary if view else "",
            "position": member.position,
            "waiting_bytes": self._writer.waiting_bytes if self._writer else 0,
        }
