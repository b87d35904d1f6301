"""A broker that passes on connections: to whom, for whom, and how many; and whoever asks for what is not theirs."""

import asyncio
import contextlib

import pytest

from pleach.core.links.frames import TUNNEL, Bye, Data, FrameReader, Hello, encode_frame
from pleach.net.addresses import one_address
from pleach.server.relay import tunnels
from pleach.server.relay.settings import RelaySettings
from pleach.server.relay.tunnels import TUNNELS_PER_BROKER, Tunnels
from support.live.daemons import Running
from support.live.tiny_broker import until

SECONDS_MAX = 60
ENOUGH = 8 * 1_048_576  # more bytes than all buffers between two sockets hold


def run(story):
    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


class Far:
    """What listens at the address of broker x: it sends back what it gets, unless it is told to read nothing."""

    def __init__(self):
        self.is_reading = True
        self.ended = 0
        self._never = asyncio.Event()
        self._server = None

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_):
        self._server.close()

    @property
    def address(self):
        host, port = self._server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def _serve(self, reader, writer):
        try:
            while self.is_reading and (data := await reader.read(65_536)):
                writer.write(data)
                await writer.drain()
            if not self.is_reading:
                await self._never.wait()
        except OSError:
            pass
        finally:
            self.ended += 1
            writer.close()


