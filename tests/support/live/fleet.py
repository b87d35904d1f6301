"""Broker processes that are reconfigured under load, and clients whose trace is judged: for the long live commands."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

import pleach
from pleach.core.overlay.plans import Plan, PlanOutcome, Topology
from pleach.harness.switch import Switch
from pleach.net.http_client import ask
from pleach.operate.apply import Directory, apply_plan
from pleach.operate.survey import settled_survey
from pleach.trace import NETWORK, Recorder, RecordKind
from support.ports import free_ports

START_SECONDS_MAX = 90.0
QUIET_SECONDS = 1.0
DRAIN_SECONDS_MAX = 120.0
STEP_SECONDS_MAX = 90.0
WINDOW, QUEUE_MAX = 10_000, 1_000_000


class Fleet:
    """Processes on ports of their own, which they keep when they start again."""

    def __init__(self, directory: Path, *settings: str, **environment: str) -> None:
        self._place = directory
        self._settings = settings
        self._environment = environment
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self._ports: dict[str, list[str]] = {}
        self._arguments: dict[str, Sequence[str]] = {}
        self.directory = Directory({}, {})

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def grow(self, links: Sequence[tuple[str, str]]) -> None:
        """Start a tree; of a link's two brokers the first one dials."""
        names = sorted({name for link in links for name in link})
        for name in names:
            self._reserve(name)
        for name in names:
            peers = [f"--peer={there}={self.directory.peer[there]}" for here, there in links if here == name]
            neighbours = [f"--neighbour={here}" for here, there in links if there == name]
            self._arguments[name] = [*peers, *neighbours]
        await asyncio.gather(*map(self.start, names))
        await self.until_ready()

    def _reserve(self, name: str) -> None:
        self._ports[name] = [f"127.0.0.1:{port}" for port in free_ports(3)]
        _, self.directory.peer[name], self.directory.admin[name] = self._ports[name]

    async def start(self, name: str, environment: Mapping[str, str] | None = None) -> None:
        if name not in self._ports:
            self._reserve(name)
        listens = zip(("client", "peer", "admin"), self._ports[name], strict=True)
        command = [sys.executable, "-m", "pleach", "broker", "--name", name, "--heartbeat=0.5", *self._settings]
        command += [f"--{door}-listen={address}" for door, address in listens]
        command += [f"--data-dir={self._place / name}", *self._arguments.get(name, ())]
        with (self._place / f"{name}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, **self._environment, **(environment or {})},
            )
        self.processes[name] = process
        async with asyncio.timeout(START_SECONDS_MAX):
            line = await process.stdout.readline()
        assert msgspec.json.decode(line)["ready"], self.log(name)

    async def start_with(self, name: str, *arguments: str) -> None:
        self._arguments[name] = arguments
        await self.start(name)

    def log(self, name: str) -> str:
        return (self._place / f"{name}.log").read_text()

    def client_address(self, name: str) -> str:
        return f"pleach://{self._ports[name][0]}"

    async def stop(self, name: str) -> None:
        self.processes[name].send_signal(signal.SIGTERM)
        assert await self.ended(name) == 0, self.log(name)

    async def ended(self, name: str) -> int:
        async with asyncio.timeout(START_SECONDS_MAX):
            return await self.processes[name].wait()

    async def see_off(self, name: str) -> None:
        assert await self.ended(name) == 0, self.log(name)
        del self.processes[name], self.directory.admin[name], self.directory.peer[name], self._ports[name]

    async def until_ready(self) -> None:
        async with asyncio.timeout(START_SECONDS_MAX):
            for name in self.processes:
                while not await self._is_ready(name):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.05)

    async def _is_ready(self, name: str) -> bool:
        """All its links are up, and all its clients connected."""
        with contextlib.suppress(pleach.errors.UnreachableError):
            status = (await ask(self.directory.admin[name], "/status")).value
            return status["ready"] and all(client["up"] for client in status["clients"].values())
        return False

    async def topology(self) -> Topology:
        return (await settled_survey(list(self.directory.admin.values()))).topology()

    async def apply(self, plan: Plan) -> PlanOutcome:
        return await apply_plan(plan, self.directory, seconds_max=STEP_SECONDS_MAX)


class Witness:
    """Clients, and the trace of what they saw."""

    def __init__(self, run: str, ordering: str = "causal") -> None:
        self.recorder = Recorder(run)
        self.clients: dict[str, pleach.Client] = {}
        self.gaps: dict[str, float] = {}  # the longest time between two deliveries, by client
        self._seen_at: dict[str, float] = {}
        self._loads: list[asyncio.Task[None]] = []
        self._stack = contextlib.AsyncExitStack()
        self._publishes: set[asyncio.Future] = set()
        self.recorder.add(RecordKind.STATE, at=time.monotonic(), node=NETWORK, detail=f"ordering={ordering}")

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.stop_loads()
        await self._stack.aclose()

    async def connect(
        self,
        name: str,
        address: str,
        *,
        subscribe: str = "",
        state_dir: Path | None = None,
        switch: Switch | None = None,
    ) -> None:
        make = partial(
            pleach.connect,
            address,
            name=name,
            state_dir=state_dir,
            observer=self._observer(name),
            window=WINDOW,
            queue_max=QUEUE_MAX,
            connect_timeout=60.0,
        )
        if switch is None:
            client = await self._stack.enter_async_context(make())
        else:
            client = await switch.dialling_as(name, make)
            self._stack.push_async_callback(client.close)
        self.clients[name] = client
        if subscribe:
            await client.subscribe(subscribe, name="s", callback=lambda _event: None)

    async def part_with(self, name: str) -> None:
        client = self.clients.pop(name)
        await client.unsubscribe("s")
        await client.close()

    def _observer(self, name: str):
        def observe(seen) -> None:
            now = time.monotonic()
            self.recorder.observe(now, name, seen)
            if seen.kind == "deliver":
                self.gaps[name] = max(self.gaps.get(name, 0.0), now - self._seen_at.get(name, now))
                self._seen_at[name] = now

        return observe

    def load(self, name: str, per_second: float, **attributes) -> None:
        self._loads.append(asyncio.create_task(self._publish(name, per_second, attributes)))

    async def _publish(self, name: str, per_second: float, attributes) -> None:
        client, started, count = self.clients[name], time.monotonic(), 0
        while True:
            due = int((time.monotonic() - started) * per_second)
            while count < due:
                count += 1
                future = await client.publish_windowed({**attributes, "n": count})
                self._publishes.add(future)
                future.add_done_callback(self._answered)
            await asyncio.sleep(0.005)

    def _answered(self, future: asyncio.Future) -> None:
        self._publishes.discard(future)
        if not future.cancelled():
            future.exception()  # seen: the trace tells what it means

    def stop_loads(self) -> None:
        for load in self._loads:
            load.cancel()

    async def drain(self) -> bool:
        """Stop publishing, and wait until nothing moves any more."""
        self.stop_loads()
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        count = -1
        while time.monotonic() < deadline:
            before, count = count, len(self.recorder.records)
            if before == count and not self._publishes:
                self.recorder.add(RecordKind.DRAIN, at=time.monotonic(), node=NETWORK)
                return True
            await asyncio.sleep(QUIET_SECONDS)
        return False
