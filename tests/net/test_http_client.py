"""What asks brokers' ports believes nobody: whatever answers, it gets an answer or an UnreachableError, soon."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from pleach.errors import UnreachableError
from pleach.net.http_client import ask

OK = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def answering(data):
    """Somebody who says this to whoever asks; yields its address, and what it was sent."""
    heard = []

    async def serve(reader, writer):
        heard.append(await reader.read(65_536))
        writer.write(data)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}", heard
    finally:
        listening.close()


def told(data, path="/status", body=None, **options):
    async def go():
        async with answering(data) as (address, heard):
            return await ask(address, path, body, **options), heard

    return asyncio.run(go())


def test_an_object_is_an_answer():
    answer, (heard,) = told(OK + b'Content-Length: 9\r\n\r\n{"a": 10}')
    assert (answer.code, answer.value) == (200, {"a": 10})
    assert heard.startswith(b"GET /status HTTP/1.1\r\nHost: 127.0.0.1:")
    answer, _ = told(b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "/x", {"b": 1})
    assert (answer.code, answer.value, answer.is_ok) == (409, {}, False)


def test_a_port_that_speaks_tls_is_told_from_one_of_no_broker():
    with pytest.raises(UnreachableError, match=r"speaks TLS, and this side does not.*--tls"):
        told(b"\x15\x03\x03\x00\x02\x02\x28")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        OK + b"Content-Length: 3\r\n\r\n[1]",
        OK + b'Content-Length: 90\r\n\r\n{"a": 10}',
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
        OK + b"Content-Length: 2\r\n\r\n{]",
        OK + b"\r\n" + b'{"a":' * 100_000,
        OK + b"X: " + b"y" * 100_000,
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        b"HTTP/1.1 99999 OK\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
def test_what_is_no_answer_of_a_broker_is_told_as_such(data):
    with pytest.raises(UnreachableError, match="no broker's admin port"):
        told(data)


def test_an_answer_is_bounded():
    with pytest.raises(UnreachableError, match="more than 1,000 bytes"):
        told(OK + b"Content-Length: 5000\r\n\r\n" + b"x" * 5_000, bytes_max=1_000)


@pytest.mark.parametrize("path", ["/overlay/operations/x\r\nX: y", "/a b", "/\x00"])
def test_no_path_adds_to_the_request(path):
    with pytest.raises(UnreachableError):
        told(OK + b"Content-Length: 2\r\n\r\n{}", path)


@pytest.mark.parametrize("address", ["a..b:80", "127.0.0.1\r\nX: y:80", "x" * 300 + ":80", "nowhere", "\x00:1"])
def test_an_address_that_is_none_is_told(address):
    with pytest.raises(UnreachableError):
        asyncio.run(ask(address, "/status"))
