"""Virtual time for hosts of a ring: thousands of them, everyone may send to everyone.

Beside the simulator for brokers, since nothing that it does for them is wanted here: there are no links, messages may
overtake each other or be lost, and what is sent to a host that is gone is gone. The same seed gives the same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random
from typing import assert_never

from pleach.core.effects import SetTimer
from pleach.core.messages import Message, Node, Peer
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.config import RingConfig
from pleach.core.ring.effects import Cast, JoinEnded, OwnerFound, OwnerNotFound, RingEffect, TreeNeighbours
from pleach.core.ring.host import RingHost
from pleach.core.ring.lookups import Mode
from pleach.errors import LivenessError

STEPS_MAX = 50_000_000
LATENCY = (0.001, 0.025)  # seconds, uniform

CastListener = Callable[[float, Node, Cast], None]
NeighboursListener = Callable[[float, Node, TreeNeighbours], None]


class RingNetwork:
    def __init__(
        self, config: RingConfig, seed: str, *, latency: tuple[float, float] = LATENCY, loss: float = 0.0
    ) -> None:
        self.now = 0.0
        self.hosts: dict[Node, RingHost] = {}  # those that are up
        self.sent: Counter[type[Message]] = Counter()
        self.found: dict[int, OwnerFound | OwnerNotFound] = {}  # by the number that `look_up` gave
        self.refusals: dict[Node, str] = {}
        self.loss = loss  # the share of messages that do not arrive
        self.on_cast: CastListener | None = None
        self.on_neighbours: NeighboursListener | None = None
        self._config = config
        self._latency = latency
        self._draws = Random(seed)
        self._steps_left = STEPS_MAX
        self._serial = 0
        self._lookups = 0
        self._due: list[tuple[float, int, RingHost, Node, Message | str]] = []  # a message and its sender, or a timer

    # Hosts ---------------------------------------------------------------------------------------------------

    def add(self, peer: Peer, seeds: Sequence[Peer] = ()) -> RingHost:
        """A host that joins by way of one of the seeds, or without any is the first."""
        host = RingHost(peer, self._config)
        self.hosts[peer.name] = host
        self.perform(host, host.join(seeds, now=self.now) if seeds else host.found(now=self.now))
        return host

    def admit(self, host: RingHost) -> None:
        """A host that is in the ring already, as of a state that was restored."""
        self.hosts[host.me.name] = host
        self.perform(host, host.resume())

    def leave(self, name: Node) -> None:
        host = self.hosts[name]
        self.perform(host, host.leave(now=self.now))
        del self.hosts[name]

    def fail(self, name: Node) -> None:
        """Without a word. What is under way to it is lost."""
        del self.hosts[name]

    def members(self) -> list[RingHost]:
        return [host for host in self.hosts.values() if host.phase is RingPhase.MEMBER]

    def look_up(self, name: Node, key: int, mode: Mode = Mode.RECURSIVE) -> int:
        """Returns the number under which the answer will be in `found`."""
        self._lookups += 1
        host = self.hosts[name]
        self.perform(host, host.look_up(key, now=self.now, number=self._lookups, mode=mode))
        return self._lookups

    # Running -------------------------------------------------------------------------------------------------

    def run(self, until: float) -> None:
        due, hosts = self._due, self.hosts
        while due and due[0][0] <= until:
            self._steps_left -= 1
            if self._steps_left < 0:
                raise LivenessError(f"the bound on steps is used up at {self.now:.3f} s")
            self.now, _, host, sender, what = heappop(due)
            if hosts.get(host.me.name) is not host:
                continue  # gone, or another of that name came since
            if isinstance(what, str):
                self.perform(host, host.handle_timer(what, now=self.now))
            else:
                self.perform(host, host.handle(sender, what, now=self.now))
        self.now = until

    def perform(self, host: RingHost, effects: Sequence[RingEffect]) -> None:
        for effect in effects:
            match effect:
                case Cast():
                    self._cast(host, effect)
                case SetTimer(name, after):
                    self._plan(self.now + after, host, "", name)
                case OwnerFound() | OwnerNotFound():
                    self.found[effect.purpose.number] = effect
                case TreeNeighbours():
                    if self.on_neighbours:
                        self.on_neighbours(self.now, host.me.name, effect)
                case JoinEnded(refusal):
                    if refusal:
                        self.refusals[host.me.name] = refusal
                case _:
                    assert_never(effect)

    def _cast(self, host: RingHost, cast: Cast) -> None:
        self.sent[type(cast.message)] += 1
        if self.on_cast:
            self.on_cast(self.now, host.me.name, cast)
        if self.loss and self._draws.random() < self.loss:
            return
        receiver, (low, high) = self.hosts.get(cast.to.name), self._latency
        if receiver is not None and receiver.me == cast.to:  # not one that listens elsewhere by now
            self._plan(self.now + low + (high - low) * self._draws.random(), receiver, host.me.name, cast.message)

    def _plan(self, at: float, host: RingHost, sender: Node, what: Message | str) -> None:
        self._serial += 1
        heappush(self._due, (at, self._serial, host, sender, what))
