"""A machine in small, for the explorer of standbys: a disk, and a process that drives a member as effects.py says.

A store is the tuple of its commits; the number of a commit is its place, from 1. A fill is one message: its chunks, and
the records in between, have the effect of the content at its end. What the disk has to write waits in `writing`, and is
written one by one; a crash in between leaves the first few written, and the rest not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.core.standby.composition import Candidate
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
from pleach.core.standby.leadership import Leadership
from pleach.core.standby.member import StandbyConfig, StandbyMember
from pleach.core.standby.messages import Accepted, Alive, Append, Ask, Promise, Rejected, StandbyMessage, ViewInstalled
from pleach.core.standby.positions import Position
from pleach.core.standby.timing import MemberTiming
from pleach.core.standby.view_change import ViewChange
from pleach.core.standby.views import Machine, Register, View

BROKER = "b"
LIVES = 16  # a run is 16 times the view in which it began, and the life of the process: no two are the same
RUN_STEP = 1_000


class StoredCommit(NamedTuple):
    run: int
    what: str


Content: TypeAlias = tuple[StoredCommit, ...]


class WholeFill(msgspec.Struct, frozen=True, array_like=True, tag=99):
    """A fill, from its beginning to its end."""

    broker: str
    number: int
    content: Content


Envelope: TypeAlias = StandbyMessage | WholeFill


class OwnCommit(NamedTuple):
    commit: StoredCommit


class StoringRecord(NamedTuple):
    previous: Position
    position: Position
    record: bytes


class StoringFill(NamedTuple):
    sender: Machine
    number: int
    content: Content


Writing: TypeAlias = OwnCommit | StoringRecord | StoringFill


class HostStage(IntEnum):
    HOST = 0  # no broker runs here
    STARTING = 1
    LEADING = 2


class SavedRegister(NamedTuple):
    """Seen: a register is on disk."""

    before: Register | None
    after: Register


class Confirmed(NamedTuple):
    """Seen: a primary tells others of commits. `is_all`: it begins to serve with this."""

    machine: Machine
    view: View
    content: Content
    is_all: bool = False


Seen: TypeAlias = SavedRegister | Confirmed


class CrashInside(Exception):  # noqa: N818 - no error: the process ends here
    """The process ends between two effects."""


def position_of(content: Content | None) -> Position | None:
    if content is None:
        return None
    return Position(content[-1].run, len(content)) if content else Position(0, 0)


def has(content: Content, position: Position) -> bool:
    """Whether a content has this position in its history."""
    return position.number <= len(content) and position_of(content[: position.number]) == position


class HostRules(NamedTuple):
    """What a driver does; mutants do otherwise."""

    member: type[StandbyMember] = StandbyMember
    saves_promises: bool = True
    fills_beside: bool = True
    draws_runs: bool = True


class ModelHost:
    def __init__(
        self,
        machine: Machine,
        config: StandbyConfig,
        candidates: Iterable[Machine] = (),
        *,
        rules: HostRules = HostRules(),  # noqa: B008 - it is immutable
        timing: MemberTiming | None = None,
        now: float = 0.0,
    ) -> None:
        """`timing`: in place of the member's own, in every life."""
        self.machine = machine
        self.config = config
        self.rules = rules
        self.timing = timing
        self.candidates = tuple(Candidate(each, "") for each in sorted(candidates))
        self.register: Register | None = None  # on disk
        self.store: Content | None = None  # on disk
        self.writing: list[Writing] = []
        self.stage = HostStage.HOST
        self.life = 1
        self.run = 0
        self.sent: list[tuple[Machine, Envelope]] = []  # taken by whoever moves this host
        self.seen: list[Seen] = []
        self.saves_left: int | None = None  # after which the process crashes
        self.member = self._new_member(now)

    def _new_member(self, now: float) -> StandbyMember:
        member = self.rules.member(
            self.machine, BROKER, self.config, register=self.register, position=position_of(self.store), now=now
        )
        member.candidates = self.candidates
        member.timing = self.timing or member.timing
        return member

    @property
    def is_serving(self) -> bool:
        leadership = self.member.leadership
        return leadership is not None and leadership.is_serving

    @property
    def is_changing(self) -> bool:
        """Whether it has proposed a view."""
        return vars(self.member)["_change"] is not None

    @property
    def may_be_promoted(self) -> bool:
        return self.member.position is not None and self.member.is_standby

    @property
    def standbys(self) -> tuple[Machine, ...]:
        return self.member.view.standbys if self.member.view is not None else ()

    def is_idle(self, message: Envelope) -> bool:
        """Whether a message has no effect here, now or later, but that its sender may be told a newer view."""
        number, change = self.member.number, vars(self.member)["_change"]
        match message:
            case ViewInstalled():
                return message.number <= number
            case Alive():
                return message.number == number  # answers are moves of their own
            case Ask():
                return False
            case Promise() | Accepted() | Rejected():
                return message.number <= number and (change is None or message.ballot != change.ballot)
        return message.number < number and not isinstance(message, Append | WholeFill)

    def state(self) -> list[object]:
        """All that matters: the disk, and the memory of the process."""
        return [self.register, self.store, self.writing, self.stage, self.life, self.run, self.member]

    def take_sent(self) -> list[tuple[Machine, Envelope]]:
        sent, self.sent = self.sent, []
        return sent

    def take_seen(self) -> list[Seen]:
        seen, self.seen = self.seen, []
        return seen

    # Inputs --------------------------------------------------------------------------------------------------

    def boot(self, register: Register | None, store: Content | None, now: float = 0.0) -> None:
        """The process starts, with this on its disk."""
        self.register, self.store = register, store
        self.member = self._new_member(now)
        self.writing.clear()
        self.stage = HostStage.STARTING if self.member.is_primary else HostStage.HOST

    def crash(self, written: int, now: float = 0.0) -> None:
        """The process ends, after this many of the waiting writes, and starts again."""
        for each in self.writing[:written]:
            self._write(each)
        self.life += 1
        self.boot(self.register, self.store, now)

    def handle(self, sender: Machine, message: Envelope, now: float) -> None:
        if isinstance(message, WholeFill):
            self._begin_fill(sender, message)
            return
        self.perform(self.member.handle(sender, message, now))

    def tick(self, now: float) -> None:
        self.perform(self.member.tick(now))

    def lead(self) -> None:
        """The broker has opened its store."""
        assert self.store is not None
        base = position_of(self.store)
        assert base is not None
        self.stage = HostStage.LEADING
        self.run = RUN_STEP * self.member.number + self.life if self.rules.draws_runs else 1
        self.perform(self.member.lead(base, self.run))

    def publish(self, what: str) -> None:
        """A client publishes: the record travels while the own disk writes."""
        before = self.handed_out
        commit = StoredCommit(self.run, what)
        self.writing.append(OwnCommit(commit))
        leadership = self.member.leadership
        for machine in leadership.following if leadership else ():
            self._append(machine, before, commit)

    def disk_done(self) -> None:
        """The first of the waiting writes is on disk."""
        first = self.writing.pop(0)
        is_taken = self._write(first)
        position = position_of(self.store)
        if isinstance(first, OwnCommit):
            assert position is not None
            self.perform(self.member.wrote(position))
        elif is_taken and position is not None:
            self.perform(self.member.stored(position))
        elif isinstance(first, StoringRecord):
            self.perform(self.member.lost_track())

    def lost_touch(self, machine: Machine) -> None:
        self.member.lost_touch(machine)

    def seek(self, now: float) -> None:
        """As if a majority had said that the primary is silent."""
        self.perform(self.member.seek_promotion(now))

    def answer(self, now: float) -> None:
        """As if a heartbeat of the primary had come."""
        view = self.member.view
        assert view is not None
        self.perform(self.member.handle(view.primary, Alive(BROKER, view.number), now))

    def step_down(self, successor: Machine) -> None:
        self.perform(self.member.step_down(successor))

    def decree(self, now: float) -> None:
        self.perform(self.member.decree(now))

    # Effects -------------------------------------------------------------------------------------------------

    def perform(self, effects: Iterable[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case SaveRegister(register):
                    self._save(register)
                case ToMember(to, message):
                    self.sent.append((to, message))
                case StoreRecord(previous, position, record):
                    self.writing.append(StoringRecord(previous, position, record))
                case CatchUp(machine, position):
                    self._catch_up(machine, position)
                case Confirm(number):
                    self._show(number)
                case Serve():
                    self._show(self._base, is_all=True)
                case Promote() | Depose() | Discard():
                    self._change_stage(effect)

    def _change_stage(self, effect: Promote | Depose | Discard) -> None:
        match effect:
            case Promote():
                self.stage = HostStage.STARTING
            case Depose():
                self.stage = HostStage.HOST
            case Discard():
                self.store = None
                self.writing.clear()

    def _save(self, register: Register) -> None:
        if self.saves_left == 0:
            raise CrashInside
        if self.saves_left is not None:
            self.saves_left -= 1
        is_vote = self.register is not None and register.view == self.register.view
        if is_vote and not self.rules.saves_promises:
            return
        self.seen.append(SavedRegister(self.register, register))
        self.register = register

    def _show(self, number: int, *, is_all: bool = False) -> None:
        view = self.member.view
        assert view is not None
        assert self.store is not None
        self.seen.append(Confirmed(self.machine, view, self.store[:number], is_all))

    @property
    def _base(self) -> int:
        assert self.member.leadership is not None
        return self.member.leadership.base.number

    @property
    def handed_out(self) -> Content:
        """What the store has, or is about to write."""
        own = [each.commit for each in self.writing if isinstance(each, OwnCommit)]
        return (*(self.store or ()), *own)

    def _append(self, machine: Machine, before: Content, commit: StoredCommit) -> None:
        previous, position = position_of(before), position_of((*before, commit))
        assert previous is not None
        assert position is not None
        message = Append(BROKER, self.member.number, previous, position, commit.what.encode())
        self.sent.append((machine, message))

    def _catch_up(self, machine: Machine, position: Position | None) -> None:
        content = self.handed_out
        if position is None or not has(content, position):
            self.sent.append((machine, WholeFill(BROKER, self.member.number, content)))
            return
        for place in range(position.number, len(content)):
            self._append(machine, content[:place], content[place])

    def _begin_fill(self, sender: Machine, message: WholeFill) -> None:
        if self.member.takes_fill_of(sender, message.number):
            self.writing.append(StoringFill(sender, message.number, message.content))
            if not self.rules.fills_beside:
                self.store, self.member.position = None, None

    def _write(self, what: Writing) -> bool:
        """Whether the store has it now."""
        match what:
            case OwnCommit(commit):
                self.store = (*(self.store or ()), commit)
                return True
            case StoringRecord(previous, position, record):
                if self.store is not None and position.number <= len(self.store) and has(self.store, position):
                    return True
                if position_of(self.store) != previous:
                    return False
                self.store = (*(self.store or ()), StoredCommit(position.run, record.decode()))
                return True
            case StoringFill(sender, number, content):
                if not self.member.takes_fill_of(sender, number):
                    return False
                self.store = content
                return True


# States ----------------------------------------------------------------------------------------------------------


class ChosenTiming(MemberTiming):
    """Judgements that depend on time, as the explorer chooses them: nothing that is safe may rest on a clock."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        """`machines`: all that there are; each has answered at some time."""
        super().__init__(1.0, 0.0)
        self.heard = dict.fromkeys(machines, 0.0)
        self.choose(frozenset(), is_late=False)

    def choose(self, silent: frozenset[Machine], *, is_late: bool) -> None:
        """`silent`: machines that have not answered. `is_late`: whatever may have taken too long has."""
        self._silent = silent
        self._is_late = is_late

    def ran(self, now: float) -> None:
        pass

    def note_heard(self, machine: Machine, now: float) -> None:
        pass

    def keep_only(self, machines: Iterable[Machine]) -> None:
        pass

    def is_silent(self, machine: Machine, now: float) -> bool:  # noqa: ARG002
        return machine in self._silent

    def is_primary_silent(self, now: float, *, patience: float = 1.0) -> bool:  # noqa: ARG002
        return self._is_late

    def is_attempt_over(self, now: float) -> bool:  # noqa: ARG002
        return self._is_late

    def may_attempt(self, now: float) -> bool:  # noqa: ARG002
        return True

    def is_starting(self, now: float) -> bool:  # noqa: ARG002
        return not self._is_late

    def is_stalled(self, machine: Machine, now: float) -> bool:  # noqa: ARG002
        return False

    def candidates(self, named: Sequence[Candidate], now: float) -> list[Candidate]:  # noqa: ARG002
        return list(named)


def frozen(value: object) -> object:
    """A value that can be compared and hashed: equal for equal memories."""
    match value:
        case ChosenTiming():
            return None
        case dict():
            return tuple((key, frozen(value[key])) for key in sorted(value))
        case tuple() | list():
            return tuple(frozen(each) for each in value)
        case msgspec.Struct():
            return msgspec.msgpack.encode(value)
        case Leadership() | ViewChange() | StandbyMember():
            return tuple(frozen(each) for each in vars(value).values())
    return value
