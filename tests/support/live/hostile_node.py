"""Random hostile sessions against a broker process without its sockets: thousands in a minute, on a made-up clock.

Connections, daemon, node, disk and features are the real ones; only transports are made up, and what is dialled. So an
exception that no peer may cause is found here in seconds, with the seed that replays it. After each block of sessions
the broker is started anew from its disk: what it then knows must be what it knew before.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding

from pleach.access.certificates import issue, new_authority
from pleach.access.identity import Identity, IdentityKind
from pleach.core.broker import Broker
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import Ack, Data, FrameReader, Hello, Ping, encode_frame
from pleach.core.messages import (
    CLIENT_REQUESTS,
    PUB_SUB_OR_MARKED,
    Attach,
    Deliver,
    Message,
    Peer,
    Publish,
    RequestExchange,
    RequestHost,
    RequestMove,
    RequestRemove,
    RequestSwap,
    Subscribe,
    encode,
)
from pleach.core.messages.runs import decode_all
from pleach.errors import FrameError, PleachError
from pleach.net.connection import Connection
from pleach.server import daemon as daemon_module
from pleach.server.assemble import first_broker
from pleach.server.council import Council
from pleach.server.daemon import Daemon
from pleach.server.door.gate import NOT_FROM_PEERS
from pleach.server.feature import Feature
from pleach.server.links import Port
from pleach.server.ring.driver import RingDriver
from pleach.server.ring.member import RingMember, Stay
from pleach.server.ring.settings import RingSettings
from pleach.server.settings import BrokerSettings, load_settings
from support.live.hostile_generator import KINDS as GENERATED
from support.live.hostile_generator import Generator, Vocabulary

KINDS = ("plain", "ring", "leases", "rebuild", "improve", "access")
TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "ring": {"ring": {"found": True}},
    "leases": {"stabilise": {"refresh": 1.0, "period": 5.0}},
    "rebuild": {"stabilise": {"refresh": 1.0, "period": 8.0, "kind": "rebuild"}},
    "improve": {"improve": {"every": 0.5, "window": 2.0}},
    "access": {},
}
ACCESS = """
[principals.hostile]
names = ["hostile-*"]
components = ["summer"]
publish = "hostile = TRUE"
subscribe = "TRUE"
"""
LIMITS = {"subscriptions": 500, "vacant": 20, "outbox_bytes_per_client": 1_000_000, "clients": 50}
BROKER, NEIGHBOURS, FAR = "b", ("a", "n"), ("c", "d")
CERTIFICATE = issue(
    new_authority("acme", time.time()), Identity("acme", IdentityKind.CLIENT, "hostile"), time.time()
).certificate.public_bytes(Encoding.DER)
SESSIONS_PER_BLOCK = 200
TURNS_MAX = 5_000
STALL_SECONDS_MAX = 2.0  # on a machine that others use, too


@dataclass
class Findings:
    """What went wrong, with how often; `first`: the seed of the first of a kind."""

    sessions: int = 0
    seconds: float = 0.0
    slowest_seconds: float = 0.0  # in one turn of the loop
    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, error: BaseException | str, where: str) -> None:
        text = error if isinstance(error, str) else "".join(traceback.format_exception(error))
        cause = error.__cause__ if isinstance(error, BaseException) and error.__cause__ else error
        key = f"{type(cause).__name__}: {cause}"[:140] + " @ " + _place(text)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.first.setdefault(key, f"{where}\n{text}")


def _place(text: str) -> str:
    """The innermost lines of our own code."""
    lines = [line.strip() for line in text.splitlines() if "src/pleach" in line]
    return " < ".join(line.partition("src/pleach/")[2] for line in reversed(lines[-2:]))


class Transport(asyncio.Transport):
    """A socket that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: Connection | None = None
        self.written = bytearray()
        self.is_over = False
        self._is_reading = True

    def write(self, data: Any) -> None:
        self.written += data

    def close(self) -> None:
        if not self.is_over:
            self.is_over = True
            assert self.connection is not None
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self.is_over

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default


