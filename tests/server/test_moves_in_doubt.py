"""A movement whose source gives no answer: where the client is shows how it ended, if anything does."""

import asyncio
import json

import pytest

from pleach.core.messages import RequestMove
from pleach.operate.move import ClientMove
from pleach.operate.operation import OperationState


async def says(*clients):
    """What stands for a broker's admin port: it says which clients it has, and hangs up on whatever else is asked."""
    body = json.dumps({"clients": list(clients)}).encode()

    async def answer(reader, writer):
        line = await reader.readline()
        if b"/status" in line:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
            writer.write(body)
            await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("at_source", "at_target", "state", "seconds_max"),
    [
        ([], ["k"], OperationState.DONE, 60.0),
        (["k"], [], OperationState.RUNNING, 0.3),
        (["k"], ["k"], OperationState.RUNNING, 0.3),  # one of its name was left at the target long ago
    ],
)
def test_where_the_client_is_shows_it(at_source, at_target, state, seconds_max):
    async def story():
        async with await says(*at_source) as source, await says(*at_target) as target:
            admin = tuple("{}:{}".format(*server.sockets[0].getsockname()) for server in (source, target))
            move = ClientMove(RequestMove("op", "k", ["a", "b"]), admin)
            found, reason = await move.carry_out(seconds_max=seconds_max)
        assert found is state
        assert bool(reason) == (state is OperationState.RUNNING)

    asyncio.run(story())
