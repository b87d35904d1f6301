"""The machines that a broker may choose for its copies, as brokers of a real network know them from each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pleach.core.messages import Node
from pleach.core.standby.candidates import BestCandidates, KnownMachine, Preference
from pleach.core.standby.composition import Candidate
from pleach.core.standby.views import Machine
from pleach.sim.standby.hosts import Host
from pleach.sim.standby.running import RunningBroker

if TYPE_CHECKING:
    from pleach.sim.standby.standbys import Standbys

FORGOTTEN_SHARE = 2.0  # of `after`: a machine that is silent for so long is no candidate


class SimMachines:
    """All brokers know the same ones. A broker ranks all of them only where a change may concern its best ones."""

    def __init__(self, standbys: Standbys) -> None:
        self._standbys = standbys
        self._known: dict[Machine, KnownMachine] = {}
        self._is_known = False  # whether that is up to date
        self._best: dict[Node, BestCandidates] = {}

    def changed(self) -> None:
        self._is_known = False

    def candidates(self, running: RunningBroker) -> tuple[Candidate, ...]:
        if not self._is_known:
            self._learn()
        name, own, neighbours = running.broker.name, running.host.name, tuple(running.inner.router.neighbours)
        best = self._best.get(name)
        if best is None or best.own != own or best.preference.neighbours != neighbours:
            preference = Preference(neighbours=neighbours)
            copies = self._standbys.config.copies
            best = self._best[name] = BestCandidates(name, own, self._known.values(), preference, copies)
        return best.best

    def _learn(self) -> None:
        before, after = self._known, {each.machine: each for each in self._there()}
        changes = {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}
        self._known, self._is_known = after, True
        self._best = {broker: best for broker, best in self._best.items() if best.bear(changes)}

    def _there(self) -> Iterator[KnownMachine]:
        places: dict[Machine, list[Node]] = {}
        for name, broker in self._standbys.brokers.items():
            places.setdefault(broker.place, []).append(name)
        for name, host in self._standbys.hosts.items():
            if not host.is_leaving and not self._is_long_gone(host):
                yield KnownMachine(name, brokers=tuple(places.get(name, ())))

    def _is_long_gone(self, host: Host) -> bool:
        """Whether brokers have told each other by now that the machine is silent."""
        standbys = self._standbys
        return not host.is_up and standbys.sim.now - host.down_at >= FORGOTTEN_SHARE * standbys.config.after
