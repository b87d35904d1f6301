"""The brokers of a scenario as processes of their own, with a proxy in every link.

    client ──▶ proxy ──▶ broker process a ──▶ proxy ──▶ broker process b …

A crash is `kill -9`; a broker that is restarted finds its data directory and takes new ports, which the proxies learn.
Whatever was started is stopped, whatever happens in between.
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
from pleach.harness.proxy import Front, LinkProxy
from pleach.net.addresses import Address, one_address
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
DOORS = ("peer", "client")
NO_ZONES: Mapping[Node, str] = MappingProxyType({})
NOWHERE = ("127.0.0.1", 1)  # the target of a link whose broker is not up


class Ready(msgspec.Struct, frozen=True):
    """The line that a broker prints once it listens."""

    name: str
    client: str
    peer: str
    admin: str


class LiveNetwork:
    """`zones`: where brokers stand, as far as anybody cares; it only shows."""

    def __init__(self, scenario: Scenario, directory: Path, zones: Mapping[Node, str] = NO_ZONES) -> None:
        self.scenario = scenario
        self._zones = zones
        self._directory = directory
        self._tree: BrokerTree = tree_of(scenario)
        self._processes: dict[Node, asyncio.subprocess.Process] = {}
        self._ready: dict[Node, Ready] = {}
        self._proxies: dict[tuple[Node, Node], LinkProxy] = {}  # by (dialler, target)
        self._fronts: dict[tuple[Node, str], Front] = {}  # by broker and door
        self.directory = Directory({}, {})  # of brokers that run, or will again

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
        clients = ((client.id, client.broker) for client in self.scenario.clients)
        for dialler, target in (*self.scenario.links, *clients):
            await self._link(dialler, target).start()
        await asyncio.gather(*(self.start_broker(broker) for broker in self.scenario.brokers))
        await self.until_ready()

    def _link(self, dialler: Node, target: Node) -> LinkProxy:
        """The link between two nodes; a link that is new has the latency that the scenario gives it."""
        known = self.proxy(dialler, target)
        if known is not None:
            return known
        span = self.scenario.latency.of(dialler, target)
        proxy = LinkProxy(NOWHERE, (span.low, span.high), f"{self.scenario.name}/{dialler}>{target}")
        self._proxies[dialler, target] = proxy
        return proxy

    def _place(self, dialler: Node, target: Node) -> tuple[str, int]:
        """Where a node listens for another one; a broker that is down listens nowhere."""
        if target not in self._processes or target not in self._ready:
            return NOWHERE
        ready = self._ready[target]
        return one_address(ready.peer if self._is_broker(dialler) else ready.client)

    def _is_broker(self, node: Node) -> bool:
        return node in self._tree.parent or node in self.directory.admin

    # Brokers -------------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[Node]:
        """Those that listen; one that is just being started does not yet, and cannot be asked."""
        return sorted(broker for broker in self._processes if broker in self._ready)

    @property
    def members(self) -> list[Node]:
        """Brokers of the network, running or not."""
        return sorted(self.directory.admin)

    async def start_broker(self, broker: Node) -> None:
        """Start a process and wait until it listens."""
        for door in DOORS:
            if (broker, door) not in self._fronts:
                self._fronts[broker, door] = Front(lambda who: (self._link(who, broker), self._place(who, broker)))
                await self._fronts[broker, door].start()
        log = (self._directory / f"{broker}.log").open("ab")
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command(broker),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, **self._environment()},
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
        self.directory.peer[broker] = self._front(broker, "peer")
        for (dialler, target), proxy in self._proxies.items():
            if target == broker:
                proxy.target = self._place(dialler, target)

    def _command(self, broker: Node) -> list[str]:
        scenario = self.scenario
        command = [sys.executable, "-m", "pleach", "broker", "--name", broker, "--routing", scenario.routing.value]
        command += ["--client-listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        command += ["--ordering", scenario.ordering.value, "--exchange", scenario.exchange]
        joining = [step.broker for step in scenario.steps if isinstance(step, steps.AddBroker) and step.to == broker]
        command += [word for name in joining for word in ("--welcome", name)]
        command += ["--data-dir", str(self._directory / broker)]
        command += ["--advertise", self._front(broker, "peer"), "--client-advertise", self._front(broker, "client")]
        command += ["--hierarchical"] if scenario.hierarchical else []
        command += ["--advertisements"] if scenario.advertisements else []
        command += self._lease_flags()
        command += ["--zone", self._zones[broker]] if broker in self._zones else []
        command += ["--merge-bound", str(scenario.merge_bound)] if scenario.merge_bound else []
        parent = self._tree.parent.get(broker)
        command += ["--parent", parent] if self._has_root and parent is not None else []
        for neighbour in self._tree.neighbours.get(broker, ()):
            if (broker, neighbour) in self._proxies:
                command += ["--peer", f"{neighbour}={self.address(broker, neighbour)}"]
            else:
                command += ["--neighbour", neighbour]
        return command

    @property
    def _has_root(self) -> bool:
        stabilise = self.scenario.stabilise
        return self.scenario.hierarchical or (stabilise is not None and stabilise.kind.rebuilds)

    def _environment(self) -> dict[str, str]:
        """What has no flag."""
        improve = self.scenario.improve
        given = msgspec.structs.asdict(improve) if improve else {}
        return {f"{TABLES['improve'][0]}{key.upper()}": str(value) for key, value in given.items()}

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
        for (_, target), proxy in self._proxies.items():
            if target == broker:
                proxy.target = NOWHERE

    async def discard(self, broker: Node) -> None:
        """A broker could not join: it is of no use."""
        await self.kill(broker)
        del self.directory.admin[broker], self.directory.peer[broker]

    async def see_off(self, broker: Node) -> None:
        """A broker was removed from the tree: its process ends by itself."""
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
        for front in self._fronts.values():
            await front.stop()
        for proxy in self._proxies.values():
            await proxy.stop()

    # Links ---------------------------------------------------------------------------------------------------

    def address(self, dialler: Node, target: Node) -> str:
        """Where `dialler` finds `target`: at the proxy between them."""
        return str(Address(*self._proxies[dialler, target].address))

    def _front(self, broker: Node, door: str) -> str:
        return str(Address(*self._fronts[broker, door].address))

    def proxy(self, a: Node, b: Node) -> LinkProxy | None:
        return self._proxies.get((a, b)) or self._proxies.get((b, a))

    # Looking in ----------------------------------------------------------------------------------------------

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
