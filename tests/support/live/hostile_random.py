"""Random hostile sessions against chains of real brokers, one for each kind of settings, while honest clients work.

    a ── b ── c ── n        n is hostile, and a neighbour that c expects; clients publish at a and b, and read at both

A session is drawn by lot (hostile_generator.py): a broker, one of its ports (clients', peers', operators', datagrams of
a ring), a role, a name, numbers, frames, messages. After each block of them: no broker has ended, or logged a bug; its
memory is within bounds; /healthz was answered without a stall; and honest clients have lost, doubled and reordered
nothing. What passes the hostile neighbour is nobody's promise.
"""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

import pleach
from pleach.access.identity import IdentityKind
from pleach.core.links.frames import FrameReader
from pleach.errors import FrameError, PleachError
from support.links.fuzz_frames import mutated
from support.live.broker_process import BrokerProcess, address, eventually
from support.live.health_watch import HealthWatch
from support.live.hostile import (
    BUG,
    GROWTH_BYTES_MAX,
    STALL_FACTOR,
    STALL_SECONDS_EVER,
    STALL_SECONDS_MAX,
    resident_bytes,
)
from support.live.hostile_generator import Generator, Vocabulary
from support.live.hostile_http import FOLLOWED, GET_PATHS, POST, TWO_HOSTS, TWO_LENGTHS
from support.live.hostile_wire import Connection, connected, send
from support.live.ring_tree import RING_ONLY
from support.live.tls_network import TlsBroker, TlsNetwork
from support.python_process import command, environment

KINDS = ("plain", "ring", "leases", "rebuild", "improve", "secured")
TABLES = {
    "plain": "",
    "ring": "",
    "leases": "[stabilise]\nrefresh = 1.0\nperiod = 5.0\n",
    "rebuild": "[stabilise]\nrefresh = 1.0\nperiod = 8.0\nkind = 'rebuild'\n",
    "improve": "[improve]\nevery = 0.5\nwindow = 2.0\n",
    "secured": "",
}
LIMITS = """
[limits]
subscriptions = 5_000
vacant = 50
outbox_bytes_per_client = 2_000_000
outbox_bytes_high = 24_000_000
outbox_bytes_low = 12_000_000
"""
ACCESS = """
[principals.alice]
names = ["honest-*"]
publish = "TRUE"
subscribe = "TRUE"

[principals.mallory]
names = ["hostile-*"]
publish = "hostile = TRUE"
subscribe = "hostile = TRUE"
"""
HONEST = ("honest-pa", "honest-pb", "honest-sa", "honest-sb")
BLOCK_SESSIONS = 250
STREAMS = 10  # of sessions, at a time
PUBLISH_SECONDS = 0.02
PATIENCE_SECONDS = 60.0
HEAR_SECONDS = 0.02
GREETING_SECONDS = 0.5
SECONDS_MAX = 5.0  # of a session
QUIET_SECONDS = 1.5
ENDED_WELL = 0


class Door(NamedTuple):
    """A broker, as attackers see it."""

    broker: str
    client: tuple[str, int]
    peer: tuple[str, int]
    admin: tuple[str, int]
    neighbours: tuple[str, ...]  # that are hostile
    certificates: tuple[str, ...] = ()  # directories of certificates that attackers have; empty: no TLS


class Orders(msgspec.Struct):
    """What a process of attackers is told."""

    doors: list[Door]
    kind: str
    seed: int
    sessions: int


class RandomVerdict(msgspec.Struct):
    """What the blocks against one kind of settings have shown."""

    kind: str
    sessions: int = 0
    seconds: float = 0.0
    published: int = 0
    grown_bytes: int = 0
    stall_ms: float = 0.0
    quiet_stall_ms: float = 0.0
    ports: Counter[str] = msgspec.field(default_factory=Counter)
    faults: list[str] = []

    def expect(self, condition: object, fault: str) -> None:
        if not condition:
            self.faults = [*self.faults, fault]


# The attackers ---------------------------------------------------------------------------------------------------


