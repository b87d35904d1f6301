"""Machines that crash, restart or are destroyed, and ways that are cut, in a network with standbys.

A crash takes down the machine where the broker runs, with all that runs there; its disk stays. A machine that is
destroyed has no disk either, and does not come back. A broker's name stands for the machine where it runs at the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from pleach.core.messages import Node
from pleach.core.standby.views import Machine
from pleach.scenario import steps
from pleach.sim.outages import SimOutages
from pleach.sim.standby.hosts import Host
from pleach.sim.standby.standbys import Standbys
from pleach.trace import NETWORK, RecordKind

if TYPE_CHECKING:
    from pleach.sim.run import ScenarioRun

Direction = tuple[str, str]  # of a way: from which place to which


class StandbyOutages(SimOutages):
    def __init__(self, run: ScenarioRun, standbys: Standbys) -> None:
        super().__init__(run)
        self._standbys = standbys
        self._crashed: dict[Node, list[Machine]] = defaultdict(list)  # for which broker's sake, the first one first
        self._cut: dict[frozenset[Node], list[list[Direction]]] = defaultdict(list)  # by the link of the step

    def is_down(self, broker: Node) -> bool:  # noqa: ARG002
        return False  # a request waits until the broker is back

    def is_running(self, broker: Node) -> bool:
        return self._standbys.brokers[broker].current is not None

    # Machines ------------------------------------------------------------------------------------------------

    def take_crash(self, step: steps.Crash) -> None:
        if step.broker not in self._run.brokers:
            self._run.refuse(step, f"there is no broker {step.broker} any more")
        elif not self.host_of(step.broker).is_up:
            self._run.refuse(step, f"broker {step.broker} is down already")
        else:
            self.crash(step.broker)

    def crash(self, broker: Node) -> None:
        host = self.host_of(broker)
        self._run.record(RecordKind.FAULT, broker, detail=self._run.faults.outage("crash", f"crash {broker}"))
        self._crashed[broker].append(host.name)
        self.take_down(host)

    def take_restart(self, step: steps.Restart) -> None:
        if self._crashed[step.broker]:
            self.restart(step)
        else:
            self._run.refuse(step, f"broker {step.broker} is not down")

    def restart(self, step: steps.Restart) -> None:
        detail = self._run.faults.outage_over("restart", f"crash {step.broker}")
        self._run.record(RecordKind.FAULT, step.broker, detail=detail)
        self.bring_up(self._standbys.hosts[self._crashed[step.broker].pop(0)])

    def take_destroy(self, step: steps.Destroy) -> None:
        hosts = self._standbys.hosts
        if step.broker and step.broker not in self._run.brokers:
            self._run.refuse(step, f"there is no broker {step.broker} any more")
        elif step.machine and step.machine not in hosts:
            self._run.refuse(step, f"there is no machine {step.machine}")
        else:
            self.destroy(hosts[step.machine] if step.machine else self.host_of(step.broker))

    def destroy(self, host: Host) -> None:
        """The machine, its disk, and all that runs there are gone for good."""
        run = self._run
        if host.name in self._standbys.destroyed:
            return
        here = [broker for broker in run.brokers if self._standbys.brokers[broker].place == host.name]
        detail = run.faults.outage(f"destroy machine {host.name}", f"machine {host.name}")
        run.record(RecordKind.FAULT, here[0] if here else host.name, detail=detail)
        self._standbys.destroyed[host.name] = None
        for crashed in self._crashed.values():
            if host.name in crashed:
                crashed.remove(host.name)
        if host.is_up:
            self.take_down(host)
        host.disk.wipe()
        self._standbys.give_up_lost()

    def host_of(self, broker: Node) -> Host:
        """The machine where the broker runs, or is to run."""
        current = self._standbys.brokers[broker].current
        return current.host if current else self._standbys.hosts[self._standbys.view_of(broker).primary]

    def take_down(self, host: Host) -> None:
        for way in self._standbys.ways.of(host.name):
            if way.sender == host.name:
                self._standbys.sim.tear_way(way)
        host.go_down()

    def bring_up(self, host: Host) -> None:
        for other in self._standbys.hosts:
            self._connect_anew(host.name, other)
        host.come_up()

    def _connect_anew(self, one: Machine, other: Machine) -> None:
        standbys = self._standbys
        if one == other:
            return
        for sender, receiver in ((one, other), (other, one)):
            standbys.ways.between(sender, receiver).connection += 1
            standbys.hosts[sender].lost_touch(receiver)

    # Ways ----------------------------------------------------------------------------------------------------

    def change_link(self, step: steps.Cut | steps.Heal | steps.Slow, ends: tuple[Node, Node]) -> None:
        is_cut = isinstance(step, steps.Heal) and self._cut[frozenset(ends)]
        if not is_cut and not self._run.sim.has_link(*ends):
            self._run.refuse(step, f"there is no link {ends[0]}-{ends[1]}")
            return
        self._run.record(RecordKind.FAULT, NETWORK, peer="-".join(ends), detail=self.told_of_link(step, ends))
        match step:
            case steps.Cut():
                a, b = self._places(ends)
                directions = [(a, b), (b, a)]
                self._cut[frozenset(ends)].append(directions)
                self.cut(directions)
            case steps.Heal():
                if is_cut:
                    self.mend(self._cut[frozenset(ends)].pop())
            case steps.Slow(latency=latency):
                ways = [self._standbys.ways.between(*self._places(pair)).link for pair in (ends, ends[::-1])]
                for link in (*self._run.sim.links_between(*ends), *ways):
                    link.set_latency((latency.low, latency.high))

    def take_partition(self, step: steps.Partition) -> None:
        sides = [self._places(side) for side in step.sides]
        if len(sides) == 1:
            named = {*sides[0]}
            sides.append([name for name in (*self._standbys.hosts, *self._run.clients) if name not in named])
        directions = [
            (a, b)
            for i, side in enumerate(sides)
            for j, other in enumerate(sides)
            for a, b in product(side, other)
            if i < j or (i > j and not step.one_way)
        ]
        detail = f"partition {step.told}"
        self._run.record(RecordKind.FAULT, NETWORK, detail=self._run.faults.outage(detail, detail))
        self.cut(directions)
        self._run.sim.at(self._run.sim.now + step.seconds, partial(self._mend_partition, step, directions))

    def _mend_partition(self, step: steps.Partition, directions: Sequence[Direction]) -> None:
        detail = self._run.faults.outage_over(f"end of partition {step.told}", f"partition {step.told}")
        self._run.record(RecordKind.FAULT, NETWORK, detail=detail)
        self.mend(directions)

    def _places(self, names: Iterable[Node]) -> list[str]:
        """Brokers that are gone have none."""
        brokers = self._standbys.brokers
        there = [name for name in names if name not in brokers or not brokers[name].is_dissolved]
        return [self.host_of(name).name if name in brokers else name for name in there]

    def cut(self, directions: Sequence[Direction]) -> None:
        standbys = self._standbys
        for sender, receiver in directions:
            standbys.ways.cut(sender, receiver)
            if sender in standbys.hosts and receiver in standbys.hosts:
                standbys.sim.tear_way(standbys.ways.between(sender, receiver))
        standbys.ways_changed()

    def mend(self, directions: Sequence[Direction]) -> None:
        standbys = self._standbys
        for sender, receiver in directions:
            standbys.ways.mend(sender, receiver)
            if sender in standbys.hosts and receiver in standbys.hosts:
                self._connect_anew(sender, receiver)
        standbys.ways_changed()
