"""NATS JetStream: nats-server with file storage, one replica (R1) or three (R3), and nats-py.

Every event is confirmed to its publisher, by a majority of the replicas where there are three. JetStream as it is
installed writes to its disk every two minutes (`sync_interval`) and counts on its replicas until then; with
`sync_interval: always` it confirms only what is on disk, as Pleach always does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pleach.bench.systems.nats import PENDING_MAX, Nats
from pleach.bench.systems.processes import LOOPBACK, free_ports, server, wait_for_port
from pleach.bench.systems.system import TOPIC, Addresses, Case, ReceiveMeter, Starter, WorkerTask, awaited_payloads
from pleach.errors import LiveError
from pleach.net.loops import run_loop

WINDOW = 1_024  # unconfirmed events of the publisher, as in systems/pleach.py
STREAM = "BENCH"
LEADER_SECONDS_MAX = 30.0  # until a cluster has chosen its leader
RETRY_SECONDS = 0.25


class JetStream:
    cases = (Case.ONE, Case.VARIED)

    def __init__(self, replicas: int, *, sync_always: bool = False) -> None:
        self.name = f"JetStream R{replicas}, file storage{', sync always' if sync_always else ''}"
        self.pace = 0.1 if sync_always else 0.5
        self._replicas = replicas
        self._sync_always = sync_always

    def missing(self) -> str:
        return Nats().missing()

    @contextmanager
    def serve(self, case: Case, directory: Path) -> Iterator[Addresses]:  # noqa: ARG002 - the same for all cases
        free = free_ports(2 * self._replicas)
        ports, cluster_ports = free[: self._replicas], free[self._replicas :]
        with ExitStack() as stack:
            for number, port in enumerate(ports):
                file = directory / f"nats{number}.conf"
                file.write_text(self._configuration(number, port, cluster_ports, directory))
                process = stack.enter_context(server(["nats-server", "-c", file], directory / f"nats{number}.log"))
                wait_for_port(port, process, "nats-server")
            addresses = [f"nats://{LOOPBACK}:{port}" for port in ports]
            run_loop(_create_stream(addresses[0], self._replicas))
            yield Addresses(addresses[0], addresses[-1])

    def _configuration(self, number: int, port: int, cluster_ports: list[int], directory: Path) -> str:
        sync = "sync_interval: always" if self._sync_always else ""
        lines = [
            f'server_name: "s{number}"',
            f'listen: "{LOOPBACK}:{port}"',
            f'jetstream {{ store_dir: "{directory / f"store{number}"}"\n{sync} }}',
        ]
        if self._replicas > 1:
            routes = ", ".join(f'"nats-route://{LOOPBACK}:{each}"' for each in cluster_ports)
            lines.append(f'cluster {{ name: bench\nlisten: "{LOOPBACK}:{cluster_ports[number]}"\nroutes: [{routes}] }}')
        return "\n".join(lines) + "\n"

    def publish(self, task: WorkerTask, start: Starter) -> None:
        run_loop(_publish(task, start))

    def subscribe(self, task: WorkerTask, meter: ReceiveMeter) -> None:
        run_loop(_subscribe(task, meter))


async def _create_stream(address: str, replicas: int) -> None:
    """As soon as the cluster has a leader."""
    import nats  # noqa: PLC0415 - only where it is measured
    from nats.errors import Error  # noqa: PLC0415

    client = await nats.connect(address)
    last: Exception | None = None
    try:
        for _ in range(int(LEADER_SECONDS_MAX / RETRY_SECONDS)):
            try:
                await client.jetstream().add_stream(name=STREAM, subjects=[TOPIC], num_replicas=replicas)
            except Error as error:
                last = error
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return
    finally:
        await client.close()
    raise LiveError(f"JetStream made no stream within {LEADER_SECONDS_MAX:g} s: {last}")


async def _publish(task: WorkerTask, start: Starter) -> None:
    """At most a window of events is unconfirmed; a phase ends when all are confirmed."""
    import nats  # noqa: PLC0415

    client = await nats.connect(task.address)
    stream = client.jetstream(publish_async_max_pending=WINDOW)
    for events in task.phases:
        start()
        async for body in awaited_payloads(task.rate, events):
            await stream.publish_async(TOPIC, body, wait_stall=LEADER_SECONDS_MAX)
        await stream.publish_async_completed()
    await client.close()


async def _subscribe(task: WorkerTask, meter: ReceiveMeter) -> None:
    """What is new, in order, without an acknowledgement for each event: the quickest consumer that it has."""
    import nats  # noqa: PLC0415
    from nats.js.api import DeliverPolicy  # noqa: PLC0415

    done = asyncio.Event()

    async def on_message(message: Any) -> None:
        if meter.note(message.data):
            done.set()

    client = await nats.connect(task.address)
    await client.jetstream().subscribe(
        TOPIC,
        cb=on_message,
        ordered_consumer=True,
        deliver_policy=DeliverPolicy.NEW,
        pending_msgs_limit=PENDING_MAX,
        pending_bytes_limit=PENDING_MAX,
    )
    meter.ready()
    await done.wait()
    await client.close()