class Stream:
    """Sessions one after the other, by one generator for each broker."""

    def __init__(self, orders: Orders, number: int) -> None:
        self._orders = orders
        self._rng = rng = Random(f"hostile random/{orders.kind}/{orders.seed}/{number}")
        names = tuple(door.broker for door in orders.doors)
        self._generators = {}
        for door in orders.doors:
            forbidden = () if orders.kind == "secured" else HONEST
            words = Vocabulary(door.broker, door.neighbours, (*names, *HONEST, "summer"), forbidden=forbidden)
            self._generators[door.broker] = Generator(rng, words, is_neighbour=bool(door.neighbours))
        self.ports: Counter[str] = Counter()

    async def run(self, sessions: int) -> None:
        for _ in range(sessions):
            door = self._rng.choice(self._orders.doors)
            port = self._rng.choices(("client", "peer", "admin", "datagram"), self._weights())[0]
            if self._orders.kind == "ring" and port == "peer" and not door.neighbours:
                port = "datagram"  # without certificates everybody is a broker: there is one for them to come to
            self.ports[port] += 1
            with suppress(OSError, TimeoutError, EOFError):  # to be cut off is what an attacker expects
                async with asyncio.timeout(SECONDS_MAX):
                    await self._session(door, port)

    def _weights(self) -> tuple[int, ...]:
        return (40, 35, 10, 15 if self._orders.kind == "ring" else 0)

    async def _session(self, door: Door, port: str) -> None:
        generator = self._generators[door.broker]
        match port:
            case "datagram":
                await self._datagrams(door, generator)
            case "admin":
                async with self._connected(door, door.admin) as connection:
                    await send(connection, self._request(generator))
                    await hear(connection)
            case _:
                await self._frames(door, port, generator)

    async def _frames(self, door: Door, port: str, generator: Generator) -> None:
        place = door.client if port == "client" else door.peer
        pieces, hello, is_more = generator.session(port), b"", True
        while is_more:
            async with self._connected(door, place) as connection:
                is_more = await self._talk(connection, generator, pieces, hello)
            hello = generator.again()
            is_more = is_more and bool(hello)

    async def _talk(self, connection: Connection, generator: Generator, pieces: Iterator[bytes], hello: bytes) -> bool:
        """Whether there is more to say, and the broker has hung up."""
        reader = FrameReader()
        if hello:
            await send(connection, hello)
            await self._hear(connection, generator, reader, GREETING_SECONDS)
        for number, piece in enumerate(pieces):
            await send(connection, piece)
            if number == 0 and not hello:  # what comes before the broker's Hello is ignored
                is_over = await self._hear(connection, generator, reader, GREETING_SECONDS)
            else:
                is_over = self._rng.random() < 0.5 and await self._hear(connection, generator, reader, HEAR_SECONDS)
            if is_over:
                return True
        await self._hear(connection, generator, reader, HEAR_SECONDS)
        return False

    @staticmethod
    async def _hear(connection: Connection, generator: Generator, reader: FrameReader, seconds: float) -> bool:
        """Whether the broker has hung up."""
        heard, is_over = await hear(connection, seconds)
        with suppress(FrameError):
            generator.heard(list(reader.feed(heard)))
        return is_over

    @staticmethod
    async def _datagrams(door: Door, generator: Generator) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=door.peer)
        for _ in range(generator.rng.randrange(1, 10)):
            transport.sendto(generator.datagram(door.broker))
        await asyncio.sleep(0)
        transport.close()

    def _connected(self, door: Door, place: tuple[str, int]) -> Any:
        rng = self._rng
        if not door.certificates or rng.random() < 0.1:
            return connected(place)
        return secured(place, rng.choice((*door.certificates, *door.certificates, "")))

    def _request(self, generator: Generator) -> bytes:
        """Of HTTP. Without a log-in everybody is an operator: what is asked for is about nobody who is here."""
        rng = self._rng
        paths = (*GET_PATHS, "/overlay/swap", "/overlay/remove", "/overlay/move", "/components", "/overlay/opinion")
        path = rng.choice(paths).encode()
        body = msgspec.json.encode({rng.choice(("operation", "broker", "path", "a", "x")): _odd(rng) for _ in range(3)})
        made = rng.choice(
            (
                b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path,
                b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                % (path, len(body), body),
                POST + b"Content-Length: 999999999\r\n\r\n",
                rng.choice((*TWO_HOSTS, *TWO_LENGTHS, *FOLLOWED)),
                generator.garbage(),
            )
        )
        return made if rng.random() < 0.8 else mutated(rng, made)


