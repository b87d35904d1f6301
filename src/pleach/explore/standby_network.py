"""The members of one broker in virtual time: real timing, a network with cuts, processes that pause, crash and die.

For liveness: from any state, or after any fault, a primary serves again within a bounded time, if a majority of the
newest view is alive and connected, with a copy among it. The invariants of standby_invariants.py are checked, too.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TypeAlias

from pleach.core.standby.composition import Candidate
from pleach.core.standby.member import StandbyConfig
from pleach.core.standby.timing import MemberTiming
from pleach.core.standby.views import Machine, Register, View
from pleach.explore.standby_host import BROKER, Content, Envelope, HostStage, ModelHost, StoredCommit, StoringRecord
from pleach.explore.standby_invariants import BrokenInvariantError, Past, first_past, loss, past_after
from pleach.explore.standby_world import StandbyWorld, WorldState

TICKS_PER_SILENCE = 5
LATENCY_SHARE = 0.01  # of `after`
WRITE_SHARE = 0.005
START_SHARE = 0.3  # to open a store

Way: TypeAlias = tuple[Machine, Machine]


class StandbyNetwork:
    def __init__(self, hosts: Mapping[Machine, ModelHost], past: Past, *, after: float = 1.0) -> None:
        """Hosts of which nothing is under way but what they write."""
        self.hosts = dict(hosts)
        self.past = past
        self.after = after
        self.now = 0.0
        self.cuts: set[Way] = set()
        self.paused: set[Machine] = set()
        self.full: set[Machine] = set()  # disks that take no records
        self.start_seconds = START_SHARE * after
        self.latency = LATENCY_SHARE * after
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._serials = count()
        self._arrived: dict[Machine, deque[tuple[Machine, Envelope]]] = {each: deque() for each in hosts}
        self._clears: dict[Way, float] = {}  # when what was sent last arrives
        self._starting: set[Machine] = set()
        for place, machine in enumerate(self.hosts):
            self._later((place + 1) * after / TICKS_PER_SILENCE / len(self.hosts), self._ticker(machine))
            self.settle(machine)

    @classmethod
    def begun(
        cls,
        copies: Sequence[Machine] = ("p", "s"),
        witnesses: Sequence[Machine] = ("w",),
        fresh: Sequence[Machine] = (),
        *,
        wanted: int = 2,
        seconds: float = 1.0,
    ) -> StandbyNetwork:
        """All copies of a first view have one commit; so many seconds after the primary was started."""
        members = (*copies, *witnesses)
        view = View(BROKER, 1, tuple(copies), tuple(witnesses), dict.fromkeys(members, ""))
        content: Content = (StoredCommit(1, "first"),)
        machines = (*members, *fresh)
        hosts = {each: ModelHost(each, StandbyConfig(1.0, wanted), set(machines) - {each}) for each in machines}
        for each in members:
            hosts[each].boot(Register(view), content if each in copies else None)
        network = cls(hosts, first_past(view, content))
        network.run(seconds)
        return network

    @classmethod
    def resumed(cls, world: StandbyWorld, state: WorldState) -> StandbyNetwork:
        """A state of the explorer, from which on time passes, and every message arrives."""
        hosts = {each: host for each in world.machines if (host := world.copy_of(state, each)) is not None}
        for host in hosts.values():
            host.timing = None
            host.member.timing = MemberTiming(host.config.after, 0.0)
        network = cls(hosts, world.past(state))
        for sender, receiver in world.channels:
            for message in world.queue(state, sender, receiver):
                network.send(sender, receiver, message)
        return network

    @property
    def is_able(self) -> bool:
        """Whether a majority of the newest view lives, a copy among it, and enough machines for two copies."""
        view = self.newest
        living = [each for each in view.members if each in self.hosts]
        return len(living) >= view.majority and any(each in living for each in view.copies) and len(self.hosts) > 1

    def name_candidates(self, machines: Sequence[Machine]) -> None:
        for host in self.hosts.values():
            host.candidates = tuple(Candidate(each, "") for each in machines if each != host.machine)
            host.member.candidates = host.candidates

    # What is done to it --------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while self._events and self._events[0][0] <= until:
            self.now, _, happen = heapq.heappop(self._events)
            happen()
        self.now = until

    def cut(self, *ways: Way) -> None:
        """Nothing passes any more; whoever sent something there is told after a while."""
        for sender, receiver in ways:
            self.cuts.add((sender, receiver))
            self._later(self.after, self._noticing(sender, receiver))

    def isolate(self, machine: Machine) -> None:
        for other in self.hosts:
            if other != machine:
                self.cut((machine, other), (other, machine))

    def heal(self) -> None:
        for sender, receiver in sorted(self.cuts):
            self._later(0.0, self._noticing(sender, receiver))
        self.cuts.clear()

    def kill(self, machine: Machine) -> None:
        """For good, with its disk."""
        del self.hosts[machine]
        self._lose(machine)

    def restart(self, machine: Machine) -> None:
        """Its memory is gone."""
        self.hosts[machine].crash(len(self.hosts[machine].writing), self.now)
        self._starting.discard(machine)
        self._lose(machine)
        self.settle(machine)

    def pause(self, machine: Machine, seconds: float, *, is_deaf: bool = False) -> None:
        """The process does not run. `is_deaf`: what came meanwhile is lost, as if its connections had ended."""
        self.paused.add(machine)
        self._later(seconds, lambda: self._resume(machine, is_deaf=is_deaf))

    def publish(self, what: str) -> None:
        """At whoever believes to serve."""
        for machine, host in self.hosts.items():
            if host.is_serving and machine not in self.paused:
                host.publish(what)
                self.settle(machine)

    # What is seen of it --------------------------------------------------------------------------------------

    @property
    def newest(self) -> View:
        views = [host.member.view for host in self.hosts.values() if host.member.view is not None]
        return max(views, key=lambda view: view.number)

    @property
    def primary(self) -> Machine:
        """Who leads in the newest view and serves; empty: nobody."""
        host = self.hosts.get(self.newest.primary)
        is_it = host is not None and host.is_serving and host.member.number == self.newest.number
        return self.newest.primary if is_it else ""

    @property
    def confirmed(self) -> list[str]:
        return [commit.what for commit in self.past.confirmed]

    def seconds_to_confirm(self, what: str, seconds_max: float) -> float | None:
        """How long it takes until something new is confirmed; None: longer than that."""
        began = self.now
        while self.now - began < seconds_max:
            if what not in self.confirmed and self.primary:
                host = self.hosts[self.primary]
                if all(commit.what != what for commit in host.handed_out):
                    host.publish(what)
                    self.settle(self.primary)
            self.run(self.after / TICKS_PER_SILENCE)
            if what in self.confirmed:
                return self.now - began
        return None

    # Time ----------------------------------------------------------------------------------------------------

    def _later(self, seconds: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._serials), happen))

    def _ticker(self, machine: Machine) -> Callable[[], None]:
        def tick() -> None:
            if machine not in self.hosts:
                return
            if machine not in self.paused:
                self.hosts[machine].tick(self.now)
                self.settle(machine)
            self._later(self.after / TICKS_PER_SILENCE, tick)

        return tick

    def _resume(self, machine: Machine, *, is_deaf: bool) -> None:
        """It ticks before it reads what has come meanwhile."""
        self.paused.discard(machine)
        if is_deaf:
            self._lose(machine)
        if machine in self.hosts:
            self.hosts[machine].tick(self.now)
            self.settle(machine)
            self._read(machine)

    def _noticing(self, sender: Machine, receiver: Machine) -> Callable[[], None]:
        def notice() -> None:
            if sender in self.hosts:
                self.hosts[sender].lost_touch(receiver)

        return notice

    def _lose(self, machine: Machine) -> None:
        self._arrived[machine].clear()
        for other, host in self.hosts.items():
            if other != machine:
                host.lost_touch(machine)

    # Messages ------------------------------------------------------------------------------------------------

    def settle(self, machine: Machine) -> None:
        """Do what a host wants after it has moved."""
        host = self.hosts[machine]
        for receiver, message in host.take_sent():
            self.send(machine, receiver, message)
        self._judge(host)
        if host.writing:
            self._later(WRITE_SHARE * self.after, self._writer(machine, host.life))
        if host.stage is HostStage.STARTING and machine not in self._starting:
            self._starting.add(machine)
            self._later(self.start_seconds, self._starter(machine, host.life))

    def _judge(self, host: ModelHost) -> None:
        self.past = past_after(self.past, host.take_seen(), host.machine)
        for each in self.past.newest.copies:
            found = loss(self.past, each, self.hosts[each].store) if each in self.hosts else ""
            if found:
                raise BrokenInvariantError(found)

    def send(self, sender: Machine, receiver: Machine, message: Envelope) -> None:
        way = sender, receiver
        if receiver not in self.hosts or way in self.cuts:
            return
        at = max(self.now + self.latency, self._clears.get(way, 0.0))
        self._clears[way] = at
        life = self.hosts[receiver].life

        def arrive() -> None:
            host = self.hosts.get(receiver)
            if host is not None and host.life == life and way not in self.cuts:
                self._arrived[receiver].append((sender, message))
                self._read(receiver)

        self._later(at - self.now, arrive)

    def _read(self, machine: Machine) -> None:
        while machine in self.hosts and machine not in self.paused and self._arrived[machine]:
            sender, message = self._arrived[machine].popleft()
            self.hosts[machine].handle(sender, message, self.now)
            self.settle(machine)

    def _writer(self, machine: Machine, life: int) -> Callable[[], None]:
        def write() -> None:
            host = self.hosts.get(machine)
            if host is None or host.life != life or not host.writing:
                return
            if machine in self.full and isinstance(host.writing[0], StoringRecord):
                host.writing.pop(0)
            else:
                host.disk_done()
            self.settle(machine)

        return write

    def _starter(self, machine: Machine, life: int) -> Callable[[], None]:
        def start() -> None:
            host = self.hosts.get(machine)
            if host is None or host.life != life:
                return
            self._starting.discard(machine)
            if host.stage is not HostStage.STARTING or host.store is None:
                return
            if machine in self.paused or host.writing:
                self._starting.add(machine)
                self._later(self.start_seconds, start)
                return
            host.lead()
            self.settle(machine)

        return start
