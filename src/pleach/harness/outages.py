"""Crashes, destroyed machines, and links that fail: steps of a scenario's timeline on real processes.

A broker's name stands for the machine where it runs by then. A link that is cut ends its connections; one between the
sides of a partition is silent.
"""

from __future__ import annotations

import asyncio
from itertools import combinations, product
from typing import TypeAlias

from pleach.core.messages import Node
from pleach.harness.scenario_faults import FaultTarget
from pleach.scenario import steps
from pleach.trace import NETWORK, RecordKind

LinkStep: TypeAlias = steps.Cut | steps.Heal | steps.Slow
OutageStep: TypeAlias = steps.Crash | steps.Restart | steps.Destroy | steps.Partition | LinkStep


class LiveOutages:
    def __init__(self, run: FaultTarget) -> None:
        self._run = run
        self._destroyed_at = -1.0
        self._crashed: set[Node] = set()

    async def carry_out(self, step: OutageStep) -> None:
        """Carry out a step; a partition to its end."""
        await self._run.network.locate()
        match step:
            case steps.Crash(for_good=True):
                self._run.refuse(
                    step, "real processes with `for_good` need copies: add [standby], and a step `destroy`"
                )
            case steps.Crash(broker=broker) if broker not in self._run.network.running:
                self._run.refuse(step, f"broker {broker} is not running; it may have left")
            case steps.Crash(broker=broker):
                self._run.record(RecordKind.FAULT, broker, detail=self._run.faults.outage("crash", f"crash {broker}"))
                self._crashed.add(broker)
                await self._run.network.kill(broker)
            case steps.Restart(broker=broker) if broker not in self._crashed:
                self._run.refuse(step, f"broker {broker} is not down")
            case steps.Restart(broker=broker):
                await self._restart(step, broker)
            case steps.Destroy():
                await self._destroy(step)
            case steps.Partition():
                await self._partition(step)
            case steps.Cut(link=link) | steps.Heal(link=link) | steps.Slow(link=link):
                self._change_link(step, link)

    async def _restart(self, step: steps.Restart, broker: Node) -> None:
        network = self._run.network
        if not network.has_machine(broker):
            self._run.refuse(step, f"the machine of {broker} was destroyed")
            return
        self._run.record(RecordKind.FAULT, broker, detail="restart")
        self._crashed.discard(broker)
        if network.home_of(broker) == broker:  # elsewhere its host has done so
            await network.start_broker(broker)
        self._run.faults.ends(f"crash {broker}")

    async def _destroy(self, step: steps.Destroy) -> None:
        """All brokers have their copies first, which takes as long as it takes; machines of one moment go together."""
        network = self._run.network
        if self._run.scenario.standby is None:
            self._run.refuse(step, "there are no copies elsewhere: add [standby]")
            return
        if step.at != self._destroyed_at:
            await network.until_ready()
        self._destroyed_at = step.at
        machine = step.machine or network.home_of(step.broker)
        if not network.has_machine(machine):
            self._run.refuse(step, f"there is no machine {machine} any more")
            return
        self._run.record(RecordKind.FAULT, step.broker or machine, detail=f"destroy {machine}")
        await network.destroy(machine)

    async def _partition(self, step: steps.Partition) -> None:
        switch, held = self._run.network.switch, self._held(step)
        name = f"partition {step.told}"
        self._run.record(RecordKind.FAULT, NETWORK, detail=self._run.faults.outage(name, name))
        for sender, receiver in held:
            switch.link(sender, receiver).hold(sender)
        try:
            await asyncio.sleep(step.seconds)
        finally:
            self._run.record(RecordKind.FAULT, NETWORK, detail=self._run.faults.outage_over(f"end of {name}", name))
            for sender, receiver in held:
                switch.link(sender, receiver).release(sender)

    def _held(self, step: steps.Partition) -> list[tuple[Node, Node]]:
        """Sender and receiver of whatever does not pass; a single side is cut off from all others."""
        network = self._run.network
        sides = [[network.home_of(name) for name in side] for side in step.sides]
        if len(sides) == 1:
            sides.append([node for node in network.nodes if node not in sides[0]])
        pairs = [pair for one, other in combinations(sides, 2) for pair in product(one, other) if len({*pair}) > 1]
        return pairs if step.one_way else [*pairs, *((b, a) for a, b in pairs)]

    def _told_of_link(self, step: LinkStep, ends: tuple[Node, Node]) -> str:
        """The detail of the record."""
        faults, name = self._run.faults, f"cut {'-'.join(sorted(ends))}"
        match step:
            case steps.Cut():
                return faults.outage("cut", name)
            case steps.Heal():
                return faults.outage_over("heal", name)
            case steps.Slow():
                return "slow"

    def _change_link(self, step: LinkStep, ends: tuple[Node, Node]) -> None:
        link = self._run.network.link(*ends)
        if link is None:
            self._run.refuse(step, f"there is no link {ends[0]}-{ends[1]}")
            return
        self._run.record(RecordKind.FAULT, NETWORK, peer="-".join(ends), detail=self._told_of_link(step, ends))
        match step:
            case steps.Cut():
                link.cut()
            case steps.Heal():
                link.heal()
            case steps.Slow(latency=latency):
                link.latency = (latency.low, latency.high)
