"""TLS beneath a stream that listens: the stream is there from the first byte, and reads what TLS has decrypted.

    transport ──▶ SecuredProtocol ──▶ the protocol of a stream          its writer ──▶ SecuredTransport ──▶ transport

Who does not shake hands is a stream that sends nothing: it is counted, and has the deadline of a request.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from pleach.errors import TlsError
from pleach.net.addresses import spelled
from pleach.net.tls_layer import TlsLayer, TlsSide

CERTIFICATE = "pleach_certificate"  # `get_extra_info`: of the other side, in DER; None if it has shown none

log = logging.getLogger(__name__)


class SecuredTransport(asyncio.Transport):
    """The transport that the stream sees."""

    def __init__(self, inner: asyncio.Transport, layer: TlsLayer) -> None:
        super().__init__()
        self._inner = inner
        self._layer = layer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._layer.certificate if name == CERTIFICATE else self._inner.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._layer.is_secured and data and not self._inner.is_closing():  # nothing is ever sent in the clear
            self._inner.write(self._layer.encrypt(bytes(data)))

    def close(self) -> None:
        if self._layer.is_secured and not self._inner.is_closing():
            self._inner.write(self._layer.end())
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()

    def is_closing(self) -> bool:
        return self._inner.is_closing()

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()


class SecuredProtocol(asyncio.Protocol):
    def __init__(self, stream: asyncio.StreamReaderProtocol, side: TlsSide) -> None:
        self._stream = stream
        self._layer = TlsLayer(side)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._stream.connection_made(SecuredTransport(self._transport, self._layer))

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        plain = b""
        try:
            plain = self._layer.receive(data)
        except TlsError as error:
            log.warning("connection with %s refused: %s", spelled(transport.get_extra_info("peername")), error)
        if answer := self._layer.take():
            transport.write(answer)
        if self._layer.failure is not None:
            transport.close()
        elif plain:
            self._stream.data_received(plain)
        if self._layer.is_ended:
            self._stream.eof_received()

    def eof_received(self) -> bool | None:
        self._stream.eof_received()
        return False

    def pause_writing(self) -> None:
        self._stream.pause_writing()

    def resume_writing(self) -> None:
        self._stream.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._layer.lost(str(exc) if exc else "closed")  # its failure must not hold all that has arrived
        self._stream.connection_lost(exc)