class Asker:
    """A connection to the relay's port for peers, and what was answered there."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self._frames = FrameReader()

    def ask(self, wanted, *, node="a", role=TUNNEL):
        self.writer.write(encode_frame(Hello(node, 1, 0, 0, 1, role=role, wants=wanted)))

    async def answer(self):
        """None: the connection has ended."""
        while data := await self.reader.read(65_536):
            for frame in self._frames.feed(data):
                return frame
        return None

    async def echoed(self, data):
        self.writer.write(data)
        return await self.reader.readexactly(len(data))


@contextlib.asynccontextmanager
async def asker(running):
    reader, writer = await asyncio.open_connection(*one_address(running.ready["r"].peer))
    try:
        yield Asker(reader, writer)
    finally:
        writer.transport.abort()


@contextlib.asynccontextmanager
async def relay(tmp_path, *, wanted=("x",), **values):
    """Broker r, whose neighbour a does not run, and which dials brokers of other names, all at the same address."""
    running = Running(tmp_path)
    async with Far() as far:
        try:
            peers = dict.fromkeys(wanted, far.address)
            await running.start("r", neighbours=("a", "b"), peers=peers, relay=RelaySettings(**values))
            yield running, far
        finally:
            await running.stop_all()


def counters(running):
    return running.node("r").counters.relay


def test_bytes_pass_both_ways_and_the_end_of_one_side_is_the_end_of_the_other(tmp_path):
    async def story():
        async with relay(tmp_path) as (running, far), asker(running) as made:
            made.ask("x")
            assert isinstance(await made.answer(), Hello)
            assert await made.echoed(b"no frame at all") == b"no frame at all"
            assert await made.echoed(bytes(range(256)) * 4_000) == bytes(range(256)) * 4_000
            (shown,) = running.node("r").features[Tunnels].status()["tunnels"]
            assert (shown["from"], shown["to"]) == ("a", "x")
            before = far.ended
            made.writer.close()
            await until(lambda: far.ended > before)
            await until(lambda: not running.node("r").features[Tunnels].status()["tunnels"])
            assert counters(running).tunnel_bytes == 2 * (15 + 256 * 4_000)

    run(story)


@pytest.mark.parametrize(
    ("node", "wanted", "reason"),
    [
        ("mallory", "x", "does not know 'mallory'"),
        ("a", "y", "does not know where"),
        ("a", "127.0.0.1:22", "does not know where"),
        ("a", "a", "does not know where"),
        ("a", "r", "does not know where"),
        ("a", "", "does not know where"),
    ],
)
def test_what_is_not_between_two_brokers_is_refused(tmp_path, node, wanted, reason):
    async def story():
        async with relay(tmp_path) as (running, _), asker(running) as made:
            made.ask(wanted, node=node)
            answer = await made.answer()
            assert isinstance(answer, Bye)
            assert reason in answer.reason
            assert await made.answer() is None
            assert counters(running).tunnels_refused == 1

    run(story)


def test_a_broker_that_passes_nothing_on_says_so(tmp_path):
    async def story():
        running = Running(tmp_path)
        try:
            await running.start("r", neighbours=("a",))
            async with asker(running) as made:
                made.ask("x")
                assert "[relay]" in (await made.answer()).reason
        finally:
            await running.stop_all()

    run(story)


def test_whoever_does_not_wait_for_the_answer_is_sent_away(tmp_path):
    async def story():
        async with relay(tmp_path) as (running, _), asker(running) as made:
            made.ask("x")
            made.writer.write(encode_frame(Data(1, b"early")))
            with contextlib.suppress(ConnectionResetError):
                assert not isinstance(await made.answer(), Hello)
            await until(lambda: not running.node("r").features[Tunnels].status()["tunnels"])

    run(story)


def test_one_broker_has_so_many_tunnels_and_all_together_so_many(tmp_path):
    names = [f"x{number}" for number in range(TUNNELS_PER_BROKER + 1)]

    async def story():
        async with relay(tmp_path, wanted=names, tunnels=TUNNELS_PER_BROKER + 1) as (running, _):
            async with contextlib.AsyncExitStack() as stack:
                for name in names[:-1]:
                    made = await stack.enter_async_context(asker(running))
                    made.ask(name)
                    assert isinstance(await made.answer(), Hello)
                one_more = await stack.enter_async_context(asker(running))
                one_more.ask(names[-1])
                assert "as many connections" in (await one_more.answer()).reason
                for wanted, kind in ((names[0], Hello), (names[1], Bye)):
                    other = await stack.enter_async_context(asker(running))
                    other.ask(wanted, node="b")
                    assert isinstance(await other.answer(), kind)
            await until(lambda: not running.node("r").features[Tunnels].status()["tunnels"])

    run(story)


def test_a_newer_tunnel_between_the_same_brokers_replaces_the_former(tmp_path):
    async def story():
        async with relay(tmp_path, tunnels=1) as (running, _), asker(running) as former, asker(running) as newer:
            former.ask("x")
            assert isinstance(await former.answer(), Hello)
            newer.ask("x")
            assert isinstance(await newer.answer(), Hello)
            assert await former.reader.read() == b""
            assert await newer.echoed(b"still there") == b"still there"

    run(story)


def test_what_is_not_read_at_one_end_is_not_taken_in_at_the_other(tmp_path):
    async def story():
        async with relay(tmp_path) as (running, far), asker(running) as made:
            far.is_reading = False
            made.ask("x")
            assert isinstance(await made.answer(), Hello)
            made.writer.write(bytes(4 * ENOUGH))
            tunnel = next(iter(running.node("r").features[Tunnels]._tunnels.values()))
            await until(lambda: not tunnel.near._transport.is_reading())
            assert tunnel.carried_bytes < ENOUGH
            assert tunnel._far.get_write_buffer_size() < 1_048_576

    run(story)


def test_a_tunnel_that_carries_nothing_is_ended(tmp_path):
    async def story():
        async with relay(tmp_path, idle_seconds=0.5) as (running, _), asker(running) as made:
            made.ask("x")
            assert isinstance(await made.answer(), Hello)
            assert await made.reader.read() == b""

    run(story)


def test_a_broker_that_is_not_reached_is_told_of_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(tunnels, "CONNECT_SECONDS_MAX", 0.2)

    async def never(*_):
        await asyncio.Event().wait()

    monkeypatch.setattr(tunnels, "dial", never)

    async def story():
        async with relay(tmp_path) as (running, _), asker(running) as made:
            made.ask("x")
            assert "does not reach x" in (await made.answer()).reason

    run(story)


def test_what_a_far_broker_does_not_take_is_not_kept_when_the_tunnel_has_ended(tmp_path, monkeypatch):
    """Each tunnel that is replaced would leave a socket and a full buffer behind, as often as somebody asks."""
    monkeypatch.setattr(tunnels, "CLOSE_SECONDS_MAX", 0.2)

    async def story():
        async with relay(tmp_path, idle_seconds=0.5) as (running, far), asker(running) as made:
            far.is_reading = False
            made.ask("x")
            assert isinstance(await made.answer(), Hello)
            made.writer.write(bytes(4 * ENOUGH))
            (tunnel,) = running.node("r").features[Tunnels]._tunnels.values()
            await until(lambda: not tunnel.near._transport.is_reading())
            await until(lambda: not running.node("r").features[Tunnels].status()["tunnels"])
            await until(lambda: tunnel._far is None)

    run(story)
