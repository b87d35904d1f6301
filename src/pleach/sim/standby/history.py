"""The history of a broker's store: commits by position, and the state of its machine at each.

Equal positions mean equal content (core/standby/positions.py). So a copy is a position, and what it holds is looked up
here: the inputs since its run began are handled again, as after a restart from the journal on a disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from pleach.core.effects import Concluded, Effect, LinkDown, LinkUp, Observe, Send, Withhold
from pleach.core.messages import Message, Node
from pleach.core.standby.positions import Position
from pleach.errors import StandbyError
from pleach.scenario.planted_bugs import BrokerMachine

BEGINNING = Position(0, 0)

HeldEffect: TypeAlias = Send | LinkUp | LinkDown | Observe | Concluded | Withhold


class Received(NamedTuple):
    sender: Node
    message: Message


class Fired(NamedTuple):
    timer: str


class Resumed(NamedTuple):
    pass


class Damaged(NamedTuple):
    """A fault of the scenario has left this state."""

    state: bytes


Input: TypeAlias = Received | Fired | Resumed | Damaged


class Commit(NamedTuple):
    """One step of a broker. `effects`: with the numbers of those that are sent; they wait for the confirmation.

    `sender`, `received`: the message that the step has handled; its number counts as received from the confirmation on.
    """

    previous: Position
    position: Position
    effects: Sequence[tuple[int, HeldEffect]]
    sender: Node = ""
    received: int = 0


@dataclass
class Run:
    """What a primary commits from the opening of its store on. `state`: of the machine then; None: it was new."""

    state: bytes | None
    inputs: list[tuple[int, Input, float]] = field(default_factory=list)  # the number of the commit, and the time


class History:
    def __init__(self, make: Callable[[], BrokerMachine]) -> None:
        self._make = make
        self._runs: dict[int, Run] = {}
        self._unperformed: dict[Position, Commit] = {}
        self.performed = BEGINNING  # the last commit whose effects are carried out

    def begin_run(self, state: bytes | None) -> int:
        self._runs[len(self._runs) + 1] = Run(state)
        return len(self._runs)

    def note(self, position: Position, given: Input, now: float) -> None:
        """An input that changes the machine's state."""
        self._runs[position.run].inputs.append((position.number, given, now))

    def add(self, commit: Commit) -> None:
        self._unperformed[commit.position] = commit

    def perform(self, commit: Commit) -> bool:
        """Whether its effects are to be carried out: once, whichever primary is the first to have it confirmed."""
        if commit.position.number <= self.performed.number:
            return False
        if commit.previous != self.performed:
            raise StandbyError(f"confirmed after {self.performed}, on which it does not build: {commit}")
        self.performed = commit.position
        del self._unperformed[commit.position]
        return True

    def tail(self, position: Position) -> list[Commit] | None:
        """The commits of a copy whose effects are not carried out yet; None: it lacks some that were confirmed."""
        found: list[Commit] = []
        while position != self.performed:
            if position not in self._unperformed:
                return None
            found.append(self._unperformed[position])
            position = found[-1].previous
        return found[::-1]

    def machine_at(self, position: Position) -> BrokerMachine:
        machine = self._make()
        run = self._runs.get(position.run)
        if run is None:
            return machine
        if run.state is not None:
            machine.restore(run.state)
        for number, given, now in run.inputs:
            if number > position.number:
                break
            _handle_again(machine, given, now)
        return machine


def _handle_again(machine: BrokerMachine, given: Input, now: float) -> None:
    match given:
        case Received(sender, message):
            machine.handle(sender, message, now=now)
        case Fired(timer):
            machine.handle_timer(timer, now=now)
        case Resumed():
            machine.resume(now=now)
        case Damaged(state):
            machine.restore(state)


class JournalledBroker:
    """A broker whose inputs are noted in the history, with the position of the commit that they will be in."""

    def __init__(self, broker: BrokerMachine, note: Callable[[Input, float], None]) -> None:
        self._broker = broker
        self._note = note
        self._is_changed_by: Callable[[Node, Message], bool] = getattr(broker, "is_changed_by", lambda *_: True)

    def __getattr__(self, name: str) -> object:
        """All that councils read of a broker."""
        return getattr(self._broker, name)

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        is_changed = self._is_changed_by(sender, message)
        effects = self._broker.handle(sender, message, now=now)
        if is_changed:
            self._note(Received(sender, message), now)
        return effects

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        effects = self._broker.handle_timer(name, now=now)
        self._note(Fired(name), now)
        return effects

    def resume(self, *, now: float) -> Sequence[Effect]:
        effects = self._broker.resume(now=now)
        self._note(Resumed(), now)
        return effects
