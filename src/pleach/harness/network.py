"""The brokers of a scenario as processes of their own, each on a machine of its own, and a switch between all of them.

    client ──▶ switch ──▶ broker process a ──▶ switch ──▶ broker process b …

A machine is a loopback address, a data directory, and the processes of one session. A crash is `kill -9`; a restarted
broker has its data directory and new ports, which the switch learns. Everything that was started is stopped, also after
an error.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import msgspec

from pleach.core.messages import Node
from pleach.errors import LiveError
from pleach.harness.switch import Link, Switch
from pleach.net.addresses import Address, one_address
from pleach.net.dial import VARIABLE
from pleach.net.http_client import ask
from pleach.operate.apply import Directory
from pleach.scenario import steps
from pleach.scenario.machines import BrokerTree, tree_of
from pleach.scenario.model import Scenario
from pleach.server.settings import TABLES
from pleach.server.stabilise_settings import StabiliseKind

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 15.0
POLL_SECONDS = 0.05
PEER_PORT, CLIENT_PORT = 1, 2  # advertised ones, at which nobody listens: the switch knows the present ones
NO_ZONES: Mapping[Node, str] = MappingProxyType({})


class Ready(msgspec.Struct, frozen=True):
    """The line that a broker prints once it listens."""

    name: str
    client: str
    peer: str
    admin: str


class LiveNetwork:
    """`zones`: of brokers, for display only."""

    def __init__(self, scenario: Scenario, directory: Path, zones: Mapping[Node, str] = NO_ZONES) -> None:
        self.scenario = scenario
        self._zones = zones
        self._directory = directory
        self._tree: BrokerTree = tree_of(scenario)
        self._processes: dict[Node, asyncio.subprocess.Process] = {}
        self._ready: dict[Node, Ready] = {}
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
        await self.until_ready()

    def _latency_of(self, a: Node, b: Node) -> tuple[float, float]:
        span = self.scenario.latency.of(a, b)
        return span.low, span.high

    # Brokers -------------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[Node]:
        """Brokers that listen; one that is just being started does not yet."""
        return sorted(broker for broker in self._processes if broker in self._ready)

    @property
    def members(self) -> list[Node]:
        """Brokers of the network, running or not."""
        return sorted(self.directory.admin)

    async def start_broker(self, broker: Node) -> None:
        """Start a process and wait until it listens."""
        log = (self._directory / f"{broker}.log").open("ab")
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command(broker),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, **self._environment(broker)},
            )
        finally:
            log.close()
        self._processes[broker] = process
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS_MAX):
                line = await process.stdout.readline()
            ready = msgspec.json.decode(line, type=Ready)
        except (TimeoutError, msgspec.DecodeError):
            raise LiveError(f"broker {broker} did not start; see {self._directory / broker}.log") from None
        self._ready[broker] = ready
        self.directory.admin[broker] = ready.admin
        self.directory.peer[broker] = str(self._advertised(broker, PEER_PORT))
        self.switch.listens(self._advertised(broker, PEER_PORT), one_address(ready.peer))
        self.switch.listens(self._advertised(broker, CLIENT_PORT), one_address(ready.client))

    def _command(self, broker: Node) -> list[str]:
        scenario = self.scenario
        command = [sys.executable, "-m", "pleach", "broker", "--name", broker, "--routing", scenario.routing.value]
        own = Address(self.switch.host_of(broker), 0)
        command += [f"--{port}-listen={own}" for port in ("client", "peer", "admin")]
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
        """Settings that have no flag."""
        improve = self.scenario.improve
        given = msgspec.structs.asdict(improve) if improve else {}
        settings = {f"{TABLES['improve'][0]}{key.upper()}": str(value) for key, value in given.items()}
        return {**settings, VARIABLE: str(self.switch.port_for(machine))}

    def _lease_flags(self) -> list[str]:
        stabilise = self.scenario.stabilise
        if stabilise is None:
            return []
        kind = StabiliseKind.REBUILD if stabilise.kind.rebuilds else StabiliseKind.LEASES
        flags = ["--stabilise", kind.value, "--refresh", str(stabilise.refresh), "--period", str(stabilise.period)]
        is_struck = any(isinstance(step, steps.Corrupt | steps.Garble) for step in self.scenario.steps)
        return [*flags, *(["--debug-faults"] if is_struck else [])]

    async def kill(self, broker: Node) -> None:
        """`kill -9`."""
        process = self._processes.pop(broker)
        self._ready.pop(broker, None)
        process.kill()
        await process.wait()
        for port in (PEER_PORT, CLIENT_PORT):
            self.switch.listens(self._advertised(broker, port), None)

    async def discard(self, broker: Node) -> None:
        """End a broker that could not join."""
        await self.kill(broker)
        del self.directory.admin[broker], self.directory.peer[broker]

    async def await_end(self, broker: Node) -> None:
        """Wait for the process of a broker that was removed from the tree; it ends by itself."""
        process = self._processes[broker]
        async with asyncio.timeout(STOP_SECONDS_MAX):
            code = await process.wait()
        if code:
            raise LiveError(f"broker {broker} was removed and ended with {code}; see {self._directory / broker}.log")
        del self._processes[broker], self.directory.admin[broker], self.directory.peer[broker]

    async def stop(self) -> None:
        processes = list(self._processes.values())
        self._processes.clear()
        for process in processes:
            if process.returncode is None:
                process.terminate()
        await asyncio.gather(*(_ended(process) for process in processes))
        await self.switch.stop()

    # Links ---------------------------------------------------------------------------------------------------

    def client_address(self, broker: Node) -> str:
        """Where clients find a broker, through the switch."""
        return str(self._advertised(broker, CLIENT_PORT))

    def _advertised(self, broker: Node, port: int) -> Address:
        return Address(self.switch.host_of(broker), port)

    def link(self, a: Node, b: Node) -> Link | None:
        """The link between two nodes, if they have ever been connected."""
        return self.switch.link(a, b) if self.switch.has_carried(a, b) else None

    # Status ----------------------------------------------------------------------------------------------

    async def status(self, broker: Node) -> dict[str, Any]:
        answer = await ask(self._ready[broker].admin, "/status")
        status: dict[str, Any] = answer.value
        return status

    async def until_ready(self) -> None:
        """Wait until all links of the brokers that run are up."""
        async with asyncio.timeout(START_SECONDS_MAX):
            for broker in self.running:
                while not (await self.status(broker))["ready"]:  # noqa: ASYNC110 - it is another process that changes
                    await asyncio.sleep(POLL_SECONDS)


async def _ended(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
