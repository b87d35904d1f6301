"""Machines that are destroyed, or crash, at chosen messages: of protocols between brokers, or between members.

A *point* is a message that a broker, or a machine, handles in a run; the n-th one is found by a run without mishap. A
machine that goes right *before* it takes the message along if it was to handle it; one that goes right *after* it has
committed what came of it, and sent its record out: how much of that arrives is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple, get_args

from pleach.core.messages import (
    ExchangeMessage,
    MembershipMessage,
    Message,
    MovementMessage,
    Node,
    SwapLinkMessage,
)
from pleach.core.standby.messages import Alive, Here
from pleach.scenario.model import Scenario
from pleach.sim.standby.hosts import Host
from pleach.trace import Rule
from support.overlay.faults_at_messages import When
from support.overlay.judgement import Watched, violations

PROTOCOLS: frozenset[type] = frozenset(
    kind
    for messages in (SwapLinkMessage, MembershipMessage, MovementMessage, ExchangeMessage)
    for kind in get_args(messages)
)
HEARTBEATS = (Alive, Here)
SEED = 1


class Between(StrEnum):
    """Whose messages are points."""

    BROKERS = "brokers"
    MEMBERS = "members"


class Victim(StrEnum):
    RECEIVER = "receiver"  # the machine that handles the message
    STANDBY = "standby"  # one with a copy of that broker
    SENDER = "sender"  # the machine that it comes from


class Point(NamedTuple):
    index: int
    message: str
    sender: Node
    receiver: Node
    at: float

    def __str__(self) -> str:
        return f"#{self.index} {self.message} {self.sender}→{self.receiver} at {self.at:.4f}"


class Mishap(NamedTuple):
    """`seconds`: until the machine comes back; None: it is destroyed."""

    index: int
    when: When
    victim: Victim
    seconds: float | None = None


@dataclass
class Ordeal:
    """One run with its mishaps. `points`: the messages that were handled, in order, from `begins_at` on."""

    scenario: Scenario
    mishaps: Sequence[Mishap] = ()
    between: Between = Between.BROKERS
    begins_at: float = 0.0
    watch: type[Watched] = Watched
    points: list[Point] = field(default_factory=list)
    spared: frozenset[Rule] = frozenset()
    deliveries: int = 0

    def __post_init__(self) -> None:
        self.watched = self.watch(self.scenario, SEED)
        self.run = self.watched.run
        self._waiting = {mishap.index: mishap for mishap in self.mishaps}
        if self.between is Between.BROKERS:
            self._stand_before_brokers()
        else:
            self._stand_before_members()

    def _stand_before_brokers(self) -> None:
        """Also before those that come later."""
        sim, add = self.run.sim, self.run.sim.add
        for broker in self.run.standbys.brokers.values():
            broker.handle = partial(self._handle, broker.name, broker.handle)
        sim.add = lambda name, machine, **how: add(name, self._guarded(name, machine), **how)

    def _guarded(self, name, machine):
        if name in self.run.standbys.brokers:
            machine.handle = partial(self._handle, name, machine.handle)
        return machine

    def _stand_before_members(self) -> None:
        arrived = self.run.standbys.arrived
        self.run.standbys.arrived = partial(self._arrive, arrived)

    def finish(self) -> list[str]:
        """Run to the end; returns what does not hold."""
        verdict = self.watched.finish()
        self.deliveries = verdict.counts.deliveries
        return [*self.watched.flaws, *violations(verdict, self.spared)]

    # Points --------------------------------------------------------------------------------------------------

    def _handle(self, name: Node, handle: Callable, sender: Node, numbered, *, now: float):
        if type(numbered[1]) not in PROTOCOLS or now < self.begins_at:
            return handle(sender, numbered, now=now)
        machines = {
            Victim.RECEIVER: self._machine_of(name),
            Victim.STANDBY: self.run.standbys.hosts[self.run.standbys.view_of(name).standbys[0]],
            Victim.SENDER: self._machine_of(sender) or self._machine_of(name),
        }
        self._pass(numbered[1], sender, name, machines, lambda: handle(sender, numbered, now=now))
        return ()

    def _arrive(self, arrived: Callable, way, message) -> None:
        if isinstance(message, HEARTBEATS) or self.run.sim.now < self.begins_at:
            arrived(way, message)
            return
        hosts = self.run.standbys.hosts
        machines = {
            Victim.RECEIVER: hosts[way.receiver],
            Victim.SENDER: hosts[way.sender],
            Victim.STANDBY: hosts[way.receiver],
        }
        self._pass(message, way.sender, way.receiver, machines, lambda: arrived(way, message))

    def _machine_of(self, node: Node) -> Host | None:
        return self.run.outages.host_of(node) if node in self.run.standbys.brokers else None

    def _pass(self, message: Message, sender: Node, receiver: Node, machines: dict[Victim, Host], handle) -> None:
        index = len(self.points)
        self.points.append(Point(index, type(message).__name__, sender, receiver, self.run.sim.now))
        mishap = self._waiting.pop(index, None)
        if mishap and mishap.when is When.BEFORE:
            self._strike(mishap, machines[mishap.victim])
        if machines[Victim.RECEIVER].is_up:
            handle()
        if mishap and mishap.when is When.AFTER:
            self._strike(mishap, machines[mishap.victim])

    def _strike(self, mishap: Mishap, host: Host) -> None:
        outages = self.run.outages
        if not host.is_up:
            return
        if mishap.seconds is None:
            outages.destroy(host)
        else:
            outages.take_down(host)
            self.run.standbys.later(mishap.seconds, partial(outages.bring_up, host))  # also in a drain
