"""A connection to a broker that cannot be reached directly, through one that both can reach: the side that asks.

    a ── Hello, role "tunnel", wants b ──▶ relay ── connects ──▶ b
    a ◀── Hello, role "tunnel" ─────────── relay
    a ◀═══ TLS of a and b, Hello, frames ═══════════════════════▶ b

Rule 1: what is inside is an ordinary connection between a and b: b's certificate is checked as if it were dialled
        directly, and the relay sees bytes only.
Rule 2: the relay is dialled as any broker is, and its certificate is checked for its name.
Rule 3: b says nothing before a does. Bytes that come before the relay has answered, or with its answer, end it all.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from pleach.core.links.frames import TUNNEL, Bye, Frame, Hello
from pleach.core.messages import Node
from pleach.net.addresses import Address
from pleach.net.connection import Carried, Connection, Handlers, open_connection, until_secured
from pleach.net.tls_layer import TlsLayer, TlsSide


class Relay(NamedTuple):
    """A broker that is asked to pass a connection on, and where it is."""

    name: Node
    address: Address


def wanted_tunnel(node: Node, epoch: int, broker: Node) -> Hello:
    return Hello(node, epoch, 0, 0, 1, role=TUNNEL, wants=broker)


class TunnelTransport(asyncio.Transport):
    """The transport of the connection inside."""

    def __init__(self, outer: Connection) -> None:
        super().__init__()
        self._outer = outer
        self._is_reading = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._outer.peername if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._outer.write_bytes(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self._outer.unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Those of the outer connection count."""

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False
        self._outer.pause_reading()

    def resume_reading(self) -> None:
        self._is_reading = True
        self._outer.resume_reading()

    def is_closing(self) -> bool:
        return self._outer.is_closing

    def close(self) -> None:
        self._outer.close("the connection inside has ended")

    def abort(self) -> None:
        self._outer.abort("the connection inside has ended")


class _Asking:
    """The outer connection: it awaits the answer of the relay, and then carries the connection inside."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.inner: Connection | None = None
        self.handlers = Handlers(self._answered, self._lost)

    def _answered(self, outer: Connection, frame: Frame) -> None:
        match frame:
            case Hello(role=role) if role == TUNNEL and not self.answer.done():
                self.answer.set_result(None)
            case Bye(reason=reason) if not self.answer.done():
                self.answer.set_exception(ConnectionRefusedError(reason))
            case _:
                outer.abort(f"{type(frame).__name__} where bytes are carried")

    def _lost(self, _outer: Connection, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(ConnectionError(reason))
        if self.inner is not None:
            self.inner.connection_lost(ConnectionError(f"the relay has ended it: {reason}"))

    def carries(self, outer: Connection, inner: Connection) -> None:
        """Raises ConnectionResetError where the relay has hung up meanwhile."""
        if outer.is_closing:
            raise ConnectionResetError("the relay has hung up")
        self.inner = inner
        outer.carry(Carried(inner.data_received, inner.pause_writing, inner.resume_writing))
        inner.connection_made(TunnelTransport(outer))


async def open_tunnel(
    relay: Relay, hello: Hello, relay_tls: TlsSide | None, handlers: Handlers, tls: TlsSide | None
) -> Connection:
    """Dial a broker through another one. Raises OSError, TlsError among them, also where the relay refuses.

    `hello`: what the relay is asked (`wanted_tunnel`); `relay_tls` and `tls`: how the relay and the broker are dialled.
    """
    asking = _Asking()
    outer = await open_connection(*relay.address, asking.handlers, relay_tls)
    try:
        outer.send(hello)
        await asking.answer
        layer = TlsLayer(tls) if tls is not None else None
        if layer is not None:
            layer.secured = asyncio.get_running_loop().create_future()
        inner = Connection(handlers, layer)
        asking.carries(outer, inner)
        await until_secured(inner)
    except BaseException:
        outer.abort("no tunnel")
        raise
    return inner
