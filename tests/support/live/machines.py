"""Machines of brokers that can be destroyed: each is a loopback address, a folder, and a group of processes.

A machine starts as a broker, or as a host of copies (`pleach standby`); later brokers run there that were promoted, as
processes that its first one has started. What is left of it once it is destroyed is its log.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pleach.core.overlay.plans import Plan, PlanOutcome
from pleach.harness.live_machine import LiveMachine
from pleach.harness.switch import Switch
from pleach.net import dial
from pleach.net.addresses import host_of
from pleach.operate.apply import Directory, apply_plan
from pleach.operate.survey import Survey, settled_survey, survey
from pleach.server import crash_hook
from support.ports import free_ports

WHOLE_SECONDS_MAX = 120.0
STEP_SECONDS_MAX = 90.0
POLL_SECONDS = 0.2
FIRST_NETWORK, NETWORKS = 10, 200  # 127.10.0.0/16 and so on: processes that test at the same time use different ones
MACHINES_PER_NETWORK = 250
DOORS = {"broker": ("client", "peer", "admin"), "standby": ("peer", "admin")}  # by command


@dataclass
class Everywhere(Directory):
    """An operator's, who asks at machines, too: all brokers may have run on the one that was lost."""

    machines: Machines

    async def refresh(self) -> None:
        found = Directory.of(await self.machines.survey())
        self.admin.update(found.admin)
        self.peer.update(found.peer)


@dataclass
class Machine:
    live: LiveMachine
    host: str  # its address, without a port
    ports: dict[str, str]  # addresses of its first process
    arguments: Sequence[str] = ()


