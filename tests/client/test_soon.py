"""A broker that is there, and lets clients in a little later: it is asked again before others are."""

import asyncio
from contextlib import asynccontextmanager

from pleach.client import broker_connections
from pleach.client.broker_connections import SOON_ATTEMPTS, BrokerConnection, ConnectionOwner
from pleach.core.links.frames import CLIENT, Bye, ByeReason, Hello, encode_frame
from pleach.net.addresses import Address

SECONDS_MAX = 30


@asynccontextmanager
async def answering(bye):
    """A port that answers everybody so; yields its address, and who has come."""
    came = []

    async def serve(reader, writer):
        came.append(await reader.read(4))
        writer.write(encode_frame(bye))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Address(*server.sockets[0].getsockname()[:2]), came
    finally:
        server.close()
        await server.wait_closed()


def greet(connection):
    connection.send(Hello("c", 1, 0, 0, 1, role=CLIENT))


def hear(connection, frame):
    connection.close(frame.reason)


def test_who_lets_clients_in_soon_is_asked_again_and_then_others(monkeypatch):
    monkeypatch.setattr(broker_connections, "SOON_SECONDS", 0.0)

    async def story():
        soon, other = Bye(ByeReason.LEAVING, "waits for its standby"), Bye(ByeReason.ELSEWHERE, "this is a, not b")
        async with answering(soon) as (first, at_first), answering(other) as (second, at_second):
            owner = ConnectionOwner(greet, hear, lambda *_: None, lambda _: None)
            connection = BrokerConnection("c", "b", [first, second], owner)
            attempts = await connection.dial_all()
            assert [*attempts] == [str(first), str(second)]
            assert len(at_first) == SOON_ATTEMPTS
            assert len(at_second) == 1

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))
