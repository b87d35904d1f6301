"""The brokers of a scenario as processes of their own, with a proxy in every link.

    client ──▶ proxy ──▶ broker process a ──▶ proxy ──▶ broker process b …

A crash is `kill -9`; a broker that is restarted finds its data directory and takes new ports, which the proxies learn.
Whatever was started is stopped, whatever happens in between.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from pleach.errors import LiveError
from pleach.live.proxy import LinkProxy
from pleach.messages import Node
from pleach.scenario import steps
from pleach.scenario.assemble import Tree, tree_of
from pleach.scenario.model import Scenario

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 15.0
POLL_SECONDS = 0.05
ANSWER_BYTES_MAX = 16 * 1_048_576
NOWHERE = ("127.0.0.1", 1)  # the target of a link whose broker is not up


class Ready(msgspec.Struct, frozen=True):
    """The line that a broker prints once it listens."""

    name: str
    client: str
    peer: str
    admin: str


class LiveNetwork:
    def __init__(self, scenario: Scenario, directory: Path) -> None:
        self._scenario = scenario
        self._directory = directory
        self._tree: Tree = tree_of(scenario)
        self._processes: dict[Node, asyncio.subprocess.Process] = {}
        self._ready: dict[Node, Ready] = {}
        self._proxies: dict[tuple[Node, Node], LinkProxy] = {}  # by (dialler, target)

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
        clients = ((client.id, client.broker) for client in self._scenario.clients)
        for dialler, target in (*self._scenario.links, *clients):
            span = self._scenario.latency.of(dialler, target)
            proxy = LinkProxy(NOWHERE, (span.low, span.high), f"{self._scenario.name}/{dialler}>{target}")
            await proxy.start()
            self._proxies[dialler, target] = proxy
        await asyncio.gather(*(self.start_broker(broker) for broker in self._scenario.brokers))
        await self._until_ready()

    # Brokers -------------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[Node]:
        return sorted(self._processes)

    async def start_broker(self, broker: Node) -> None:
        """Start a process and wait until it listens."""
        log = (self._directory / f"{broker}.log").open("ab")
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command(broker), stdout=asyncio.subprocess.PIPE, stderr=log, stdin=asyncio.subprocess.DEVNULL
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
        for (dialler, target), proxy in self._proxies.items():
            if target == broker:
                is_client = dialler not in self._tree.parent
                proxy.target = _split(ready.client if is_client else ready.peer)

    def _command(self, broker: Node) -> list[str]:
        scenario = self._scenario
        command = [sys.executable, "-m", "pleach", "broker", "--name", broker, "--routing", scenario.routing.value]
        command += ["--client-listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        command += ["--ordering", scenario.ordering.value, "--exchange", scenario.exchange]
        joining = [step.broker for step in scenario.steps if isinstance(step, steps.AddBroker) and step.to == broker]
        command += [word for name in joining for word in ("--welcome", name)]
        command += ["--data-dir", str(self._directory / broker)]
        command += ["--hierarchical"] if scenario.hierarchical else []
        command += ["--advertisements"] if scenario.advertisements else []
        command += ["--merge-bound", str(scenario.merge_bound)] if scenario.merge_bound else []
        parent = self._tree.parent[broker]
        command += ["--parent", parent] if scenario.hierarchical and parent is not None else []
        for neighbour in self._tree.neighbours[broker]:
            if (broker, neighbour) in self._proxies:
                command += ["--peer", f"{neighbour}={self.address(broker, neighbour)}"]
            else:
                command += ["--neighbour", neighbour]
        return command

    async def kill(self, broker: Node) -> None:
        """`kill -9`."""
        process = self._processes.pop(broker)
        process.kill()
        await process.wait()
        for (_, target), proxy in self._proxies.items():
            if target == broker:
                proxy.target = NOWHERE

    async def stop(self) -> None:
        processes = list(self._processes.values())
        self._processes.clear()
        for process in processes:
            if process.returncode is None:
                process.terminate()
        await asyncio.gather(*(_ended(process) for process in processes))
        for proxy in self._proxies.values():
            await proxy.stop()

    # Links ---------------------------------------------------------------------------------------------------

    def address(self, dialler: Node, target: Node) -> str:
        """Where `dialler` finds `target`: at the proxy between them."""
        host, port = self._proxies[dialler, target].address
        return f"{host}:{port}"

    def proxy(self, a: Node, b: Node) -> LinkProxy | None:
        return self._proxies.get((a, b)) or self._proxies.get((b, a))

    # Looking in ----------------------------------------------------------------------------------------------

    async def status(self, broker: Node) -> dict[str, Any]:
        return await _get_json(_split(self._ready[broker].admin), "/status")

    async def _until_ready(self) -> None:
        """Wait until all links are up."""
        async with asyncio.timeout(START_SECONDS_MAX):
            for broker in self._scenario.brokers:
                while not (await self.status(broker))["ready"]:  # noqa: ASYNC110 - it is another process that changes
                    await asyncio.sleep(POLL_SECONDS)


async def _ended(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _get_json(address: tuple[str, int], path: str) -> dict[str, Any]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {address[0]}\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read(ANSWER_BYTES_MAX)
        while not reader.at_eof():
            answer += await reader.read(ANSWER_BYTES_MAX)
    finally:
        writer.close()
    _, _, body = answer.partition(b"\r\n\r\n")
    decoded: dict[str, Any] = msgspec.json.decode(body)
    return decoded


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
