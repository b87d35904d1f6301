"""NATS: nats-server with nats-py, on uvloop as in nats-py's own benchmarks."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pleach.bench.systems.moving import Heard
from pleach.bench.systems.processes import LOOPBACK, free_ports, server, wait_for_port
from pleach.bench.systems.system import TOPIC, Addresses, Case, ReceiveMeter, Starter, WorkerTask, awaited_payloads
from pleach.net.loops import run_loop

PENDING_MAX = 1_000_000_000  # messages and bytes pending in the subscriber, so that none are dropped


class Nats:
    """A chain is three servers as leaf nodes."""

    name = "nats-server with nats-py"
    cases = (Case.ONE, Case.CHAIN, Case.FAN_OUT)
    pace = 1.0

    def missing(self) -> str:
        if shutil.which("nats-server") is None:
            return "nats-server (Debian's package of that name)"
        return "" if find_spec("nats") else "nats-py"

    @contextmanager
    def serve(self, case: Case, directory: Path) -> Iterator[Addresses]:
        length = 3 if case is Case.CHAIN else 1
        free = free_ports(2 * length)
        ports, leaf_ports = free[:length], free[length:]
        with ExitStack() as stack:
            for number, (port, leaf_port) in enumerate(zip(ports, leaf_ports, strict=True)):
                upstream = leaf_ports[number - 1] if number else None
                file = directory / f"nats{number}.conf"
                file.write_text(_configuration(port, leaf_port, upstream))
                process = stack.enter_context(server(["nats-server", "-c", file], directory / f"nats{number}.log"))
                wait_for_port(port, process, "nats-server")
            yield Addresses(f"nats://{LOOPBACK}:{ports[0]}", f"nats://{LOOPBACK}:{ports[-1]}")

    def publish(self, task: WorkerTask, start: Starter) -> None:
        run_loop(_publish(task, start))

    def subscribe(self, task: WorkerTask, meter: ReceiveMeter) -> None:
        run_loop(_subscribe(task, meter))


def _configuration(port: int, leaf_port: int, upstream: int | None) -> str:
    remotes = f'remotes: [{{ url: "nats-leaf://{LOOPBACK}:{upstream}" }}]' if upstream else ""
    return f'listen: "{LOOPBACK}:{port}"\nleafnodes {{ listen: "{LOOPBACK}:{leaf_port}"\n{remotes} }}\n'


async def _publish(task: WorkerTask, start: Starter) -> None:
    import nats  # noqa: PLC0415 - only where it is measured

    client = await nats.connect(task.address)
    for events in task.phases:
        start()
        async for body in awaited_payloads(task.rate, events):
            await client.publish(TOPIC, body)
        await client.flush()
    await client.close()


async def _subscribe(task: WorkerTask, meter: ReceiveMeter) -> None:
    import nats  # noqa: PLC0415

    done = asyncio.Event()

    async def on_message(message: Any) -> None:
        if meter.note(message.data):
            done.set()

    clients = [await nats.connect(task.address) for _ in range(task.subscribers)]
    for client in clients:
        await client.subscribe(TOPIC, cb=on_message, pending_msgs_limit=PENDING_MAX, pending_bytes_limit=PENDING_MAX)
        await client.flush()
    meter.ready()
    await done.wait()
    for client in clients:
        await client.close()


class MovingNats:
    """A full-mesh cluster of servers; clients close and connect to another one.

    They close instead of draining: under load a drain takes so long that eight times as much is lost.
    """

    name = "nats-server, a cluster, with nats-py"

    def missing(self) -> str:
        return Nats().missing()

    @contextmanager
    def serve(self, count: int, directory: Path) -> Iterator[Sequence[str]]:
        free = free_ports(2 * count)
        ports, cluster_ports = free[:count], free[count:]
        routes = ", ".join(f'"nats-route://{LOOPBACK}:{port}"' for port in cluster_ports)
        with ExitStack() as stack:
            for number, (port, cluster_port) in enumerate(zip(ports, cluster_ports, strict=True)):
                file = directory / f"nats{number}.conf"
                cluster = f'cluster {{ name: moves\nlisten: "{LOOPBACK}:{cluster_port}"\nroutes: [{routes}] }}'
                file.write_text(f'server_name: "s{number}"\nlisten: "{LOOPBACK}:{port}"\n{cluster}\n')
                process = stack.enter_context(server(["nats-server", "-c", file], directory / f"nats{number}.log"))
                wait_for_port(port, process, "nats-server")
            yield [f"nats://{LOOPBACK}:{port}" for port in ports]

    async def connect(self, address: str, name: str, topic: str = "", heard: Heard | None = None) -> NatsGuest:
        import nats  # noqa: PLC0415 - only where it is measured

        async def on_message(message: Any) -> None:
            assert heard
            heard(int(message.data))

        client = await nats.connect(address, name=name, allow_reconnect=False)
        if topic:
            await client.subscribe(topic, cb=on_message)
            await client.flush()
        return NatsGuest(client)


class NatsGuest:
    def __init__(self, client: Any) -> None:
        self._client = client

    async def publish(self, topic: str, number: int) -> None:
        await self._client.publish(topic, str(number).encode())

    async def leave(self) -> None:
        await self._client.close()
