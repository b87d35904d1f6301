"""The brokers of a scenario as processes of their own, each on a machine of its own, and a switch between all of them.

    client ──▶ switch ──▶ broker process a ──▶ switch ──▶ broker process b …

A machine is a loopback address, a folder, and a group of processes. A crash is `kill -9`; a restarted broker
has its data directory and new ports, which the switch learns. With [standby] a machine may be destroyed, folder and
all: its brokers then run on other machines, and are found there by what their neighbours say of them. Everything that
was started is stopped, also after an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import msgspec

from pleach.core.messages import Node
from pleach.errors import LiveError, UnreachableError
from pleach.harness.live_machine import STOP_SECONDS_MAX, LiveMachine
from pleach.harness.switch import Link, Switch
from pleach.net.addresses import Address, host_of, one_address
from pleach.net.dial import VARIABLE
from pleach.net.http_client import ask
from pleach.operate.apply import Directory
from pleach.operate.survey import survey
from pleach.scenario import steps
from pleach.scenario.machines import BrokerTree, tree_of
from pleach.scenario.model import Scenario
from pleach.server.settings import TABLES
from pleach.server.stabilise_settings import StabiliseKind
from pleach.server.standby.registers import broker_folder

READY_SECONDS_MAX = 120.0
POLL_SECONDS = 0.05
PEER_PORT, CLIENT_PORT = 1, 2  # advertised ones, at which nobody listens: the switch knows the present ones
PID = "pid"  # in the folder of a broker that was promoted on a machine: of its process
NO_ZONES: Mapping[Node, str] = MappingProxyType({})
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


class Ready(msgspec.Struct, frozen=True):
    """The line that a broker prints once it listens."""

    name: str
    client: str  # empty: the broker runs on another machine by now, and this one holds copies
    peer: str
    admin: str


class HostReady(msgspec.Struct, frozen=True):
    """The line that a host of copies prints once it listens."""

    name: str
    peer: str
    admin: str = ""


class LiveNetwork:
    """`zones`: of brokers. `settings`: of all processes, besides what the scenario says, as in an environment."""

    def __init__(
        self,
        scenario: Scenario,
        directory: Path,
        zones: Mapping[Node, str] = NO_ZONES,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        self.scenario = scenario
        self._zones = zones
        self._settings = settings
        self._directory = directory
        self._tree: BrokerTree = tree_of(scenario)
        self._machines: dict[Node, LiveMachine] = {}
        self._client_places: dict[Node, Address] = {}
        self._hosts: set[Node] = set()  # machines that began without a broker
        self._ready: dict[Node, Ready] = {}  # brokers that listen, as far as is known
        self.switch = Switch(self._latency_of, scenario.name)
        self.directory = Directory({}, {})  # of all brokers of the network, running or not

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _start(self) -> None:
        await self.switch.start()
        await asyncio.gather(*(self.start_broker(broker) for broker in self.scenario.brokers))
        hosts = self.scenario.standby.machines if self.scenario.standby else ()
        await asyncio.gather(*(self.start_host(name) for name in hosts))
        await self.until_ready()

    async def stop(self) -> None:
        machines = list(self._machines.values())
        self._machines.clear()
        await asyncio.gather(*(machine.stop() for machine in machines))
        await self.switch.stop()

    # Machines ------------------------------------------------------------------------------------------------

    def _machine(self, name: Node) -> LiveMachine:
        return self._machines.setdefault(name, LiveMachine(name, self._directory / name))

    async def start_broker(self, broker: Node) -> None:
        """Start the process of a broker's own machine, and wait until it listens."""
        line = await self._machine(broker).start(self._command(broker), self._environment(broker))
        try:
            self._listens(msgspec.json.decode(line, type=Ready))
        except msgspec.DecodeError:
            raise LiveError(f"broker {broker} did not start; see {self._machine(broker).log}") from None

    def _listens(self, ready: Ready) -> None:
        """A broker's own machine has started, and the broker with it, unless that runs elsewhere by now."""
        broker = ready.name
        self.switch.listens(self._advertised(broker, PEER_PORT), one_address(ready.peer))
        self.switch.listens(self._advertised(broker, CLIENT_PORT), self._client_place(broker))
        if not ready.client:
            return
        self._ready[broker] = ready
        self.directory.admin[broker] = ready.admin
        self.directory.peer[broker] = str(self._advertised(broker, PEER_PORT))

    def _client_place(self, broker: Node) -> Address:
        """Where a broker's own machine listens for clients, also when the broker comes back to it later."""
        if broker not in self._client_places:
            host = self.switch.host_of(broker)
            with socket.socket() as probe:
                probe.bind((host, 0))
                self._client_places[broker] = Address(host, probe.getsockname()[1])
        return self._client_places[broker]

    async def start_host(self, name: Node) -> None:
        """Start a machine without a broker."""
        own = Address(self.switch.host_of(name), 0)
        command = [sys.executable, "-m", "pleach", "standby", "--name", name]
        command += [f"--{port}-listen={own}" for port in ("peer", "admin")]
        command += [f"--advertise={self._advertised(name, PEER_PORT)}"]
        command += ["--data-dir", str(self._directory / name)]
        command += ["--join", ",".join(self.directory.peer.values())]
        command += ["--zone", self._zones[name]] if name in self._zones else []
        self._hosts.add(name)
        line = await self._machine(name).start(command, self._environment(name))
        ready = msgspec.json.decode(line, type=HostReady)
        self.switch.listens(self._advertised(name, PEER_PORT), one_address(ready.peer))

    def _command(self, broker: Node) -> list[str]:
        scenario = self.scenario
        command = [sys.executable, "-m", "pleach", "broker", "--name", broker, "--routing", scenario.routing.value]
        own = Address(self.switch.host_of(broker), 0)
        command += [f"--{port}-listen={own}" for port in ("peer", "admin")]
        command += [f"--client-listen={self._client_place(broker)}"]
        command += ["--ordering", scenario.ordering.value, "--exchange", scenario.exchange]
        joining = [step.broker for step in scenario.steps if isinstance(step, steps.AddBroker) and step.to == broker]
        command += [word for name in joining for word in ("--welcome", name)]
        command += ["--data-dir", str(self._directory / broker)]
        command += [f"--advertise={self._advertised(broker, PEER_PORT)}"]
        command += [f"--client-advertise={self._advertised(broker, CLIENT_PORT)}"]
        command += ["--hierarchical"] if scenario.hierarchical else []
        command += ["--advertisements"] if scenario.advertisements else []
        command += self._lease_flags()
        command += ["--zone", self._zones[broker]] if broker in self._zones else []
        command += ["--merge-bound", str(scenario.merge_bound)] if scenario.merge_bound else []
        parent = self._tree.parent.get(broker)
        command += ["--parent", parent] if self._has_root and parent is not None else []
        for neighbour in self._tree.neighbours.get(broker, ()):
            if (broker, neighbour) in self.scenario.links:
                command += ["--peer", f"{neighbour}={self._advertised(neighbour, PEER_PORT)}"]
            else:
                command += ["--neighbour", neighbour]
        return command

    @property
    def _has_root(self) -> bool:
        stabilise = self.scenario.stabilise
        return self.scenario.hierarchical or (stabilise is not None and stabilise.kind.rebuilds)

    def _environment(self, machine: Node) -> dict[str, str]:
        """Settings that have no flag, and how to dial."""
        improve, standby = self.scenario.improve, self.scenario.standby
        given = {"improve": msgspec.structs.asdict(improve)} if improve else {}
        given |= {"standby": {"after": standby.after, "copies": standby.copies}} if standby else {}
        settings = {
            f"{TABLES[table][0]}{key.upper()}": str(value)
            for table, values in given.items()
            for key, value in values.items()
        }
        return {**settings, **self._settings, VARIABLE: str(self.switch.port_for(machine))}

    def _lease_flags(self) -> list[str]:
        stabilise = self.scenario.stabilise
        if stabilise is None:
            return []
        kind = StabiliseKind.REBUILD if stabilise.kind.rebuilds else StabiliseKind.LEASES
        flags = ["--stabilise", kind.value, "--refresh", str(stabilise.refresh), "--period", str(stabilise.period)]
        is_struck = any(isinstance(step, steps.Corrupt | steps.Garble) for step in self.scenario.steps)
        return [*flags, *(["--debug-faults"] if is_struck else [])]

    # Brokers -------------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[Node]:
        """Brokers that listen; one that is just being started does not yet."""
        return sorted(self._ready)

    @property
    def members(self) -> list[Node]:
        """Brokers of the network, running or not."""
        return sorted(self.directory.admin)

    def home_of(self, broker: Node) -> Node:
        """The machine where a broker runs, or ran when it was last seen; a machine's name stands for itself."""
        host = host_of(self.directory.admin.get(broker, ""))
        return next((name for name in self._machines if self.switch.host_of(name) == host), broker)

    async def locate(self) -> None:
        """Find out where brokers run now."""
        if self.scenario.standby is None:
            return
        found = await survey([*self.directory.admin.values()])
        for broker, status in found.found.items():
            if broker in self.directory.admin and self.directory.admin[broker] != found.admin[broker]:
                places = status.addresses
                self._ready[broker] = Ready(broker, places.client, places.peer, found.admin[broker])
                self.directory.admin[broker], self.directory.peer[broker] = found.admin[broker], places.peer
        for broker in [each for each in self._ready if each not in found.found]:
            del self._ready[broker]

    async def kill(self, broker: Node) -> None:
        """`kill -9` of its process. One that was promoted is started again by its host."""
        home = self.home_of(broker)
        self._ready.pop(broker, None)
        if home != broker:
            with contextlib.suppress(OSError, ValueError):
                pid = broker_folder(self._directory / home, broker) / PID
                os.kill(int(pid.read_text()), signal.SIGKILL)
            return
        await self._machines[broker].kill()
        self._listens_no_more(broker)

    def _listens_no_more(self, machine: Node) -> None:
        for port in (PEER_PORT, CLIENT_PORT):
            self.switch.listens(self._advertised(machine, port), None)

    async def destroy(self, machine: Node) -> list[Node]:
        """A machine is gone for good, with all that it has on disk; returns the brokers that ran there."""
        lost = [broker for broker in self.running if self.home_of(broker) == machine]
        for broker in lost:
            del self._ready[broker]
        await self._machines.pop(machine).destroy()
        self._listens_no_more(machine)
        return lost

    def drop(self, broker: Node) -> None:
        """A broker is none of the network any more."""
        self.directory.admin.pop(broker, None)
        self.directory.peer.pop(broker, None)
        self._ready.pop(broker, None)

    def has_machine(self, name: Node) -> bool:
        return name in self._machines

    @property
    def machines(self) -> dict[Node, LiveMachine]:
        return dict(self._machines)

    async def start_again(self, machine: Node) -> None:
        """Start the first process of a machine that has stopped, with what is on its disk."""
        start = self.start_host if machine in self._hosts else self.start_broker
        await start(machine)

    async def halt(self, machine: Node) -> None:
        """All processes of a machine end in good order, as far as that goes."""
        self._leaves(machine)
        await self._machines[machine].stop()

    async def lose_power(self, machine: Node) -> None:
        """`kill -9` of all processes of a machine; its disk stays."""
        self._leaves(machine)
        await self._machines[machine].kill_all()

    def _leaves(self, machine: Node) -> None:
        for broker in [broker for broker in self._ready if self.home_of(broker) == machine]:
            del self._ready[broker]
        self._listens_no_more(machine)

    async def discard(self, broker: Node) -> None:
        """End a broker that could not join."""
        await self.kill(broker)
        del self.directory.admin[broker], self.directory.peer[broker]

    async def await_end(self, broker: Node) -> None:
        """Wait for the process of a broker that was removed from the tree; it ends by itself."""
        home = self.home_of(broker)
        if home == broker:
            code = await self._machines[broker].ended()
            if code:
                raise LiveError(f"broker {broker} was removed and ended with {code}; see {self._machines[broker].log}")
        else:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                while await self.answers(broker):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(POLL_SECONDS)
        self._ready.pop(broker, None)
        del self.directory.admin[broker], self.directory.peer[broker]

    # Links ---------------------------------------------------------------------------------------------------

    def client_address(self, broker: Node) -> str:
        """Where clients find a broker first, through the switch."""
        return str(self._advertised(broker, CLIENT_PORT))

    def _advertised(self, broker: Node, port: int) -> Address:
        return Address(self.switch.host_of(broker), port)

    def link(self, a: Node, b: Node) -> Link | None:
        """The link between two nodes, if they have ever been connected: for brokers, between their machines."""
        ends = self.home_of(a), self.home_of(b)
        return self.switch.link(*ends) if self.switch.has_carried(*ends) else None

    def _latency_of(self, a: Node, b: Node) -> tuple[float, float]:
        span = self.scenario.latency.of(a, b)
        return span.low, span.high

    @property
    def nodes(self) -> list[Node]:
        """All that the switch connects: machines and clients."""
        return [*self._machines, *(client.id for client in self.scenario.clients)]

    # Status ----------------------------------------------------------------------------------------------

    async def status(self, broker: Node) -> dict[str, Any]:
        answer = await ask(self._ready[broker].admin, "/status")
        status: dict[str, Any] = answer.value
        return status

    async def answers(self, broker: Node) -> bool:
        with contextlib.suppress(UnreachableError):
            await ask(self.directory.admin[broker], "/status")
            return True
        return False

    async def until_ready(self) -> None:
        """Wait until all links of the brokers that run are up; with [standby], all brokers run, and have copies."""
        async with asyncio.timeout(READY_SECONDS_MAX):
            while not await self._are_ready():  # noqa: ASYNC110 - other processes
                await asyncio.sleep(POLL_SECONDS)

    async def _are_ready(self) -> bool:
        await self.locate()
        if self.scenario.standby is not None and self.running != self.members:
            return False
        try:
            found = await asyncio.gather(*(self.status(broker) for broker in self.running))
        except UnreachableError:
            if self.scenario.standby is None:
                raise
            return False
        has_copies = self.scenario.standby is None or all(status["standby"]["covered"] for status in found)
        return has_copies and all(status["ready"] for status in found)
