"""Connections: frames in and out, strangers that cost little, peers that do not read."""

import asyncio

import msgspec
import pytest

from pleach.core.links.frames import Ack, Bye, ByeReason, Data, Hello, Ping, encode_frame
from pleach.net.connection import (
    UNGREETED_BYTES_MAX,
    WRITE_BUFFER_HIGH_BYTES,
    Handlers,
    listen,
    open_connection,
)
from support.live.tiny_broker import until

HELLO = Hello("x", 1, 0, 0, 1)


class Recorder:
    """An owner of connections that writes down what it is told."""

    def __init__(self):
        self.made, self.frames, self.lost, self.turns = [], [], [], []
        self.handlers = Handlers(
            lambda _, frame: self.frames.append(frame),
            lambda _, reason: self.lost.append(reason),
            self.made.append,
            lambda _: self.turns.append("congested"),
            lambda _: self.turns.append("writable"),
        )


async def pair(**options):
    here, there = Recorder(), Recorder()
    server = await listen("127.0.0.1", 0, msgspec.structs.replace(there.handlers, **options))
    port = server.sockets[0].getsockname()[1]
    connection = await open_connection("127.0.0.1", port, here.handlers)
    await until(lambda: there.made)
    return here, there, connection, server


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 200))


async def end(here, connection, server):
    connection.abort()
    server.close()
    await until(lambda: here.lost)


def test_frames_arrive_in_order_and_travel_together():
    async def scene():
        here, there, connection, server = await pair()
        sent = [HELLO, *(Data(n, b"x" * n) for n in range(1, 100)), Ack(7), Ping(), Bye(ByeReason.LEAVING, "enough")]
        for frame in sent:
            connection.send(frame)
        await until(lambda: len(there.frames) == len(sent))
        assert there.frames == sent
        size = sum(len(encode_frame(frame)) for frame in sent)
        assert (connection.statistics.frames_sent, connection.statistics.bytes_sent) == (len(sent), size)
        assert (there.made[0].statistics.frames_received, there.made[0].statistics.bytes_received) == (len(sent), size)
        await end(here, connection, server)

    run(scene())


def test_what_was_sent_before_a_close_still_arrives_and_both_sides_learn_of_the_end_once():
    async def scene():
        here, there, connection, server = await pair()
        connection.send(HELLO)
        connection.send(Data(1, b"y" * 500_000))
        connection.close("done")
        connection.close("twice")
        connection.send(Ping())
        await until(lambda: here.lost and there.lost)
        assert [type(frame) for frame in there.frames] == [Hello, Data]
        assert here.lost == ["done"]
        assert there.lost == ["the other side closed the connection"]
        server.close()

    run(scene())


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (encode_frame(Ping()), "Ping before Hello"),
        (b"GET / HTTP/1.1\r\n\r\n", "bytes"),
        (encode_frame(Data(1, b"x" * (2 * UNGREETED_BYTES_MAX)))[:-1], "no Hello"),
        (encode_frame(HELLO) + b"\x00\x00\x00\x09\x63" + bytes(8), "kind 99"),
    ],
)
def test_what_is_no_frame_ends_the_connection_with_the_reason(sent, reason, caplog):
    async def scene():
        here, there, connection, server = await pair()
        connection._transport.write(sent)
        await until(lambda: there.lost)
        assert reason in there.lost[0]
        assert all(isinstance(frame, Hello) for frame in there.frames)
        await end(here, connection, server)

    run(scene())
    assert reason in caplog.text


def test_a_stranger_that_says_nothing_is_not_kept():
    async def scene():
        here, there, connection, server = await pair(greeting_seconds_max=0.05)
        await until(lambda: there.lost)
        assert "no Hello within" in there.lost[0]
        await end(here, connection, server)

    run(scene())


def test_a_peer_that_does_not_read_is_noticed_and_so_is_its_return():
    async def scene():
        here, there, connection, server = await pair()
        connection.send(HELLO)
        await until(lambda: there.frames)
        there.made[0].pause_reading()
        sequence = 0
        while not connection.is_congested:
            sequence += 1
            connection.send(Data(sequence, b"z" * WRITE_BUFFER_HIGH_BYTES))
            await asyncio.sleep(0)
            assert sequence < 100
        there.made[0].resume_reading()
        await until(lambda: len(there.frames) == 1 + sequence)
        assert not connection.is_congested
        assert here.turns == ["congested", "writable"]
        await end(here, connection, server)

    run(scene())
