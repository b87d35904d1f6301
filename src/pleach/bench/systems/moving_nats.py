"""NATS: a cluster of nats-servers, all linked to each other; clients of nats-py close, and connect elsewhere.

They close rather than drain: under load a drain takes so long that eight times as much is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pleach.bench.systems.forward_nats import Nats
from pleach.bench.systems.moving import Heard
from pleach.bench.systems.processes import LOOPBACK, free_ports, server, wait_for_port


class MovingNats:
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
