"""A broker's process on one machine, while its member there leads.

Rule 1: each step of the broker is one commit. Its effects wait until the commit is confirmed; timers do not, since they
        are only in memory.
Rule 2: numbers of messages are given in the step, and are part of what is replicated.
Rule 3: a process that serves nobody yet has no connections: what it has received may be on its own disk only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pleach.core.effects import CancelTimer, Concluded, Effect, Send, SetTimer
from pleach.core.messages import OPERATOR, Message, Node
from pleach.core.standby.positions import Position
from pleach.errors import ProtocolError, StandbyError
from pleach.sim.simulator import TimedMachine
from pleach.sim.standby.history import Commit, Damaged, HeldEffect, Input, JournalledBroker
from pleach.sim.standby.sessions import OUTSIDE, Numbered

LOG_COMMITS_MAX = 100  # records that are at hand for a copy that comes back; else it is filled

if TYPE_CHECKING:
    from pleach.sim.standby.hosts import Host
    from pleach.sim.standby.replicated import ReplicatedBroker


class RunningBroker:
    def __init__(self, broker: ReplicatedBroker, host: Host, base: Position) -> None:
        """From the copy that the machine has."""
        self.broker = broker
        self.host = host
        self.base = base
        history = broker.history
        self.inner = history.machine_at(base)
        self.run = history.begin_run(self.inner.capture() if base.run else None)
        self.position = base
        tail = history.tail(base)
        self.is_outdated = tail is None  # it does not know yet that it is primary no more
        self.pending = deque(tail or ())  # commits whose effects wait
        self.is_running = True
        self.is_serving = False
        sessions = broker.standbys.sessions
        self._received, self._sent = sessions.received_by(broker.name), sessions.sent_by(broker.name)
        for commit in self.pending:
            self._count(commit)
        self.machine: TimedMachine = broker.standbys.wrapped(JournalledBroker(self.inner, self._note))

    def _count(self, commit: Commit) -> None:
        if commit.received != OUTSIDE:
            self._received[commit.sender] = commit.received
        for number, effect in commit.effects:
            if isinstance(effect, Send):
                self._sent[effect.to] = number

    @property
    def key(self) -> Node:
        """The name of this process among the machines of the simulator, which has its timers; no node has a blank."""
        return f"{self.broker.name} {self.run}"

    @property
    def _next(self) -> Position:
        return Position(self.run, self.position.number + 1)

    def _note(self, given: Input, now: float) -> None:
        self.broker.history.note(self._next, given, now)

    def has_passed(self, position: Position) -> bool:
        """Whether this process has been there, and the records since then are at hand."""
        if self.position.number - position.number > LOG_COMMITS_MAX:
            return False
        return position == self.base or (position.run == self.run and position.number <= self.position.number)

    def position_at(self, number: int) -> Position:
        return Position(self.run, number) if number > self.base.number else self.base

    # Steps ---------------------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """The first commit: the machine resumes."""
        journalled = JournalledBroker(self.inner, self._note)
        self.commit([*journalled.resume(now=now), *self.broker.standbys.first_timers(self.broker.name)])

    def receive(self, sender: Node, numbered: Numbered, now: float) -> None:
        number, message = numbered
        if number != OUTSIDE:
            sessions = self.broker.standbys.sessions
            if not sessions.is_new(self.broker.name, sender, number, self._received.get(sender, 0)):
                return
            self._received[sender] = number
        self.commit(self._handled(sender, message, now), sender, number)

    def _handled(self, sender: Node, message: Message, now: float) -> Sequence[Effect]:
        try:
            return self.machine.handle(sender, message, now=now)
        except ProtocolError as error:
            if sender != OPERATOR:
                raise
            return [Concluded(message.operation, str(error))]  # type: ignore[attr-defined]

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        self.commit(self.machine.handle_timer(name, now=now))
        return ()

    def damaged(self, now: float) -> None:
        """A fault has changed the state of the machine; it is on disk with the next commit."""
        self._note(Damaged(self.inner.capture()), now)

    def commit(self, effects: Sequence[Effect], sender: Node = "", received: int = OUTSIDE) -> None:
        held: list[tuple[int, HeldEffect]] = []
        sent = self._sent
        for effect in effects:
            if effect.__class__ is Send:
                number = sent[effect.to] = sent.get(effect.to, 0) + 1
                held.append((number, effect))
            elif isinstance(effect, SetTimer | CancelTimer):
                self.broker.standbys.sim.set_timer(self.key, effect)
            else:
                held.append((OUTSIDE, effect))
        previous, self.position = self.position, self._next
        commit = Commit(previous, self.position, held, sender, received)
        self.pending.append(commit)
        self.broker.history.add(commit)
        self.host.committed(self, commit)

    def serve(self) -> None:
        """All copies have what this one has (rule 3)."""
        if self.is_outdated:
            raise StandbyError(f"{self.broker.history.performed} was confirmed, and the copy at {self.base} serves")
        self.is_serving = True

    def confirm(self, number: int) -> None:
        """All copies have the commits up to this one."""
        while self.pending and self.pending[0].position.number <= number:
            self.broker.carry_out(self.pending.popleft(), self)
