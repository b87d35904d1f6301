"""Crashes and cuts at chosen protocol messages: a run that is interrupted where it hurts.

A *point* is a protocol message that a broker handles in a run; the n-th one is found by a run without mishap. A crash
right *before* it leaves the broker as it was, and the message is handed over again after the restart; a crash right
*after* it finds the new state on disk and the effects done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import get_args

from pleach.core.broker import Broker
from pleach.core.effects import Effect
from pleach.core.messages import MembershipMessage, Message, MovementMessage, Node, SwapLinkMessage
from pleach.scenario.model import Scenario
from pleach.scenario.steps import Restart
from pleach.sim.simulator import TimedMachine
from support.overlay.judgement import Watched, violations

PROTOCOL: frozenset[type] = frozenset(
    (*get_args(SwapLinkMessage), *get_args(MembershipMessage), *get_args(MovementMessage))
)
SEED = 1


class When(StrEnum):
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Point:
    """`index`: which protocol message of the run."""

    index: int
    message: str
    sender: Node
    receiver: Node
    at: float
    operation: str  # as the brokers call it; empty where the message does not say

    def __str__(self) -> str:
        return f"#{self.index} {self.message} {self.sender}→{self.receiver}"


@dataclass(frozen=True)
class CrashAt:
    """The broker that handles the protocol message number `index` crashes, for so many seconds."""

    index: int
    when: When
    seconds: float


@dataclass(frozen=True)
class CutAt:
    """The link is cut just before the protocol message number `index` is handled."""

    index: int
    link: tuple[Node, Node]
    seconds: float


Mishap = CrashAt | CutAt


class Guard:
    """Stands before a broker: what the simulator hands over comes by here."""

    def __init__(self, journey: Journey, name: Node, broker: TimedMachine) -> None:
        self._journey = journey
        self._name = name
        self._broker = broker

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        if type(message) not in PROTOCOL:
            return self._broker.handle(sender, message, now=now)
        if self._journey.strikes_before(self._name, sender, message):
            return ()
        effects = self._broker.handle(sender, message, now=now)
        self._journey.strike_after(self._name)
        return effects

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        return self._broker.handle_timer(name, now=now)


@dataclass
class Journey:
    """One run with its mishaps. `points`: the protocol messages that were handled, in order."""

    scenario: Scenario
    mishaps: Sequence[Mishap] = ()
    points: list[Point] = field(default_factory=list)
    traffic_notes: type[Watched] = Watched

    def __post_init__(self) -> None:
        self.watched = self.traffic_notes(self.scenario, SEED)
        self.run = self.watched.run
        self._crashes = {m.index: m for m in self.mishaps if isinstance(m, CrashAt)}
        self._cuts = {m.index: m for m in self.mishaps if isinstance(m, CutAt)}
        self._stand_guard()

    def _stand_guard(self) -> None:
        """Before all brokers, also those that come later or come back."""
        sim = self.run.sim
        add, restart = sim.add, sim.restart
        sim.add = lambda name, machine, **how: add(name, Guard(self, name, machine), **how)  # type: ignore[method-assign]
        sim.restart = lambda name, machine: restart(name, Guard(self, name, machine))  # type: ignore[method-assign]
        for name, broker in self.run.brokers.items():
            sim.add(name, broker)

    def finish(self) -> list[str]:
        """Run to the end; returns what does not hold."""
        verdict = self.watched.finish()
        return [*self.watched.flaws, *violations(verdict)]

    @property
    def links(self) -> set[frozenset[Node]]:
        return links_of(self.run.brokers)

    # Mishaps -------------------------------------------------------------------------------------------------

    def strikes_before(self, name: Node, sender: Node, message: Message) -> bool:
        """Whether the broker has crashed instead of handling the message."""
        index = len(self.points)
        if cut := self._cuts.pop(index, None):
            self.run.sim.cut(*cut.link)
            self.run.sim.at(self.run.sim.now + cut.seconds, partial(self.run.sim.heal, *cut.link))
        crash = self._crashes.get(index)
        if crash and crash.when is When.BEFORE:
            del self._crashes[index]
            self._crash(name, crash.seconds)
            self.run.sim.links_between(sender, name)[0].kept.append(message)
            return True
        operation = getattr(message, "operation", "")
        self.points.append(Point(index, type(message).__name__, sender, name, self.run.sim.now, operation))
        return False

    def strike_after(self, name: Node) -> None:
        crash = self._crashes.pop(len(self.points) - 1, None)
        if crash:
            self.run.sim.soon(partial(self._crash, name, crash.seconds))

    def _crash(self, name: Node, seconds: float) -> None:
        if name not in self.run.brokers or name in self.run.disks:  # it has left with this message, or is down
            return
        self.run.outages.crash(name)
        self.run.sim.at(self.run.sim.now + seconds, partial(self._restart, name))

    def _restart(self, name: Node) -> None:
        if name in self.run.brokers:  # else it had just left the tree: nobody starts it again
            self.run.outages.restart(Restart(broker=name, at=self.run.sim.now))


def links_of(brokers: dict[Node, Broker]) -> set[frozenset[Node]]:
    return {frozenset((name, neighbour)) for name, broker in brokers.items() for neighbour in broker.router.neighbours}
