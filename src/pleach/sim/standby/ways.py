"""Ways between machines: what members say to each other travels here, in order or not at all.

A *place* is a machine, or a client. Ways are cut in one direction or both; links between brokers, and between clients
and brokers, go the same ways (sessions.py). When a way is cut or a machine goes down, any number of the last messages
under way is lost. When it is usable again, that is a new connection: nothing of the old one arrives any more.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from pleach.core.standby.views import Machine
from pleach.scenario.model import Scenario
from pleach.sim.links import SimLink


class Way:
    """One direction between two machines. `connection`: counts how often it was interrupted."""

    __slots__ = ("connection", "is_cut", "link", "receiver", "sender")

    def __init__(self, link: SimLink, *, is_cut: bool) -> None:
        self.link = link
        self.sender, self.receiver = link.sender, link.receiver
        self.is_cut = is_cut
        self.connection = 0


class Ways:
    def __init__(self, scenario: Scenario, seed: str) -> None:
        self.draws = Random(f"{seed}/machines")
        self._scenario = scenario
        self._seed = f"{seed}/machines"
        self._latencies = scenario.latency.by_link()
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._all: dict[tuple[Machine, Machine], Way] = {}

    def between(self, sender: Machine, receiver: Machine) -> Way:
        way = self._all.get((sender, receiver))
        if way is None:
            latency = self._latencies.get((sender, receiver), self._scenario.latency.default)
            link = SimLink(sender, receiver, (latency.low, latency.high), self._seed)
            way = self._all[sender, receiver] = Way(link, is_cut=self.is_cut(sender, receiver))
        return way

    def of(self, machine: Machine) -> list[Way]:
        """Those that begin or end at a machine."""
        return [way for ends, way in self._all.items() if machine in ends]

    def is_cut(self, sender: str, receiver: str) -> bool:
        return self._cuts[sender, receiver] > 0

    def is_open(self, one: str, other: str) -> bool:
        """In both directions, so that a connection can be made."""
        return not (self.is_cut(one, other) or self.is_cut(other, one))

    def cut(self, sender: str, receiver: str) -> None:
        self._count(sender, receiver, 1)

    def mend(self, sender: str, receiver: str) -> None:
        self._count(sender, receiver, -1)

    def _count(self, sender: str, receiver: str, change: int) -> None:
        self._cuts[sender, receiver] += change
        if (sender, receiver) in self._all:
            self._all[sender, receiver].is_cut = self.is_cut(sender, receiver)
