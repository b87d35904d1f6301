"""Connections between machines, over real sockets: order, loss, big messages, other processes, and limits."""

import asyncio
import contextlib

import pytest

from pleach.core.links.frames import PROTOCOL_VERSION, STANDBY, Bye, Data, FrameReader, Hello, StandbyPart, encode_frame
from pleach.core.standby.messages import Alive, Append, Here, encode_standby
from pleach.core.standby.positions import Position
from pleach.server.standby import links as links_module
from pleach.server.standby.messages import FillPart
from support.live.tiny_broker import until
from support.standby.machines import Inbox, Party, parties, run


def record(number, size=10):
    return Append("b", 1, Position(7, number - 1), Position(7, number), bytes([number % 256]) * size)


def frames_received(party):
    (connection,) = party.links._connections
    return connection.statistics.frames_received


def test_messages_of_all_brokers_share_a_connection_and_keep_their_order():
    async def story():
        async with parties() as start:
            b, c = await start("b", "b#1", "b", "x"), await start("c", "c#1", "b", "x")
            sent = [
                message
                for number in range(1, 200)
                for message in (record(number), FillPart("b", 1, 5, number, b"rows"), Alive("x", number))
            ]
            for message in sent:
                b.send(message.broker, c, message)
            await until(lambda: len(c.inbox.messages) == len(sent))
            assert c.inbox.messages == [("b#1", message) for message in sent]
            c.send("b", b, Here("b", 1, None))
            await until(lambda: b.inbox.messages)
            assert [each.name for each in b.links.connected] == ["c"]
            assert [each.name for each in c.links.connected] == ["b"]

    run(story)


@pytest.mark.parametrize("size", [1_048_575, 1_048_576, 5_000_000])
def test_a_big_message_arrives_whole_between_small_ones(size):
    async def story():
        async with parties() as start:
            b, c = await start("b", "b#1", "b"), await start("c", "c#1", "b")
            sent = [record(1), record(2, size), record(3)]
            b.send("b", c, Alive("b", 0))
            await until(lambda: c.inbox.messages)
            for message in sent:
                b.send("b", c, message)
            await until(lambda: len(c.inbox.messages) == 4)
            assert [message for _, message in c.inbox.messages[1:]] == sent
            assert c.links._parts_bytes == 0

    run(story)


def test_who_has_sent_is_told_of_a_lost_connection_and_the_next_message_makes_another():
    async def story():
        async with parties() as start:
            b, c = await start("b", "b#1", "b"), await start("c", "c#1", "b")
            b.send("b", c, Alive("b", 1))
            await until(lambda: c.inbox.messages)
            for connection in c.port.connections:
                connection.abort("cut")
            await until(lambda: b.inbox.gone)
            assert b.inbox.gone == ["c#1"]

            async def say_again():
                while len(c.inbox.messages) < 2:
                    b.send("b", c, Alive("b", 2))
                    await asyncio.sleep(0.01)

            await say_again()
            assert c.inbox.messages[1] == ("b#1", Alive("b", 2))

    run(story)


def test_a_machine_that_starts_again_is_found_and_its_old_connection_is_left():
    async def story():
        async with parties() as start:
            b, c = await start("b", "b#1", "b"), await start("c", "c#1", "b")
            c.send("b", b, Here("b", 1, None))
            await until(lambda: b.inbox.messages)
            again = await start("c", "c#1", "b")
            again.send("b", b, Here("b", 2, None))
            await until(lambda: len(b.inbox.messages) == 2)
            await until(lambda: b.inbox.gone == ["c#1"])
            b.send("b", again, Alive("b", 3))
            await until(lambda: again.inbox.messages)
            assert [each.life for each in b.links.connected] == [again.own.life]

    run(story)


def test_a_dead_address_is_dialled_about_four_times_a_second():
    async def story():
        async with parties() as start:
            b = await start("b", "b#1", "b")
            attempts = []

            def dialling(name):
                attempts.append(name)

            b.links._tls = dialling
            loop = asyncio.get_running_loop()
            end = loop.time() + 1.2
            while loop.time() < end:
                b.links.send("b", "c#1", "127.0.0.1:1", Alive("b", 1))
                await asyncio.sleep(0.001)
            assert 3 <= len(attempts) <= 6

    run(story)


def test_another_disk_at_the_address_gets_nothing():
    async def story():
        async with parties() as start:
            b, c = await start("b", "b#1", "b"), await start("c", "c#2", "b")
            b.links.send("b", "c#1", c.address, Alive("b", 1))
            await until(lambda: all(each.task is None for each in b.links._attempts.values()))
            b.links.send("b", "c#2", c.address, Alive("b", 2))
            await until(lambda: c.inbox.messages)
            assert c.inbox.messages == [("b#1", Alive("b", 2))]

    run(story)