class Datagrams(asyncio.DatagramTransport):
    def sendto(self, data: Any, addr: Any = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass


class DaemonWithoutSockets(Daemon):
    """What it dials is answered by the attacker."""

    answering: Callable[[str, Connection], None] | None = None
    ended = ""  # why

    def _end(self, code: int, reason: str) -> None:
        self.ended = reason
        super()._end(code, reason)

    async def _dial(self, peer: str, known: str) -> bool:
        connection, _ = opened(self, Port.PEERS, on_made=lambda _: None)
        self._set_peer(connection, peer)
        self.node.dialled(peer, connection)
        if self.answering is not None:
            self.answering(peer, connection)
        return True


class HostileConnection(Connection):
    """Its certificate is that of a principal who may do little."""

    peer_certificate = CERTIFICATE


def opened(
    daemon: Daemon, port: Port, on_made: Callable[[Connection], None] | None = None
) -> tuple[Connection, Transport]:
    connection = HostileConnection(daemon._handlers(port, daemon._made if on_made is None else on_made))
    transport = Transport()
    transport.connection = connection
    connection.connection_made(transport)
    return connection, transport


class LocalClient:
    """An honest client without a session of its own: numbered frames over a connection of the daemon's."""

    def __init__(self, daemon: Daemon, name: str) -> None:
        self.name = name
        self.connection, self._transport = opened(daemon, Port.CLIENTS)
        self._reader = FrameReader()
        self._sent = 0
        self.received: list[int] = []
        self.confirmed = 0
        self.connection.data_received(encode_frame(Hello(name, time.time_ns(), 0, 0, 1, role="client")))
        self.say(Attach())

    def say(self, message: Any) -> None:
        self._sent += 1
        self.connection.data_received(encode_frame(Data(self._sent, encode(message))))

    def hear(self) -> None:
        data = bytes(self._transport.written)
        self._transport.written.clear()
        last = 0
        for frame in self._reader.feed(data):
            if isinstance(frame, Data):
                last = frame.sequence
                for message in decode_all(frame.payload):
                    if isinstance(message, Deliver) and "honest" in message.event.attributes:
                        self.received.append(int(message.event.attributes["honest"]))
        if last and not self.connection.is_closing:
            self.connection.data_received(encode_frame(Ack(last)))

    @property
    def is_gone(self) -> bool:
        return self._transport.is_over


class Block:
    """A broker of one kind of settings, and one stream of hostile sessions against it."""

    def __init__(self, kind: str, seed: int, findings: Findings, place: Path) -> None:
        self.kind, self.seed, self.findings, self._place = kind, seed, findings, place
        self.rng = Random(f"hostile node/{kind}/{seed}")
        self.now = 1_000.0
        self._is_neighbour = self.rng.random() < 0.7
        others = (*FAR, "honest-p", "honest-s", "summer")
        forbidden = () if self._is_neighbour else (*NEIGHBOURS, *others)
        words = Vocabulary(BROKER, NEIGHBOURS, others, forbidden=forbidden)
        self.settings = self._settings()
        owned = kinds_of(first_broker(self.settings))
        self.generator = Generator(self.rng, words, is_neighbour=self._is_neighbour, owned=owned)
        self._published = 0
        self.where = ""

    def _settings(self) -> BrokerSettings:
        rng = self.rng
        values: dict[str, Any] = {**TABLES[self.kind], "name": BROKER, "limits": LIMITS}
        if self.kind != "ring":
            values["neighbours"] = list(NEIGHBOURS)
        if self.kind in ("plain", "access"):
            values["routing"] = rng.choice(("covering", "simple", "identity", "merging", "flooding"))
            values["ordering"] = rng.choice(("causal", "causal", "fifo", "none"))
            values["advertisements"] = rng.random() < 0.3 and self._is_neighbour
        if self.kind == "rebuild":
            values["parent"] = rng.choice(("", "a"))
        if self.kind == "access":
            (self._place / "access.toml").write_text(ACCESS, encoding="utf-8")
            values["access"] = {"file": str(self._place / "access.toml")}
        if rng.random() < 0.4:
            values["data_dir"] = str(self._place / "data")
        elif self.kind == "ring":
            values |= {"data_dir": "", "standby": False}  # else the profile puts it into the working directory
        return load_settings(None, {}, values)

    def daemon(self) -> DaemonWithoutSockets:
        made = DaemonWithoutSockets(self.settings, reload=lambda: self.settings, on_ready=lambda _: None)
        made.node.directory.listens_at("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3")
        made.answering = self._answer_dial
        if self.kind == "ring":
            self._open_ring(made)
        if self.kind == "improve":  # bulletins count only where the distance to their sender is known
            made.node.features[Council]._rounds.update({name: deque([0.001]) for name in NEIGHBOURS})
        for start in made.node.features.hooks(Feature.start):
            start()
        return made

    def _open_ring(self, daemon: Daemon) -> None:
        member = daemon.node.features[RingMember]
        config = RingSettings(found=True).config
        me = Peer(config.circle.key_of(BROKER), BROKER, "127.0.0.1:2")
        counters = daemon.node.counters.datagrams
        driver = RingDriver(me, config, counters, is_open=lambda: True, terms={})
        driver._post.connection_made(Datagrams())
        driver.found()
        member.stay, member._driver = Stay.INSIDE, driver

    def _answer_dial(self, peer: str, connection: Connection) -> None:
        hello = Hello(peer, self.generator._fresh(), 0, 0, 1, role="broker")
        asyncio.get_running_loop().call_soon(self._feed, connection, encode_frame(hello))

    def _feed(self, connection: Connection, data: bytes) -> None:
        started = time.perf_counter()
        if not connection.is_closing:
            connection.data_received(data)
        self._note_stall(time.perf_counter() - started)

    def _note_stall(self, seconds: float) -> None:
        """What takes this long in one turn of the loop lets everybody else wait."""
        self.findings.slowest_seconds = max(self.findings.slowest_seconds, seconds)
        if seconds > STALL_SECONDS_MAX:
            self.findings.add(f"{seconds:.2f} s in one turn", self.where)

    # The block ---------------------------------------------------------------------------------------------------

    async def run(self, sessions: int) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._escaped)
        daemon = self.daemon()
        self._is_judged = not self._is_neighbour and self.kind != "access"
        honest = self._clients = self._honest(daemon) if self._is_judged else ()
        try:
            for number in range(sessions):
                self.where = f"--kinds {self.kind} --blocks 1 --seed {self.seed}, session {number}"
                try:
                    await self._session(daemon)
                    await self._pass_time(daemon)
                    self._ask_something(daemon)
                    if honest:
                        await self._check_honest(daemon, honest)
                except Exception as error:  # noqa: BLE001 - what is looked for
                    self.findings.add(error, self.where)
                    return
                self.findings.sessions += 1
                if daemon._exit_code:
                    self.findings.add(f"exit {daemon._exit_code}: {daemon.ended}", self.where)
                if daemon._stop.is_set():
                    return
            await self._restart(daemon)
        finally:
            for stop in daemon.node.features.hooks(Feature.stop):
                await stop(is_fatal=True)
            await self._settle(daemon)
            daemon.node.committer._alarm.end()
            daemon.node.committer.close()

    def _escaped(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.findings.add(error if error is not None else str(context["message"]), self.where)

    async def _session(self, daemon: DaemonWithoutSockets) -> None:
        rng, generator = self.rng, self.generator
        if self.kind == "ring" and rng.random() < 0.4:
            self._datagrams(daemon)
            return
        port = rng.choice((Port.CLIENTS, Port.PEERS))
        if self.kind == "ring" and self._clients:
            port = Port.CLIENTS  # of a ring without certificates anybody is a broker
        connection, transport = opened(daemon, port)
        for number, piece in enumerate(generator.session(port.value)):
            if transport.is_over and (again := generator.again()):
                connection, transport = opened(daemon, port)
                self._feed(connection, again)
                await self._settle(daemon)
                self._hear(transport)
            self._feed(connection, piece)
            if number == 0:  # what comes before the broker's Hello is ignored
                await self._settle(daemon)
            elif rng.random() < 0.3:
                await asyncio.sleep(0)
            self._hear(transport)
        if self.kind == "access" and rng.random() < 0.3:
            self._reload(daemon)
        await self._settle(daemon)
        self._hear(transport)
        if rng.random() < 0.8:  # else it stays, silent
            transport.close()
            await asyncio.sleep(0)

    def _hear(self, transport: Transport) -> None:
        if transport.written:
            with suppress(FrameError):
                self.generator.heard(list(FrameReader().feed(bytes(transport.written))))
            transport.written.clear()

    def _datagrams(self, daemon: Daemon) -> None:
        driver = daemon.node.features[RingMember]._driver
        assert driver is not None
        for _ in range(self.rng.randrange(1, 10)):
            driver._post.datagram_received(self.generator.datagram(BROKER), ("127.0.0.1", 1))
        for name in list(driver._timers):
            if self.rng.random() < 0.1:
                driver._ring(name)

    def _reload(self, daemon: Daemon) -> None:
        right = self.rng.choice(("TRUE", "FALSE", "n > 1", "hostile = TRUE AND n < 100"))
        text = ACCESS.replace('subscribe = "TRUE"', f'subscribe = "{right}"')
        (self._place / "access.toml").write_text(text, encoding="utf-8")
        daemon.node.apply(self.settings)

    async def _settle(self, daemon: Daemon) -> None:
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
            if daemon.node.committer.is_idle:
                for _ in range(3):  # what was sent is written at the end of a turn
                    await asyncio.sleep(0)
                return
            await asyncio.sleep(0.0005)
        self.findings.add("the committer never came to rest", self.where)

    async def _pass_time(self, daemon: Daemon) -> None:
        if self.rng.random() < 0.3:
            for client in self._clients:
                client.connection.data_received(encode_frame(Ping()))
            self.now += self.rng.choice((0.1, 0.6, 2.0, *((10.0, 100.0) if not self._clients else ())))
            started = time.perf_counter()
            daemon.node.endpoint.fire(now=self.now)
            daemon.node.tick()
            self._note_stall(time.perf_counter() - started)
            await self._settle(daemon)

    def _ask_something(self, daemon: Daemon) -> None:
        """An operator at work meanwhile."""
        rng = self.rng
        if rng.random() > 0.05 or not self._is_neighbour or self.kind == "rebuild":
            return
        name, near = f"op-{rng.randrange(1_000)}", rng.choice(NEIGHBOURS)
        far = rng.choice((*NEIGHBOURS, *FAR))
        request = rng.choice(
            (
                RequestSwap(name, BROKER, near, far),
                RequestExchange(name, [BROKER, near, far], rng.choice((0, 1)), "swaplink"),
                RequestMove(name, rng.choice(self.generator.words.own), [BROKER, near]),
                RequestHost(name, "summer", "sum"),
                RequestRemove(name, BROKER) if rng.random() < 0.02 else RequestSwap(name, BROKER, near, far),
            )
        )
        with suppress(PleachError):
            daemon.node._ask(request)
            self.generator.words.operations.insert(0, name)

    # The honest --------------------------------------------------------------------------------------------------

    def _honest(self, daemon: Daemon) -> tuple[LocalClient, LocalClient]:
        publisher, subscriber = LocalClient(daemon, "honest-p"), LocalClient(daemon, "honest-s")
        subscriber.say(Subscribe("all", parse_filter("EXISTS honest"), network_wide=False))
        self._epoch = time.time_ns()
        return publisher, subscriber

    async def _check_honest(self, daemon: Daemon, honest: tuple[LocalClient, LocalClient]) -> None:
        publisher, subscriber = honest
        for client in honest:
            client.connection.data_received(encode_frame(Ping()))
        self._published += 1
        publisher.say(Publish(Event(EventId("honest-p", self._epoch, self._published), {"honest": self._published})))
        await self._settle(daemon)
        publisher.hear()
        subscriber.hear()
        if publisher.is_gone or subscriber.is_gone:
            self.findings.add("an honest client was disconnected", self.where)
            raise AssertionError("an honest client was disconnected")
        if subscriber.received != list(range(1, self._published + 1)):
            raise AssertionError(f"{self._published} published, the last received {subscriber.received[-3:]}")

    # The disk ----------------------------------------------------------------------------------------------------

    async def _restart(self, daemon: DaemonWithoutSockets) -> None:
        """What is on disk must lead to what was in memory."""
        if not self.settings.data_dir:
            return
        await self._settle(daemon)
        before = daemon.node.broker.capture()
        daemon.node.committer._alarm.end()
        daemon.node.committer.close()
        try:
            again = DaemonWithoutSockets(self.settings, reload=lambda: self.settings, on_ready=lambda _: None)
        except Exception as error:  # noqa: BLE001 - what is looked for
            self.findings.add(error, f"{self.where}, restart")
            return
        found = list(differences(*map(_decoded, (before, again.node.broker.capture()))))
        if found:
            self.findings.add(f"the journal leads to another state: {found[0]}", f"{self.where}, restart")
        again.node.committer.close()


def kinds_of(broker: Broker) -> tuple[type[Message], ...]:
    """Messages that a broker knows what to do with, and that peers may send."""
    known = {*broker._owner, *CLIENT_REQUESTS, *PUB_SUB_OR_MARKED} - NOT_FROM_PEERS
    return tuple(kind for kind in GENERATED if kind in known)


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Where two captured states differ; who is connected is no matter of the journal."""
    if path in (".3.leases.2", ".3.rebuild.8"):
        return
    match before, after:
        case (dict(), dict()) if before.keys() == after.keys():
            for key, value in before.items():
                yield from differences(value, after[key], f"{path}.{key}")
        case (list(), list()) if len(before) == len(after):
            for number, (one, other) in enumerate(zip(before, after, strict=True)):
                yield from differences(one, other, f"{path}.{number}")
        case _ if repr(before) != repr(after):  # no number equals NaN
            yield f"{path}: {before!r} and {after!r}"


def _decoded(state: bytes) -> Any:
    router, clients, held, machines, addresses = msgspec.msgpack.decode(state)
    kept = {name: msgspec.msgpack.decode(each) for name, each in machines.items() if each}
    return [router, clients, held, kept, addresses]


def run_block(kind: str, seed: int, findings: Findings, sessions: int = SESSIONS_PER_BLOCK) -> None:
    place = Path(tempfile.mkdtemp(prefix="pleach-hostile-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    started = time.monotonic()
    try:
        block = Block(kind, seed, findings, place)
        clock = SimpleNamespace(monotonic=lambda: block.now)
        with mock.patch.object(daemon_module, "time", clock):
            asyncio.run(block.run(sessions))
    except Exception as error:  # noqa: BLE001 - what is looked for
        findings.add(error, f"--kinds {kind} --blocks 1 --seed {seed}")
    finally:
        findings.seconds += time.monotonic() - started
        shutil.rmtree(place, ignore_errors=True)
