"""Operators who ask where a broker ran that runs on another machine by now: nothing is known, and nothing refused."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from pleach.core.messages import RequestMove
from pleach.core.overlay.plans import PlannedOperation, SwapStep
from pleach.errors import UnreachableError
from pleach.operate.apply import Directory, carry_out
from pleach.operate.move import ClientMove
from pleach.operate.operation import OperationState, ask_broker

STATUS = {"name": "b", "ready": True, "broker": False}
MISSING = {"error": "Not Found", "remedy": "there are /healthz, /readyz, /status, /standby"}


async def answered(reader, writer):
    """As a machine does that only holds copies."""
    head = await reader.readuntil(b"\r\n\r\n")
    is_status = head.startswith(b"GET /status")
    body = json.dumps(STATUS if is_status else MISSING).encode()
    code = b"200 OK" if is_status else b"404 Not Found"
    writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (code, len(body), body))
    await writer.drain()
    writer.close()


@asynccontextmanager
async def a_machine():
    server = await asyncio.start_server(answered, "127.0.0.1", 0)
    async with server:
        yield "{}:{}".format(*server.sockets[0].getsockname()[:2])


@pytest.mark.parametrize("page", ["/status", "/overlay/operations"])
def test_a_machine_that_only_holds_copies_is_no_broker(page):
    async def ask():
        async with a_machine() as address:
            await ask_broker(address, page)

    with pytest.raises(UnreachableError, match="only holds copies"):
        asyncio.run(ask())


def test_a_swap_that_is_asked_for_there_is_not_refused_but_not_known():
    """It ended with KeyError: 'operation'."""

    async def swap():
        async with a_machine() as address:
            directory = Directory(dict.fromkeys("abc", address), dict.fromkeys("abc", address))
            return await carry_out(
                PlannedOperation("o", SwapStep("a", "b", "c"), ("a", "b", "c")), directory, seconds_max=0.5
            )

    end = asyncio.run(swap())
    assert end.state is OperationState.RUNNING
    assert "only holds copies" in end.reason


def test_a_move_that_is_asked_for_there_is_not_refused_but_not_known():
    """It may be under way: its broker has been promoted elsewhere in the middle of it."""

    async def move():
        async with a_machine() as address:
            moving = ClientMove(RequestMove("o", "c", ["a", "b"], 0), (address, address))
            return await moving.carry_out(seconds_max=0.5)

    state, reason = asyncio.run(move())
    assert state is OperationState.RUNNING
    assert "only holds copies" in reason