def _odd(rng: Random) -> Any:
    return rng.choice(("nobody", "", 2**70, None, [], {}, ["nobody"] * 50, "\x00", 1e308, True, "x" * 5_000))


async def hear(connection: Connection, seconds: float = HEAR_SECONDS) -> tuple[bytes, bool]:
    """What has come by now, and whether the broker has hung up."""
    try:
        async with asyncio.timeout(seconds):
            data = await connection[0].read(65_536)
    except TimeoutError:
        return b"", False
    return data, not data


class secured:  # noqa: N801 - a context manager, as `connected`
    """A connection with TLS, and one of the certificates that an attacker has, or none."""

    def __init__(self, place: tuple[str, int], files: str) -> None:
        self._place, self._files = place, files
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Connection:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if self._files:
            context.load_cert_chain(Path(self._files) / "certificate.pem", Path(self._files) / "key.pem")
        reader, self._writer = await asyncio.open_connection(*self._place, ssl=context)
        return reader, self._writer

    async def __aexit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.transport.abort()


async def attack(orders: Orders) -> Counter[str]:
    streams = [Stream(orders, number) for number in range(STREAMS)]
    shares = [orders.sessions // STREAMS + (number < orders.sessions % STREAMS) for number in range(STREAMS)]
    async with asyncio.TaskGroup() as group:
        for stream, share in zip(streams, shares, strict=True):
            group.create_task(stream.run(share))
    return sum((stream.ports for stream in streams), Counter())


# The honest ------------------------------------------------------------------------------------------------------


class Honest:
    """At a and at b somebody who publishes, and somebody who reads what both publish."""

    def __init__(self, doors: dict[str, str], tls: Path | None) -> None:
        self._doors, self._tls = doors, tls
        self._done = asyncio.Event()
        self.published: Counter[str] = Counter()
        self.received: dict[tuple[str, str], list[int]] = {}  # by reader and publisher
        self.ready = asyncio.Event()

    def _connected(self, name: str, broker: str) -> Any:
        return pleach.connect(f"pleach://{self._doors[broker]}", name=name, tls=self._tls)

    async def run(self) -> None:
        async with (
            self._connected("honest-pa", "a") as pa,
            self._connected("honest-pb", "b") as pb,
            self._connected("honest-sa", "a") as sa,
            self._connected("honest-sb", "b") as sb,
        ):
            readers = {}
            for name, client in (("sa", sa), ("sb", sb)):
                events = await client.subscribe("EXISTS honest", network_wide=False)
                readers[name] = asyncio.create_task(self._read(name, events))
            await self._until_linked(pa, pb)
            self.ready.set()
            publishers = [asyncio.create_task(self._publish(each, who)) for each, who in (("pa", pa), ("pb", pb))]
            await asyncio.gather(*publishers)
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while self.missing():  # noqa: ASYNC110 - bounded, and polled for clarity
                        await asyncio.sleep(0.05)
            for task in readers.values():
                task.cancel()

    async def _until_linked(self, *publishers: Any) -> None:
        """Subscriptions travel: from here on each event reaches both readers."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            for number in range(1_000):
                for client, name in zip(publishers, ("pa", "pb"), strict=True):
                    await client.publish({"honest": name, "n": -1 - number})
                await asyncio.sleep(0.05)
                if len(self.received) == 4:
                    break

    async def _publish(self, name: str, client: Any) -> None:
        while not self._done.is_set():
            number = self.published[name]
            await client.publish({"honest": name, "n": number}, bytes(50))
            self.published[name] += 1
            await asyncio.sleep(PUBLISH_SECONDS)

    async def _read(self, name: str, events: pleach.Subscription) -> None:
        async for event in events:
            numbers = self.received.setdefault((name, str(event.attributes["honest"])), [])
            if int(event.attributes["n"]) >= 0:
                numbers.append(int(event.attributes["n"]))

    def stop(self) -> None:
        self._done.set()

    def missing(self) -> list[str]:
        """What is lost, doubled or out of order."""
        return [
            f"{reader} got {len(numbers)} of {self.published[publisher]} events of {publisher}"
            for (reader, publisher), numbers in sorted(self.received.items())
            if numbers != list(range(self.published[publisher]))
        ]


# The brokers -----------------------------------------------------------------------------------------------------


class Chain:
    """Brokers a, b and c of one kind of settings."""

    def __init__(self, kind: str, place: Path) -> None:
        self.kind, self.place = kind, place
        place.mkdir(parents=True, exist_ok=True)
        self.network = TlsNetwork(place / "certs", "a", "b", "c", "n") if kind == "secured" else None
        if self.network is not None:
            self.network.made.add(IdentityKind.CLIENT, "mallory")
            (place / "access.toml").write_text(ACCESS, encoding="utf-8")
        self.brokers: dict[str, BrokerProcess] = {}
        if kind == "ring":
            self._start("a", "--ring", *RING_ONLY, "--without=data-dir")
            for name in ("b", "c"):
                self._start(name, "--join", self.brokers["a"].ready["peer"], *RING_ONLY, "--without=data-dir")
        else:
            self._start("b", "--neighbour", "a", "--neighbour", "c")
            self._start("a", "--peer", f"b={self.brokers['b'].ready['peer']}")
            rooted = ("--parent", "b") if kind == "rebuild" else ()
            self._start("c", "--peer", f"b={self.brokers['b'].ready['peer']}", "--neighbour", "n", *rooted)

    def _start(self, name: str, *arguments: str) -> None:
        settings = self.place / f"{name}.toml"
        parent = 'parent = "b"\n' if self.kind == "rebuild" and name == "a" else ""
        settings.write_text(parent + TABLES[self.kind] + LIMITS, encoding="utf-8")
        options = ["--config", str(settings), *arguments]
        durable = self.kind in ("plain", "secured")
        if self.network is not None:
            options += ["--access", str(self.place / "access.toml")]
            self.brokers[name] = TlsBroker(name, self.place, self.network, *options, durable=durable)
        else:
            self.brokers[name] = BrokerProcess(name, self.place, *options, durable=durable)

    @property
    def doors(self) -> list[Door]:
        hostile = {"c": ("n",)}
        files: tuple[str, ...] = ()
        if self.network is not None:
            path = self.network.path
            files = (str(path / "clients" / "mallory"), str(path / "brokers" / "n"))
        return [
            Door(
                name,
                *(address(broker.ready[port]) for port in ("client", "peer", "admin")),
                hostile.get(name, ()),
                files,
            )
            for name, broker in self.brokers.items()
        ]

    def context(self) -> ssl.SSLContext | None:
        return self.network.context(None) if self.network is not None else None

    def codes(self) -> dict[str, int]:
        """Exit codes of those that have ended."""
        return {name: each.process.poll() for name, each in self.brokers.items() if each.process.poll() is not None}

    def bugs(self) -> dict[str, str]:
        found = {}
        for name, broker in self.brokers.items():
            log = broker.log()
            if match := BUG.search(log):
                found[name] = log[max(0, match.start() - 300) : match.start() + 3_000]
        return found

    def end(self) -> dict[str, int]:
        """Stop all; returns exit codes that are not 0."""
        codes = {}
        for broker in self.brokers.values():
            if broker.process.poll() is None:
                broker.signal(signal.SIGKILL if self.kind == "ring" else signal.SIGTERM)
        for name, broker in self.brokers.items():
            try:
                code = broker.wait()
            except Exception:  # noqa: BLE001 - it hangs
                broker.kill()
                code = -1
            if code not in (ENDED_WELL, -signal.SIGKILL if self.kind == "ring" else ENDED_WELL):
                codes[name] = code
        return codes


# A run -----------------------------------------------------------------------------------------------------------


def run(kind: str, sessions: int, seed: int, place: Path) -> RandomVerdict:
    """Blocks of sessions, each with a seed of its own, from this one on."""
    verdict, chain = RandomVerdict(kind), Chain(kind, place / kind)
    started = time.monotonic()
    try:
        for broker in chain.brokers.values() if kind != "ring" else ():
            if broker.name != "c":  # its neighbour n is no broker
                eventually(broker.is_ready)
        asyncio.run(_siege(chain, verdict, sessions, seed))
    finally:
        codes = chain.end()
        verdict.seconds = time.monotonic() - started
    verdict.expect(not codes, f"not ended in good order: {codes}")
    return verdict


async def _siege(chain: Chain, verdict: RandomVerdict, sessions: int, seed: int) -> None:
    doors = {name: broker.ready["client"] for name, broker in chain.brokers.items()}
    honest = Honest(doors, chain.network.client if chain.network is not None else None)
    work = asyncio.create_task(honest.run())
    await asyncio.wait([work, asyncio.create_task(honest.ready.wait())], return_when=asyncio.FIRST_COMPLETED)
    base = {name: resident_bytes(each.process.pid) for name, each in chain.brokers.items()}
    with ExitStack() as stack:
        watches = {
            name: stack.enter_context(HealthWatch(each.ready["admin"], chain.context()))
            for name, each in chain.brokers.items()
        }
        await asyncio.sleep(QUIET_SECONDS)
        verdict.quiet_stall_ms = 1_000 * max(max(watch.seconds, default=0.0) for watch in watches.values())
        marks = {name: watch.mark() for name, watch in watches.items()}
        while verdict.sessions < sessions and not verdict.faults:
            await _block(chain, verdict, min(BLOCK_SESSIONS, sessions - verdict.sessions), seed)
            _judge(chain, verdict, base, seed)
            seed += 1
    for name, watch in watches.items():
        verdict.stall_ms = max(verdict.stall_ms, 1_000 * max(watch.seconds[marks[name] :], default=0.0))
        verdict.expect(not watch.failures, f"/healthz of {name} was not answered: {watch.failures[:3]}")
    bound = min(STALL_SECONDS_EVER, STALL_SECONDS_MAX + STALL_FACTOR * verdict.quiet_stall_ms / 1_000)
    verdict.expect(verdict.stall_ms <= 1_000 * bound, f"/healthz stalled for {verdict.stall_ms:,.0f} ms")
    honest.stop()
    try:
        await work
    except (PleachError, TimeoutError) as error:
        verdict.expect(False, f"honest clients: {error!r}")
    verdict.published = honest.published.total()
    verdict.expect(not honest.missing(), "; ".join(honest.missing()))
    verdict.expect(verdict.published, "nothing was published")


async def _block(chain: Chain, verdict: RandomVerdict, sessions: int, seed: int) -> None:
    orders = Orders(chain.doors, chain.kind, seed, sessions)
    attackers = await asyncio.create_subprocess_exec(
        *command("support.live.hostile_random", msgspec.json.encode(orders).decode()),
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    output, _ = await attackers.communicate()
    assert attackers.returncode == 0, "the attackers have failed, which proves nothing"
    verdict.ports.update(json.loads(output))
    verdict.sessions += sessions


def _judge(chain: Chain, verdict: RandomVerdict, base: dict[str, int], seed: int) -> None:
    replay = (
        f"python tests/long_run.py hostile --connections 0 --kinds {chain.kind} --random {BLOCK_SESSIONS} --seed {seed}"
    )
    codes, bugs = chain.codes(), chain.bugs()
    verdict.expect(not codes, f"ended: {codes}; {replay}")
    for name, log in bugs.items():
        verdict.expect(False, f"the log of {name} shows a bug; {replay}\n{log}")
    for name, broker in chain.brokers.items():
        if name not in codes:
            grown = resident_bytes(broker.process.pid) - base[name]
            verdict.grown_bytes = max(verdict.grown_bytes, grown)
            verdict.expect(grown <= GROWTH_BYTES_MAX, f"{name} grew by {grown:,} bytes; {replay}")


if __name__ == "__main__":
    told = msgspec.json.decode(sys.argv[1], type=Orders)
    sys.stdout.write(json.dumps(asyncio.run(attack(told))))
