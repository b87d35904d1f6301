"""Crashes and restarts of brokers in a simulated run, and the settings of links.

Every step of a broker is committed, so its disk holds its whole state when it crashes. A broker that crashes for good
is *abandoned*: links to it lose what is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from pleach.core.messages import Node
from pleach.scenario import steps
from pleach.scenario.machines import make_machine, tree_of
from pleach.sim.links import SimLink
from pleach.trace import NETWORK, RecordKind

if TYPE_CHECKING:
    from pleach.sim.run import ScenarioRun

LOSES_ALL = 2.0  # above any draw


class SimOutages:
    def __init__(self, run: ScenarioRun) -> None:
        self.disks: dict[Node, bytes] = {}  # states of brokers that are down
        self._run = run
        self._abandoned: dict[Node, None] = {}
        self._backups: dict[tuple[Node, float], bytes] = {}
        self._latencies = run.scenario.latency.by_link()
        self._losses = run.scenario.loss.by_link()

    def is_down(self, broker: Node) -> bool:
        return broker in self.disks

    def is_running(self, broker: Node) -> bool:
        return not self.is_down(broker)

    # Links ---------------------------------------------------------------------------------------------------

    def configure(self, link: SimLink) -> None:
        """Give a new link the latency and the loss that the scenario has for it."""
        ends, scenario = (link.sender, link.receiver), self._run.scenario
        latency = self._latencies.get(ends, scenario.latency.default)
        link.set_latency((latency.low, latency.high))
        link.loss = LOSES_ALL if link.receiver in self._abandoned else self._losses.get(ends, scenario.loss.default)

    def change_link(self, step: steps.Cut | steps.Heal | steps.Slow, ends: tuple[Node, Node]) -> None:
        run, sim = self._run, self._run.sim
        if not sim.has_link(*ends):
            run.refuse(step, f"there is no link {ends[0]}-{ends[1]}")
            return
        run.record(RecordKind.FAULT, NETWORK, peer="-".join(ends), detail=self.told_of_link(step, ends))
        match step:
            case steps.Cut():
                sim.cut(*ends)
            case steps.Heal():
                sim.heal(*ends)
            case steps.Slow(latency=latency):
                for link in sim.links_between(*ends):
                    link.set_latency((latency.low, latency.high))

    def told_of_link(self, step: steps.Cut | steps.Heal | steps.Slow, ends: tuple[Node, Node]) -> str:
        """The detail of the record."""
        faults, name = self._run.faults, f"cut {'-'.join(sorted(ends))}"
        match step:
            case steps.Cut():
                return faults.outage("cut", name)
            case steps.Heal():
                return faults.outage_over("heal", name)
            case steps.Slow():
                return faults.outage("slow")

    def take_partition(self, step: steps.Partition) -> None:
        """Of the links that there are now; a link that comes later is not cut."""
        run, named = self._run, {name for side in step.sides for name in side}
        rest = [name for name in (*run.brokers, *run.clients) if name not in named]
        sides = [*step.sides, rest] if len(step.sides) == 1 else step.sides
        links = [
            link
            for i, side in enumerate(sides)
            for other in sides[i + 1 :]
            for a, b in product(side, other)
            for link in run.sim.links_between(a, b)[: 1 if step.one_way else 2]
        ]
        detail = f"partition {step.told}"
        run.record(RecordKind.FAULT, NETWORK, detail=run.faults.outage(detail, detail))
        for link in links:
            run.sim.block(link)
        blocked = [(link, link.opened) for link in links]
        run.sim.at(run.sim.now + step.seconds, partial(self._end_partition, step, blocked))

    def _end_partition(self, step: steps.Partition, blocked: Sequence[tuple[SimLink, int]]) -> None:
        detail = self._run.faults.outage_over(f"end of partition {step.told}", f"partition {step.told}")
        self._run.record(RecordKind.FAULT, NETWORK, detail=detail)
        for link, opened in blocked:
            if link.opened == opened:  # else it was closed and opened anew meanwhile
                self._run.sim.unblock(link)

    # Brokers -------------------------------------------------------------------------------------------------

    def take_crash(self, step: steps.Crash) -> None:
        broker, run = step.broker, self._run
        if broker not in run.brokers:
            run.refuse(step, f"there is no broker {broker} any more")
        elif self.is_down(broker):
            run.refuse(step, f"broker {broker} is down already")
        else:
            self.crash(broker)
            if step.for_good:
                self._abandon(broker)

    def take_destroy(self, step: steps.Destroy) -> None:
        self._run.refuse(step, "there are no copies elsewhere: add [standby]")

    def take_restart(self, step: steps.Restart) -> None:
        if step.broker in self.disks:
            self.restart(step)
        else:
            self._run.refuse(step, f"broker {step.broker} is not down")

    def crash(self, broker: Node) -> None:
        run = self._run
        run.record(RecordKind.FAULT, broker, detail=run.faults.outage("crash", f"crash {broker}"))
        self.disks[broker] = run.brokers[broker].capture()
        run.sim.crash(broker)

    def _abandon(self, broker: Node) -> None:
        self._abandoned[broker] = None
        for node in (*self._run.brokers, *self._run.clients):
            for link in self._run.sim.links_between(node, broker)[:1]:
                self._run.sim.take_in_flight(link)
                link.loss = LOSES_ALL

    def restart(self, step: steps.Restart) -> None:
        run, broker, disk = self._run, step.broker, self.disks.pop(step.broker)
        if step.state_from is None:
            run.record(RecordKind.FAULT, broker, detail=run.faults.outage_over("restart", f"crash {broker}"))
        else:
            detail = run.faults.struck(f"restart state_from={step.state_from:g}")
            run.record(RecordKind.FAULT, broker, detail=detail)
            disk = self._backups[broker, step.state_from]
        fresh = make_machine(run.scenario, tree_of(run.scenario), broker)
        fresh.restore(disk)
        run.brokers[broker] = fresh
        run.sim.restart(broker, run.wrapped(fresh))
        run.sim.perform(broker, fresh.resume(now=run.sim.now))

    def back_up(self, broker: Node, at: float) -> None:
        """Copy the broker's disk; that of a broker that is down is the one it crashed with."""
        disk = self.disks[broker] if broker in self.disks else self._run.brokers[broker].capture()
        self._backups[broker, at] = disk
