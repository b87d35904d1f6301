"""MQTT: mosquitto with paho-mqtt."""

from __future__ import annotations

import asyncio
import selectors
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pleach.bench.systems.moving import Heard
from pleach.bench.systems.processes import LOOPBACK, free_ports, server, wait_for_port
from pleach.bench.systems.system import TOPIC, Addresses, Case, ReceiveMeter, Starter, WorkerTask, payloads
from pleach.net.addresses import one_address

LOOP_SECONDS = 0.001  # longest wait in one turn of the loop


class Mosquitto:
    """At QoS 0."""

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
            for body in payloads(task.rate, events):
                last = client.publish(TOPIC, body, qos=0)
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
    """A configuration file: one listener, no persistence, no dropped messages (`max_queued_messages 0`)."""
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


QOS = 1
KEEPALIVE_SECONDS = 600  # longer than a run: no pings needed
BRIDGE = "connection {name}\naddress {host}:{port}\ntopic # both {qos}\nremote_clientid {name}\ncleansession true"


class MovingMosquitto:
    """Servers bridged as a star; clients at QoS 1 with sessions that end at disconnection.

    A persistent session would queue events at the server that the client has left, until it returns there.
    """

    name = "mosquitto, bridged, with paho-mqtt at QoS 1"

    def missing(self) -> str:
        return Mosquitto().missing()

    @contextmanager
    def serve(self, count: int, directory: Path) -> Iterator[Sequence[str]]:
        ports = free_ports(count)
        with ExitStack() as stack:
            for number, port in enumerate(ports):
                file = directory / f"mosquitto{number}.conf"
                file.write_text(configuration(port, *_bridges(number, ports[0])))
                process = stack.enter_context(server(["mosquitto", "-c", file], directory / f"mosquitto{number}.log"))
                wait_for_port(port, process, "mosquitto")
            yield [f"{LOOPBACK}:{port}" for port in ports]

    async def connect(self, address: str, name: str, topic: str = "", heard: Heard | None = None) -> PahoGuest:
        guest = PahoGuest(name, heard)
        await guest.connect(address, topic)
        return guest


def _bridges(number: int, centre: int) -> list[str]:
    """Every server but the first has a bridge, to that one."""
    return [BRIDGE.format(name=f"bridge{number}", host=LOOPBACK, port=centre, qos=QOS)] if number else []


def _ended(end: Callable[[Any], bool], at: Any) -> None:
    """paho wants callbacks that return nothing."""
    end(at)


class PahoGuest:
    """A paho client on the asyncio loop, through its callbacks for external loops."""

    def __init__(self, name: str, heard: Heard | None) -> None:
        from paho.mqtt.client import Client  # noqa: PLC0415 - only where it is measured
        from paho.mqtt.enums import CallbackAPIVersion  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        self._heard = heard
        self._connected, self._subscribed = asyncio.Event(), asyncio.Event()
        self._disconnected = asyncio.Event()
        client = self._client = Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=True)
        client.on_socket_open = lambda *at: loop.add_reader(at[-1], client.loop_read)
        client.on_socket_close = lambda *at: _ended(loop.remove_reader, at[-1])
        client.on_socket_register_write = lambda *at: loop.add_writer(at[-1], client.loop_write)
        client.on_socket_unregister_write = lambda *at: _ended(loop.remove_writer, at[-1])
        client.on_connect = lambda *_: self._connected.set()
        client.on_subscribe = lambda *_: self._subscribed.set()
        client.on_disconnect = lambda *_: self._disconnected.set()
        client.on_message = self._on_message

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        assert self._heard
        self._heard(int(message.payload))

    async def connect(self, address: str, topic: str) -> None:
        host, port = one_address(address)
        self._client.connect(host, port, keepalive=KEEPALIVE_SECONDS)
        await self._connected.wait()
        if topic:
            self._client.subscribe(topic, QOS)
            await self._subscribed.wait()

    async def publish(self, topic: str, number: int) -> None:
        self._client.publish(topic, str(number).encode(), QOS)

    async def leave(self) -> None:
        self._client.disconnect()
        await self._disconnected.wait()