def test_a_broker_that_was_promoted_is_spoken_to_where_it_speaks_from():
    """It is another process of the same machine; the host is spoken to again when that one speaks for the broker."""

    async def story():
        async with parties() as start:
            host, d = await start("c", "c#1", "b"), await start("d", "d#1", "b")
            d.send("b", host, Alive("b", 1))
            await until(lambda: host.inbox.messages)
            child = await start("b", "c#1", "b")
            child.send("b", d, Alive("b", 2))
            await until(lambda: d.inbox.messages)
            assert d.inbox.gone == ["c#1"]
            d.send("b", host, Here("b", 2, None))
            await until(lambda: child.inbox.messages)
            await child.end()
            await until(lambda: d.inbox.gone == ["c#1", "c#1"])
            d.send("b", host, Here("b", 3, None))
            await until(lambda: len(host.inbox.messages) == 2)
            assert host.inbox.messages[-1] == ("d#1", Here("b", 3, None))

    run(story)


def test_where_a_broker_answers_that_was_promoted_nobody_is_dialled_again_and_again():
    """It is a process of a machine, and not its host; each report of a machine without a broker left a connection."""

    async def story():
        async with parties() as start:
            promoted, x = await start("b", "c#1", "b"), await start("x", "x#1")
            await until(lambda: x.links.machine_at(promoted.address) == "c#1")
            dialled = []
            x.links._tls = dialled.append
            loop = asyncio.get_running_loop()
            end = loop.time() + 3 * links_module.DIAL_SECONDS_MIN
            while loop.time() < end:
                assert x.links.machine_at(promoted.address) == "c#1"
                await asyncio.sleep(0.01)
            assert dialled == []
            assert [each.name for each in x.links.connected] == ["b"]
            await promoted.end()
            await until(lambda: x.links.connected == [])
            x.links.machine_at(promoted.address)
            await until(lambda: dialled)

    run(story)


def test_a_process_speaks_for_its_own_broker_only_unless_it_is_the_host():
    async def story():
        async with parties() as start:
            child, d = await start("b", "c#1", "b", "x"), await start("d", "d#1", "b", "x")
            child.send("x", d, Alive("x", 1))
            await until(lambda: child.inbox.gone)
            assert not d.inbox.messages

    run(story)


def test_a_message_for_a_broker_that_nobody_knows_may_make_a_member():
    async def story():
        async with parties() as start:
            b, c = await start("b", "b#1", "b"), await start("c", "c#1")
            asked, inbox = [], Inbox()

            def unknown(broker, machine, message):
                asked.append((broker, machine))
                return inbox if broker == "b" else None

            c.links.on_unknown = unknown
            b.send("b", c, Alive("b", 1))
            b.send("y", c, Alive("y", 1))
            await until(lambda: len(asked) == 2)
            assert asked == [("b", "b#1"), ("y", "b#1")]
            assert inbox.messages == [("b#1", Alive("b", 1))]

    run(story)


def test_silence_ends_a_connection_and_pings_keep_one():
    async def story():
        async with parties() as start:
            b = await start("b", "b#1", "b", heartbeat=0.05)
            c = await start("c", "c#1", "b", heartbeat=0.05)
            b.send("b", c, Alive("b", 1))
            await until(lambda: c.inbox.messages)
            for party in (b, c):
                await until(lambda party=party: frames_received(party) > 10)  # longer than any silence that is borne
            c.links._ticking.cancel()
            await until(lambda: b.inbox.gone)

    run(story)