class Machines:
    """`settings`: flags of all brokers. `environment`: of all processes. `switch`: through which they dial, if any."""

    def __init__(self, place: Path, *settings: str, switch: Switch | None = None, **environment: str) -> None:
        self._place = place
        self._settings = settings
        self._environment = {"PLEACH_HEARTBEAT": "0.5", **environment}
        self._made = 0
        self.switch = switch
        self.moments: Path | None = None  # a folder with a file for each machine that says when to crash
        self.all: dict[str, Machine] = {}
        self._seen: dict[str, str] = {}  # operators' ports of brokers, when they answered last

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await asyncio.gather(*(machine.live.kill_all() for machine in self.all.values()))

    # Machines ------------------------------------------------------------------------------------------------

    async def grow(self, links: Sequence[tuple[str, str]], zones: Mapping[str, str]) -> None:
        """Start a tree of brokers; of a link's two brokers the first one dials."""
        names = sorted({name for link in links for name in link})
        for name in names:
            self._make(name)
        for name in names:
            peers = [f"--peer={there}={self.all[there].ports['peer']}" for here, there in links if here == name]
            neighbours = [f"--neighbour={here}" for here, there in links if there == name]
            zone = [f"--zone={zones[name]}"] if name in zones else []
            self.all[name].arguments = ["broker", *self._settings, *peers, *neighbours, *zone]
        await asyncio.gather(*map(self.start, names))

    async def add_broker(self, name: str, *arguments: str) -> None:
        self._make(name).arguments = ["broker", *self._settings, *arguments]
        await self.start(name)

    async def add_host(self, name: str, zone: str = "") -> None:
        """A machine without a broker, which is told where the brokers are."""
        found = await self.survey()
        known = ",".join(status.addresses.peer for status in found.found.values())
        self._make(name).arguments = ["standby", f"--join={known}", *([f"--zone={zone}"] if zone else [])]
        await self.start(name)

    def _make(self, name: str) -> Machine:
        host = self._host_of(name)
        ports = dict(zip(DOORS["broker"], (f"{host}:{port}" for port in free_ports(3)), strict=True))
        self.all[name] = Machine(LiveMachine(name, self._place / name), host, ports)
        return self.all[name]

    def _host_of(self, name: str) -> str:
        if self.switch is not None:
            return self.switch.host_of(name)
        network, number = divmod(self._made, MACHINES_PER_NETWORK)
        self._made += 1
        return f"127.{FIRST_NETWORK + os.getpid() % NETWORKS}.{network}.{1 + number}"

    async def start(self, name: str) -> None:
        """Start a machine's first process, also again."""
        machine = self.all[name]
        kind, *arguments = machine.arguments
        command = [sys.executable, "-m", "pleach", kind, f"--name={name}"]
        command += [f"--{door}-listen={machine.ports[door]}" for door in DOORS[kind]]
        command += [f"--data-dir={machine.live.folder}", *arguments]
        own = {} if self.switch is None else {dial.VARIABLE: str(self.switch.port_for(name))}
        own |= {} if self.moments is None else {crash_hook.VARIABLE: f"@{self.moments / name}"}
        line = await machine.live.start(command, {**self._environment, **own})
        assert msgspec.json.decode(line)["ready"], machine.live.log.read_text()

    async def destroy(self, name: str) -> None:
        await self.all.pop(name).live.destroy()

    # What runs where -----------------------------------------------------------------------------------------

    def _asked(self) -> list[str]:
        """Where operators ask: where brokers were seen last, and at first processes; neighbours tell of others."""
        first = [machine.ports["admin"] for machine in self.all.values() if machine.live.is_running]
        promoted = [address for address in self._seen.values() if self.machine_of(address)]
        return [*first, *promoted, *self._told()]

    def _told(self) -> list[str]:
        """What processes of promoted brokers have left in their folders."""
        found = [file for machine in self.all.values() for file in machine.live.folder.glob("standby/*/ready.json")]
        return [msgspec.json.decode(file.read_bytes())["admin"] for file in found]

    async def survey(self) -> Survey:
        return self._note(await survey(self._asked()))

    async def settled_survey(self) -> Survey:
        return self._note(await settled_survey(self._asked()))

    def _note(self, found: Survey) -> Survey:
        self._seen |= found.admin
        return found

    async def apply(self, plan: Plan) -> PlanOutcome:
        """Carry out a plan while brokers may be promoted elsewhere, perhaps all that the operator knows of."""
        directory = Everywhere({}, {}, self)
        await directory.refresh()
        return await apply_plan(plan, directory, seconds_max=STEP_SECONDS_MAX)

    def machine_of(self, address: str) -> str:
        """The machine that has this address; empty if it is gone."""
        host = host_of(address)
        return next((name for name, machine in self.all.items() if machine.host == host), "")

    def copy_of(self, found: Survey, broker: str) -> str:
        """The machine with a broker's first copy besides its own."""
        copies = found.found[broker].raw["standby"]["copies"]
        return self.machine_of(next(iter(copies.values()))["address"])

    def client_address(self, name: str) -> str:
        return f"pleach://{self.all[name].ports['client']}"

    async def present_client_address(self, broker: str) -> str:
        return f"pleach://{(await self.survey()).found[broker].addresses.client}"

    async def until_whole(self, brokers: Sequence[str] = ()) -> Survey:
        """All brokers are there, in one tree, and each has its copies."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WHOLE_SECONDS_MAX
        while True:
            found = await self.survey()
            reasons = list(missing(found, brokers))
            if not reasons:
                return found
            assert loop.time() < deadline, f"it does not become whole: {'; '.join(reasons)}"
            await asyncio.sleep(POLL_SECONDS)

    async def until_settled(self, *, seconds: float) -> Survey:
        """Whole, and no view has changed for so long, nor is about to: what the survey says of members is still so."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WHOLE_SECONDS_MAX
        found = await self.until_whole()
        since = loop.time()
        while loop.time() < since + seconds or _is_changing(found):
            assert loop.time() < deadline, f"views go on changing: {_views(found)}"
            await asyncio.sleep(POLL_SECONDS)
            earlier, found = found, await self.until_whole()
            if _views(found) != _views(earlier):
                since = loop.time()
        return found


def _views(found: Survey) -> dict[str, int]:
    return {name: status.raw["standby"]["view"] for name, status in found.found.items()}


def _is_changing(found: Survey) -> bool:
    standbys = [status.raw["standby"] for status in found.found.values()]
    return any(standby["filling"] or standby["moving"] for standby in standbys)


def missing(found: Survey, brokers: Sequence[str]) -> list[str]:
    """Why the network is not whole, or not in one tree."""
    reasons = [
        f"{name} does not answer: {found.unreachable.get(name, '')}" for name in brokers if name not in found.found
    ]
    for name, status in sorted(found.found.items()):
        reasons += [f"{name}: {reason}" for reason in status.reasons]
        if not (status.raw["standby"] or {}).get("covered"):
            reasons.append(f"{name}: standby {status.raw['standby']}")
    unknown = {other for status in found.found.values() for other in status.neighbours} - {*found.found}
    reasons += [f"{name} does not answer" for name in sorted(unknown)]
    return [*reasons, *found.disagreements()]


def standby_flags(after: float, copies: int = 2) -> list[str]:
    return [f"--standby-after={after:g}", f"--copies={copies}"]
