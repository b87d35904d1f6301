"""A ring beside the brokers of a run, and its steward, who makes the tree of brokers follow the ring.

As in server/ring/: every broker has a host on the ring, which goes and comes with it, and the steward exchanges one
link at a time, where all is at rest and the hosts agree. There it surveys over admin ports, here it looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pleach.core.messages import Node, Peer
from pleach.core.overlay.choice import AT_ONCE, AUTO
from pleach.core.overlay.plans import Topology
from pleach.core.overlay.plans.transform import exchanges_towards
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.config import RingConfig
from pleach.errors import TopologyError
from pleach.operate.ring_seats import seat_of, wanted_tree
from pleach.scenario.steps import Exchange
from pleach.sim.ring_network import RingNetwork
from support.ring.fingers import dear_look_ups, flaws_of_fingers, rest

if TYPE_CHECKING:
    from support.everything.run import CaseRun

CONFIG = RingConfig(
    bits=16, stabilise_every=0.1, check_tree_every=0.15, survey_every=1.0, answer_within=0.06, find_within=0.15
)
LATENCY = (0.001, 0.01)


class RingSteward:
    def __init__(self, run: CaseRun, every: float) -> None:
        self.exchanged = 0
        self._run = run
        self._ring = RingNetwork(CONFIG, f"{run.stream}/ring", latency=LATENCY)
        self._seen: Topology | None = None
        until = min(run.scenario.duration, run.case.beside.ring_until)
        for number in range(int(until / every)):
            run.sim.at(number * every, self._look)

    def flaws(self) -> list[str]:
        """What is not right with the ring once brokers have come to rest: it goes on for a while by itself."""
        self._take_census()
        rest(self._ring, CONFIG)
        members = self._ring.members()
        if len(members) < len(self._ring.hosts):
            return [
                f"hosts are not in the ring: {sorted(self._ring.hosts.keys() - {each.me.name for each in members})}"
            ]
        return [*flaws_of_fingers(members, CONFIG), *dear_look_ups(self._ring, CONFIG, self._run.stream)]

    def _look(self) -> None:
        run = self._run
        if run.sim.now > self._ring.now:
            self._ring.run(run.sim.now)
        self._take_census()
        before, self._seen = self._seen, self._tree()
        if self._seen is None or self._seen != before or run.operations.under_way:
            return
        wanted = self._wanted()
        exchanges = exchanges_towards(self._seen, wanted.links, AT_ONCE) if wanted else []
        if exchanges:
            self.exchanged += 1
            first = exchanges[0]
            run.operations.start(Exchange(at=run.sim.now, remove=first.remove, add=first.add, protocol=AUTO))

    def _take_census(self) -> None:
        """Hosts of brokers that are down fail, those of brokers that are up join, through whom there is."""
        up = self._run.up
        for name in [*self._ring.hosts]:
            if name not in self._run.brokers:
                self._ring.leave(name)
            elif name not in up:
                self._ring.fail(name)
        for name in up:
            if name in self._ring.hosts and self._ring.hosts[name].phase is RingPhase.OUT:
                self._ring.fail(name)  # it could not join, and tries again
            if name not in self._ring.hosts:
                seeds = [host.me for host in self._ring.members()]
                self._ring.add(Peer(CONFIG.circle.key_of(name), name), seeds)

    def _tree(self) -> Topology | None:
        """None where not everybody is up and idle."""
        brokers = self._run.brokers
        if self._run.up != sorted(brokers) or any(broker.operation for broker in brokers.values()):
            return None
        links = [(a, b) for a in brokers for b in brokers[a].router.neighbours if a < b]
        try:
            return Topology.of(links, brokers)
        except TopologyError:
            return None

    def _wanted(self) -> Topology | None:
        seats: dict[Node, object] = {name: seat_of(host, is_leaving=False) for name, host in self._ring.hosts.items()}
        wanted = wanted_tree(seats)  # type: ignore[arg-type]
        return wanted.tree if wanted.tree and sorted(wanted.tree.brokers) == self._run.up else None