async def spoken(address, *frames):
    """The frames that come back until the other side hangs up."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(b"".join(map(encode_frame, frames)))
        data = b""
        with contextlib.suppress(ConnectionError):
            while more := await reader.read(65_536):
                data += more
        return list(FrameReader().feed(data))
    finally:
        writer.close()


def hello(**changes):
    return Hello(**{"node": "z", "epoch": 1, "peer_epoch": 0, "received": 0, "first": 1, "role": STANDBY, **changes})


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([hello()], "names its process and its machine"),
        ([hello(machine="z#1", version=PROTOCOL_VERSION - 1)], "speaks version"),
        ([hello(machine="z\u2028#1")], "must be printable"),
        ([hello(node="c", machine="c#1")], "this process itself"),
        ([hello(role="broker")], "no broker runs here"),
    ],
)
def test_who_is_not_let_in_is_told_why(frames, reason):
    async def story():
        async with parties() as start:
            c = await start("c", "c#1", "b")
            (answer,) = await spoken(c.address, *frames)
            assert isinstance(answer, Bye)
            assert reason in answer.reason

    run(story)


@pytest.mark.parametrize(
    "frame", [StandbyPart(b"\xc0"), StandbyPart(b"\x93\x01\xa1b"), Data(1, b""), hello(machine="z#1"), StandbyPart(b"")]
)
def test_what_is_no_message_ends_the_connection(frame):
    async def story():
        async with parties() as start:
            c = await start("c", "c#1", "b")
            answers = await spoken(c.address, hello(machine="z#1"), frame)
            assert [type(each) for each in answers] in ([Hello], [])
            assert not c.inbox.messages
            await until(lambda: not c.links.connected)
            assert c.links._parts_bytes == 0

    run(story)


def test_parts_that_never_end_are_bounded(monkeypatch):
    monkeypatch.setattr(links_module, "MESSAGE_BYTES_MAX", 3_000_000)

    async def story():
        async with parties() as start:
            c = await start("c", "c#1", "b")
            endless = [StandbyPart(bytes(1_000_000), has_more=True)] * 5
            await spoken(c.address, hello(machine="z#1"), *endless)
            await until(lambda: not c.links.connected)
            assert c.links._parts_bytes == 0

    run(story)


def test_who_does_not_read_is_left_before_memory_is_full(monkeypatch):
    monkeypatch.setattr(links_module, "UNSENT_BYTES_MAX", 8_000_000)

    async def story():
        async with parties() as start:
            b, c = await start("b", "b#1", "b"), await start("c", "c#1", "b")
            b.send("b", c, Alive("b", 1))
            await until(lambda: c.inbox.messages)
            c.links.pause_reading("b#1", "b")
            highest = 0
            for number in range(1, 100):
                b.send("b", c, record(number, 1_000_000))
                await asyncio.sleep(0)
                highest = max(highest, b.links.unsent_bytes("c#1"))
            assert b.inbox.gone == ["c#1"]
            assert highest < 10_000_000

    run(story)


def test_a_pause_of_reading_is_no_silence_and_loses_nothing():
    async def story():
        async with parties() as start:
            b = await start("b", "b#1", "b", heartbeat=0.05)
            c = await start("c", "c#1", "b", heartbeat=0.05)
            b.send("b", c, Alive("b", 1))
            await until(lambda: c.inbox.messages)
            c.links.pause_reading("b#1", "b")
            for number in range(1, 50):
                b.send("b", c, record(number, 100_000))
            await until(lambda: frames_received(b) > 10)  # c speaks on, and bears the silence of what it does not read
            assert len(c.inbox.messages) < 50
            c.links.resume_reading("b#1", "b")
            await until(lambda: len(c.inbox.messages) == 50)
            assert [message.position.number for _, message in c.inbox.messages[1:]] == list(range(1, 50))

    run(story)


def test_a_machine_counts_as_not_read_from_while_any_of_its_processes_is_not():
    async def story():
        async with parties() as start:
            host, x = await start("c", "c#1", "b", "x"), await start("x", "c#1", "x")
            d = await start("d", "d#1", "b", "x")
            assert not d.links.is_paused("c#1")  # where nobody is connected, nobody is made to wait
            host.send("b", d, Alive("b", 1))
            await until(lambda: d.inbox.messages)
            assert not d.links.is_paused("c#1")
            d.links.pause_reading("c#1", "b")
            x.send("x", d, Alive("x", 1))
            await until(lambda: len(d.links.connected) == 2)
            assert d.links.is_paused("c#1")
            d.links.resume_reading("c#1", "b")
            assert not d.links.is_paused("c#1")

    run(story)


def test_a_message_of_the_core_is_read_as_the_core_writes_it():
    assert links_module.decode_between(encode_standby(record(3))) == record(3)


def test_both_may_dial_at_once():
    async def story():
        async with parties() as start:
            b, c = await start("b", "b#1", "b"), await start("c", "c#1", "b")
            for number in range(1, 100):
                b.send("b", c, record(number))
                c.send("b", b, Here("b", number, None))
            for party in (b, c):
                await until(lambda party=party: len(party.inbox.messages) == 99)
            assert [message for _, message in c.inbox.messages] == [record(number) for number in range(1, 100)]
            assert [message.number for _, message in b.inbox.messages] == list(range(1, 100))

    run(story)


def test_nothing_is_sent_once_it_has_stopped():
    async def story():
        async with parties() as start:
            b, c = await start("b", "b#1", "b"), await start("c", "c#1", "b")
            await b.links.stop()
            b.send("b", c, Alive("b", 1))
            assert not b.links._attempts
            assert isinstance(b, Party)

    run(story)
