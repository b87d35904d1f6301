"""MQTT: mosquittos with bridges, a star; clients of paho-mqtt at QoS 1, with sessions that end with the connection.

A session that lasts would keep what comes for a client at the server that it has left, until it comes back there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pleach.bench.systems.forward_mosquitto import Mosquitto, configuration
from pleach.bench.systems.moving import Heard
from pleach.bench.systems.processes import LOOPBACK, free_ports, server, wait_for_port
from pleach.net.addresses import one_address

QOS = 1
KEEPALIVE_SECONDS = 600  # longer than a run: nobody has to look after pings
BRIDGE = "connection {name}\naddress {host}:{port}\ntopic # both {qos}\nremote_clientid {name}\ncleansession true"


class MovingMosquitto:
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
    """paho's client on the loop of asyncio, by the callbacks that it has for loops of others."""

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
