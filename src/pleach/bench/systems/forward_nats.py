"""NATS: nats-server with nats-py, on uvloop as in nats-py's own benchmarks. A chain is three servers as leaf nodes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pleach.bench.systems.processes import LOOPBACK, free_ports, server, wait_for_port
from pleach.bench.systems.system import TOPIC, Addresses, Case, ReceiveMeter, SendSchedule, Starter, WorkerTask, payload
from pleach.net.loops import run_loop

PENDING_MAX = 1_000_000_000  # messages and bytes that wait in the subscriber: nothing is to be dropped


class Nats:
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
        if task.rate:
            schedule = SendSchedule(task.rate)
            for _ in range(events):
                await client.publish(TOPIC, payload())
                await asyncio.sleep(schedule.seconds_left())
        else:
            body = payload()
            for _ in range(events):
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
