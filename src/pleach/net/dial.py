"""Dialling, directly or through a switch: a process between all machines of a test network.

    machine b ── "b 127.0.1.3:7200\n" ──▶ switch ──▶ 127.0.1.3:7200      "\n" is the answer once that is connected

A switch (harness/switch.py) knows who dials whom, also where a broker has been started elsewhere, on ports that nobody
could know before. A process dials through one if PLEACH_DEBUG_DIAL_THROUGH=b@127.0.0.1:4711 says so, and the processes
that it starts do so, too; for clients of the harness a context variable says so.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple, TypeVar

from pleach.errors import SettingsError
from pleach.net.addresses import Address, parse_address, unreachable_if_no_host

VARIABLE = "PLEACH_DEBUG_DIAL_THROUGH"
CONNECTED = b"\n"
LINE_BYTES_MAX = 1_024

Protocol = TypeVar("Protocol", bound=asyncio.Protocol)


class SwitchPort(NamedTuple):
    """The switch, and as whom it is dialled."""

    machine: str
    switch: Address

    def __str__(self) -> str:
        return f"{self.machine}@{self.switch}"

    @classmethod
    def parse(cls, text: str) -> SwitchPort:
        machine, _, address = text.rpartition("@")
        if not machine or any(each.isspace() for each in machine):
            raise SettingsError(VARIABLE, f"{text!r} names no machine", "write MACHINE@HOST:PORT")
        return cls(machine, parse_address(address, key=VARIABLE))

    async def dial(self, target: Address) -> socket.socket:
        """Raises OSError where the switch does not connect."""
        end = socket.socket(socket.AF_INET6 if ":" in self.switch.host else socket.AF_INET)
        try:
            await self._connect(end, target)
        except BaseException:
            end.close()
            raise
        return end

    async def _connect(self, end: socket.socket, target: Address) -> None:
        loop = asyncio.get_running_loop()
        end.setblocking(False)  # noqa: FBT003 - the library's own argument
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await loop.sock_connect(end, self.switch)
        await loop.sock_sendall(end, f"{self.machine} {target}\n".encode())
        if await loop.sock_recv(end, len(CONNECTED)) != CONNECTED:
            raise ConnectionRefusedError(f"the switch does not connect {self.machine} with {target}")


switch_port: ContextVar[SwitchPort | None] = ContextVar("switch_port", default=None)


def switch_port_in_use() -> SwitchPort | None:
    """None: dial directly. Raises SettingsError."""
    return switch_port.get() or _of_process()


@cache
def _of_process() -> SwitchPort | None:
    text = os.environ.get(VARIABLE, "")
    return SwitchPort.parse(text) if text else None


async def dial(host: str, port: int, make: Callable[[], Protocol]) -> Protocol:
    """Connect, directly or through the switch in use; returns the protocol of the connection. Raises OSError."""
    loop, switch = asyncio.get_running_loop(), switch_port_in_use()
    with unreachable_if_no_host(host):
        if switch is None:
            _, protocol = await loop.create_connection(make, host, port)
        else:
            _, protocol = await loop.create_connection(make, sock=await switch.dial(Address(host, port)))
    return protocol
