"""MQTT: mosquitto with paho-mqtt, at QoS 0."""

from __future__ import annotations

import selectors
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pleach.bench.systems.processes import LOOPBACK, free_ports, server, wait_for_port
from pleach.bench.systems.system import TOPIC, Addresses, Case, ReceiveMeter, SendSchedule, Starter, WorkerTask, payload
from pleach.net.addresses import one_address

LOOP_SECONDS = 0.001  # how long one turn of a loop may wait


class Mosquitto:
    name = "mosquitto with paho-mqtt"
    cases = (Case.ONE, Case.FAN_OUT)
    pace = 0.25

    def missing(self) -> str:
        if shutil.which("mosquitto") is None:
            return "mosquitto (Debian's package of that name)"
        return "" if find_spec("paho") else "paho-mqtt"

    @contextmanager
    def serve(self, case: Case, directory: Path) -> Iterator[Addresses]:  # noqa: ARG002 - one server for every case
        (port,) = free_ports(1)
        file = directory / "mosquitto.conf"
        file.write_text(configuration(port))
        with server(["mosquitto", "-c", file], directory / "mosquitto.log") as process:
            wait_for_port(port, process, "mosquitto")
            yield Addresses(f"{LOOPBACK}:{port}", f"{LOOPBACK}:{port}")

    def publish(self, task: WorkerTask, start: Starter) -> None:
        client = _client(task.address)
        client.loop_start()
        while not client.is_connected():
            time.sleep(LOOP_SECONDS)
        for events in task.phases:
            start()
            schedule = SendSchedule(task.rate) if task.rate else None
            body = payload()
            for _ in range(events):
                last = client.publish(TOPIC, payload() if schedule else body, qos=0)
                if schedule:
                    time.sleep(schedule.seconds_left())
            last.wait_for_publish()
        client.disconnect()
        client.loop_stop()

    def subscribe(self, task: WorkerTask, meter: ReceiveMeter) -> None:
        left = task.subscribers
        done = False

        def on_message(_client: Any, _data: Any, message: Any) -> None:
            nonlocal done
            done = meter.note(message.payload) or done

        def on_connect(client: Any, *_: Any) -> None:
            client.subscribe(TOPIC, qos=0)

        def on_subscribe(*_: Any) -> None:
            nonlocal left
            left -= 1
            if not left:
                meter.ready()

        clients = [_client(task.address, on_message, on_connect, on_subscribe) for _ in range(task.subscribers)]
        with selectors.DefaultSelector() as selector:
            for client in clients:
                selector.register(client.socket(), selectors.EVENT_READ, client)
            while not done:
                _take_turn(selector, clients)


def configuration(port: int, *more: str) -> str:
    """What a mosquitto reads: it listens here, keeps all in memory, and drops nothing (`max_queued_messages 0`)."""
    lines = (f"listener {port} {LOOPBACK}", "allow_anonymous true", "persistence false", "set_tcp_nodelay true")
    return "\n".join([*lines, "max_queued_messages 0", *more, ""])


def _take_turn(selector: selectors.BaseSelector, clients: list[Any]) -> None:
    """All clients of the process on one selector, as paho's `loop` has it for one."""
    for client in clients:
        if client.want_write():
            client.loop_write()
    for key, _ in selector.select(LOOP_SECONDS):
        key.data.loop_read()


def _client(address: str, on_message: Any = None, on_connect: Any = None, on_subscribe: Any = None) -> Any:
    from paho.mqtt.client import Client  # noqa: PLC0415 - only where it is measured
    from paho.mqtt.enums import CallbackAPIVersion  # noqa: PLC0415

    host, port = one_address(address)
    client = Client(CallbackAPIVersion.VERSION2)
    client.on_message, client.on_connect, client.on_subscribe = on_message, on_connect, on_subscribe
    client.connect(host, port)
    return client
