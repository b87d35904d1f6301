"""A simulated machine: its disk, the members on it, and the brokers that run there; it carries out members' effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, assert_never

from pleach.core.messages import Node
from pleach.core.standby.effects import (
    CatchUp,
    Confirm,
    Depose,
    Discard,
    MemberEffect,
    Promote,
    SaveRegister,
    Serve,
    StoreRecord,
    ToMember,
)
from pleach.core.standby.member import StandbyMember
from pleach.core.standby.messages import Append, StandbyMessage
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Machine, Register
from pleach.sim.standby.history import Commit
from pleach.sim.standby.running import RunningBroker
from pleach.sim.standby.ways import Way

if TYPE_CHECKING:
    from pleach.sim.standby.standbys import Standbys

NO_BYTES = b""  # of a record: its position says what it contains (history.py)


@dataclass(frozen=True)
class BeginFill:
    """The whole store follows, and records meanwhile; the copy that the machine has stays until the end.

    `number`: of the view in which it is sent.
    """

    broker: Node
    number: int


@dataclass(frozen=True)
class EndFill:
    broker: Node
    number: int
    position: Position


HostMessage: TypeAlias = StandbyMessage | BeginFill | EndFill


class Disk:
    """What a machine has of each broker, which outlives its processes. A copy is a position (history.py)."""

    def __init__(self) -> None:
        self.registers: dict[Node, Register] = {}
        self.copies: dict[Node, Position] = {}

    def wipe(self) -> None:
        self.registers.clear()
        self.copies.clear()


class Host:
    def __init__(self, name: Machine, standbys: Standbys) -> None:
        self.name = name
        self.disk = Disk()
        self.members: dict[Node, StandbyMember] = {}
        self.running: dict[Node, RunningBroker] = {}
        self.is_up = True
        self.down_at = 0.0
        self.is_leaving = False  # its broker has left: it goes once nobody needs it
        self._standbys = standbys
        self._ways: dict[Machine, Way] = {}
        self._filled: dict[Node, Machine] = {}  # copies that are being filled here, and from where
        self._astray: dict[Node, tuple[int, Position | None]] = {}  # views and positions where a copy has said so
        self._starting: set[Node] = set()  # brokers that run here, and serve nobody yet
        self._fills: dict[tuple[Node, Machine], object] = {}  # that go out from here

    def member(self, broker: Node) -> StandbyMember:
        """The member for a broker, made from what is on disk."""
        member = self.members.get(broker)
        if member is None:
            disk, standbys = self.disk, self._standbys
            register, position = disk.registers.get(broker), disk.copies.get(broker)
            member = self.members[broker] = StandbyMember(
                self.name, broker, standbys.config, register=register, position=position, now=standbys.sim.now
            )
        return member

    # Time and messages ---------------------------------------------------------------------------------------

    def tick(self) -> None:
        now = self._standbys.sim.now
        for broker, member in list(self.members.items()):
            if member.register is None:
                continue
            running = self.running.get(broker)
            if running is not None:
                if self._standbys.is_leaving(running):
                    continue
                member.candidates = self._standbys.candidates(running)
            self.carry_out(member, member.tick(now))

    def receive(self, sender: Machine, message: HostMessage) -> None:
        broker = message.broker
        if self._standbys.brokers[broker].is_dissolved:
            return
        member = self.members.get(broker) or self.member(broker)
        if isinstance(message, BeginFill | EndFill):
            self._take_fill(member, sender, message)
            return
        effects = member.handle(sender, message, self._standbys.sim.now)
        if effects:
            self.carry_out(member, effects)

    def _take_fill(self, member: StandbyMember, sender: Machine, message: BeginFill | EndFill) -> None:
        broker = member.broker
        if not member.takes_fill_of(sender, message.number):
            self._filled.pop(broker, None)
        elif isinstance(message, BeginFill):
            self._filled[broker] = sender
        elif self._filled.pop(broker, None) == sender:
            self.disk.copies[broker] = message.position
            self.carry_out(member, member.stored(message.position))

    def lost_touch(self, machine: Machine) -> None:
        """The connection to another machine was interrupted: what was under way is lost."""
        for broker, source in list(self._filled.items()):
            if source == machine:
                del self._filled[broker]
        for broker, member in self.members.items():
            self._astray.pop(broker, None)
            member.lost_touch(machine)
            self._fills.pop((broker, machine), None)

    def _send(self, to: Machine, message: HostMessage) -> None:
        way = self._ways.get(to)
        if way is None:
            way = self._ways[to] = self._standbys.ways.between(self.name, to)
        if not way.is_cut:
            self._standbys.sim.send_member(way, message)

    # Effects -------------------------------------------------------------------------------------------------

    def carry_out(self, member: StandbyMember, effects: Sequence[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case ToMember(to, message):
                    self._send(to, message)
                case StoreRecord():
                    self._store(member, effect)
                case Confirm(number):
                    running = self.running[member.broker]
                    if running.is_serving:
                        running.confirm(number)
                case CatchUp(machine, position):
                    self._bring_up(member, machine, position)
                case _:
                    self._take_part(member, effect)
        if member.broker in self._starting and member.leadership is not None:
            self._serve_if_ready(member)

    def _take_part(self, member: StandbyMember, effect: SaveRegister | Serve | Promote | Depose | Discard) -> None:
        match effect:
            case SaveRegister(register):
                self.disk.registers[member.broker] = register
                self._standbys.saw_view(register.view)
            case Serve():
                pass  # see `_serve_if_ready`
            case Promote():
                self._standbys.later(self._standbys.start_seconds(), partial(self.start, member.broker))
            case Depose():
                self.stop(member.broker)
            case Discard():
                self._discard(member)
            case _:
                assert_never(effect)

    def _store(self, member: StandbyMember, record: StoreRecord) -> None:
        broker, copies = member.broker, self.disk.copies
        if broker in self._filled:
            return  # it is part of the fill
        here = copies.get(broker)
        if here == record.previous:
            copies[broker] = record.position
            self.carry_out(member, member.stored(record.position))
        elif here is not None and here.run == record.position.run and record.position.number <= here.number:
            self.carry_out(member, member.stored(here))  # it has been sent again
        elif self._astray.get(broker) != (member.number, here):  # once: each would bring all records again
            self._astray[broker] = (member.number, here)
            self.carry_out(member, member.lost_track())

    def _discard(self, member: StandbyMember) -> None:
        self.disk.copies.pop(member.broker, None)
        self._filled.pop(member.broker, None)
        if member.register is None:
            self.disk.registers.pop(member.broker, None)
            del self.members[member.broker]

    def forget(self, broker: Node) -> None:
        """The broker is no more, nor is a process of it that was cut off and knew nothing of a newer one."""
        self.stop(broker)
        for known in (self.disk.registers, self.disk.copies, self.members, self._filled):
            known.pop(broker, None)

    # As the primary ------------------------------------------------------------------------------------------

    def start(self, broker: Node) -> None:
        """Start a broker from the copy here, if this machine is still to run it."""
        member = self.members.get(broker)
        if not self.is_up or member is None or not member.is_primary or broker in self.running:
            return
        base = self.disk.copies.get(broker)
        if base is None:  # its broker has left, and it has forgotten all but what others have told it again
            member.cannot_lead()
            return
        running = self.running[broker] = self._standbys.open(broker, self, base)
        self._starting.add(broker)
        self.carry_out(member, member.lead(base, running.run))
        running.begin(self._standbys.sim.now)

    def stop(self, broker: Node) -> None:
        """The process ends; its store is a copy from now on."""
        running = self.running.pop(broker, None)
        self._starting.discard(broker)
        if running is None:
            return
        self.disk.copies[broker] = running.position
        for key in [key for key in self._fills if key[0] == broker]:
            del self._fills[key]
        self._standbys.closed(running)

    def committed(self, running: RunningBroker, commit: Commit) -> None:
        """A commit is on the disk here; the record goes to those who follow."""
        member = self.members[running.broker.name]
        leadership = member.leadership
        if leadership is None:
            return
        record = Append(member.broker, member.number, commit.previous, commit.position, NO_BYTES)
        for machine in leadership.following:
            self._send(machine, record)
        self.carry_out(member, member.wrote(commit.position))

    def _bring_up(self, member: StandbyMember, machine: Machine, position: Position | None) -> None:
        """By records if it is where this process has been, else by a fill."""
        running = self.running[member.broker]
        if position is None or not running.has_passed(position):
            self._fill(running, machine)
            return
        for number in range(position.number, running.position.number):
            previous, following = running.position_at(number), running.position_at(number + 1)
            self._send(machine, Append(member.broker, member.number, previous, following, NO_BYTES))

    def _fill(self, running: RunningBroker, machine: Machine) -> None:
        broker, standbys = running.broker.name, self._standbys
        token = self._fills[broker, machine] = object()
        self._send(machine, BeginFill(broker, self.members[broker].number))
        standbys.later(standbys.fill_seconds(), partial(self._end_fill, running, machine, token))

    def _end_fill(self, running: RunningBroker, machine: Machine, token: object) -> None:
        key = running.broker.name, machine
        if self._fills.get(key) is token and running.is_running:
            del self._fills[key]
            number = self.members[running.broker.name].number
            self._send(machine, EndFill(running.broker.name, number, running.position))

    def _serve_if_ready(self, member: StandbyMember) -> None:
        """Once there are two copies, and all copies have what this one has (running.py, rule 3).

        A broker in a view of one copy may be linked to others, as far as the rules go; here it waits for a standby.
        """
        running, leadership = self.running.get(member.broker), member.leadership
        if running is None or leadership is None or member.view is None:
            return
        reached = leadership.reached_by_all(member.view.standbys)
        if leadership.is_serving and member.view.may_have_clients and reached >= running.base.number:
            self._starting.discard(member.broker)
            running.serve()
            self._standbys.serves(running)
            running.confirm(leadership.confirmed)

    # Faults --------------------------------------------------------------------------------------------------

    def go_down(self) -> None:
        """All processes end; of the last commits that were not confirmed, some are not on the disk yet."""
        self.is_up, self.down_at = False, self._standbys.sim.now
        self._standbys.forget_later()
        for broker, running in list(self.running.items()):
            self.stop(broker)
            leadership = self.members[broker].leadership
            if leadership is not None:
                self.disk.copies[broker] = running.position_at(self._standbys.written(running, leadership.confirmed))
        self.members.clear()
        self._filled.clear()
        self._fills.clear()

    def come_up(self) -> None:
        """Start again from the disk: members, and the brokers whose primary this machine was."""
        self.is_up = True
        self._standbys.machines_changed()
        for broker in self.disk.registers:
            if self.member(broker).is_primary:
                self._standbys.later(self._standbys.start_seconds(), partial(self.start, broker))
