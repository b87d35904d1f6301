"""A connection that has ended is gone at once: a broker looks for cycles of objects seldom, and strangers are many."""

import asyncio
import gc
import ssl
import weakref

import pytest

from pleach.core.links.frames import Ping, encode_frame
from pleach.net.connection import Connection, Handlers
from pleach.net.secured_streams import SecuredProtocol
from pleach.net.tls_layer import TlsLayer, TlsSide
from support.live.hostile_node import Transport


def ended(data, *, is_secured):
    """A reference to a connection that got these bytes, and has ended."""

    async def run():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        layer = TlsLayer(TlsSide(context, lambda *_: None, is_server=True)) if is_secured else None
        handlers = Handlers(lambda connection, _: connection.close(), lambda *_: None)
        connection, transport = Connection(handlers, layer), Transport()
        transport.connection = connection
        connection.connection_made(transport)
        connection.data_received(data)
        transport.close()
        await asyncio.sleep(0)
        transport.connection = None
        return weakref.ref(connection)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("data", "is_secured"),
    [(b"x" * 200_000, True), (b"\x16\x03\x01" + bytes(100), True), (encode_frame(Ping()) * 1_000, False), (b"", True)],
    ids=["plain text", "broken TLS", "frames", "silence"],
)
def test_nothing_of_it_waits_for_the_collector(data, is_secured):
    gc.collect()
    gc.disable()
    try:
        assert ended(data, is_secured=is_secured)() is None
    finally:
        gc.enable()


def test_a_refused_connection_of_operators_holds_nothing_that_has_arrived():
    async def run():
        stream = asyncio.StreamReaderProtocol(asyncio.StreamReader())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        protocol, transport = SecuredProtocol(stream, TlsSide(context, lambda *_: None, is_server=True)), Transport()
        transport.connection = protocol
        protocol.connection_made(transport)
        protocol.data_received(b"x" * 200_000)
        await asyncio.sleep(0)  # it closes the connection itself
        return protocol._layer.failure

    failure = asyncio.run(run())
    assert failure is not None
    assert failure.__traceback__ is None
    assert failure.__context__ is None
