"""AMQP: rabbitmq-server's headers exchange, with pika. One queue; every content filter is a binding of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pleach.bench.systems.processes import LOOPBACK, free_ports, server, wait_for_port
from pleach.bench.systems.system import FILTERS, TOPIC, Addresses, Case, ReceiveMeter, Starter, WorkerTask, payloads
from pleach.net.addresses import one_address

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # what Debian's wrapper calls; the wrapper changes the user
EXCHANGE, QUEUE = "bench-headers", "bench"


class RabbitMQ:
    name = "rabbitmq-server's headers exchange with pika"
    cases = (Case.FILTERS,)
    pace = 0.1

    def missing(self) -> str:
        if not PROGRAM.exists() or shutil.which("epmd") is None:
            return "rabbitmq-server (Debian's package of that name)"
        return "" if find_spec("pika") else "pika"

    @contextmanager
    def serve(self, case: Case, directory: Path) -> Iterator[Addresses]:  # noqa: ARG002 - one server for every case
        port, name_port, distribution_port = free_ports(3)
        environment = _environment(directory, port, name_port, distribution_port)
        with ExitStack() as stack:
            names = ["epmd", "-address", LOOPBACK, "-port", str(name_port)]
            wait_for_port(name_port, stack.enter_context(server(names, directory / "epmd.log")), "epmd")
            process = stack.enter_context(server([PROGRAM], directory / "rabbitmq.log", environment))
            wait_for_port(port, process, "rabbitmq-server")
            yield Addresses(f"{LOOPBACK}:{port}", f"{LOOPBACK}:{port}")

    def publish(self, task: WorkerTask, start: Starter) -> None:
        import pika  # noqa: PLC0415 - only where it is measured

        connection = _connection(task.address)
        channel = connection.channel()
        for events in task.phases:
            start()
            for number, body in enumerate(payloads(task.rate, events)):
                properties = pika.BasicProperties(headers=_headers(number % FILTERS) | {"number": number})
                channel.basic_publish(EXCHANGE, "", body, properties)
            connection.process_data_events()
        connection.close()

    def subscribe(self, task: WorkerTask, meter: ReceiveMeter) -> None:
        connection = _connection(task.address)
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "headers")
        channel.queue_declare(QUEUE, exclusive=True)
        for key in range(FILTERS):
            channel.queue_bind(QUEUE, EXCHANGE, arguments={"x-match": "all", **_headers(key)})

        def on_message(channel: Any, _method: Any, _properties: Any, body: bytes) -> None:
            if meter.note(body):
                channel.stop_consuming()

        channel.basic_consume(QUEUE, on_message, auto_ack=True)
        meter.ready()
        channel.start_consuming()
        connection.close()


def _headers(key: int) -> dict[str, str | int]:
    return {"topic": TOPIC, "key": key}


def _connection(address: str) -> Any:
    import pika  # noqa: PLC0415

    host, port = one_address(address)
    return pika.BlockingConnection(pika.ConnectionParameters(host, port))


def _environment(directory: Path, port: int, name_port: int, distribution_port: int) -> dict[str, str]:
    """A node of its own: name, ports, data, cookie; loopback only."""
    plugins = directory / "enabled_plugins"
    plugins.write_text("[].\n")
    return {
        "HOME": str(directory),
        "RABBITMQ_NODENAME": f"pleach-bench-{os.getpid()}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "logs"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none",
        "ERL_EPMD_PORT": str(name_port),
        "ERL_EPMD_ADDRESS": LOOPBACK,
    }
