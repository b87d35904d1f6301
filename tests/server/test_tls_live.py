"""TLS against real broker processes: who is let in, who is not, and what a running network does meanwhile."""

import asyncio
import contextlib
import http.client
import json
import re
import select
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest

import pleach
from pleach.access.membership import MemberRole
from pleach.client import blocking
from pleach.client.publish_once import publish_once
from pleach.client.reader import Reader
from pleach.client.short_connection import Identity
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import Bye, FrameReader, Hello, encode_frame
from pleach.errors import ConnectError, TlsError, UnreachableError
from pleach.net.addresses import parse_addresses
from pleach.net.client_login import Entry
from pleach.net.http_client import ask
from pleach.net.own_tls import own_tls, speak_as
from support.live.broker_process import ENVIRONMENT, PLEACH, address, eventually, processes
from support.live.tls_network import TlsBroker, TlsNetwork, tls_chain


@pytest.fixture
def started():
    brokers = []
    yield brokers
    for broker in brokers:
        broker.kill()


@pytest.fixture
def network(tmp_path):
    return TlsNetwork(tmp_path / "certs", "a", "b", "c")


@pytest.fixture
def broker(network, tmp_path, started):
    started.append(TlsBroker("b", tmp_path, network, "--neighbour", "a", "--neighbour", "c"))
    return started[0]


def counter(broker, name):
    return float(re.search(rf"^{name} (.+)$", broker.get("/metrics")[1], re.MULTILINE)[1])


def test_the_name_of_a_broker_further_off_is_not_for_a_client(network, broker):
    """b knows it by the membership list alone."""

    async def connect_as(name):
        async with pleach.connect(broker.ready["client"], name=name, tls=network.client, connect_timeout=1.0):
            pass

    before = broker.status()["tls"]["members"]
    network.made.add_broker("far", (), (MemberRole.BROKER,), 10)
    broker.signal(signal.SIGHUP)
    eventually(lambda: broker.status()["tls"]["members"] > before)
    asyncio.run(connect_as("near"))
    with pytest.raises(ConnectError, match="is the name of a broker"):
        asyncio.run(connect_as("far"))


# Events ------------------------------------------------------------------------------------------------------------


async def _pass_events(network, brokers, *, kill, count):
    async with (
        pleach.connect(brokers["a"].ready["client"], name="p", tls=network.client) as publisher,
        pleach.connect(brokers["c"].ready["client"], name="s", tls=network.client) as subscriber,
    ):
        wanted = await subscriber.subscribe("n >= 0")
        for n in range(count):
            await publisher.publish({"n": n})
            if n == count // 2:
                kill()
        return [(await asyncio.wait_for(wanted.next(), 60)).attributes["n"] for _ in range(count)]


def test_a_chain_delivers_all_events_once_and_in_order_through_a_kill(network, tmp_path, started):
    brokers = tls_chain(started, tmp_path, network, durable=True)

    def kill():
        brokers["b"].kill()
        brokers["b"].start()

    assert asyncio.run(_pass_events(network, brokers, kill=kill, count=300)) == list(range(300))


def test_blocking_clients_publish_once_and_read(network, tmp_path, started):
    started.append(TlsBroker("a", tmp_path, network))
    alone = started[0].ready["client"]
    where = parse_addresses(alone)
    reader = Reader("r", where, patience=20, entry=Entry(network.client))
    position = reader.subscribe(parse_filter("TRUE"), 1)
    events = [Event(EventId("sink", 1, n), {"n": n}) for n in range(1, 6)]
    publish_once(where, Identity("sink", 1), events, patience=20, entry=Entry(network.client))
    with blocking.Client(alone, tls=network.client) as client:
        client.publish({"n": 6})
    found = []
    while len(found) < 6:
        reached = reader.reach(position)
        found += [e.attributes["n"] for run in reader.events(position, position.at, reached.at) for e in run]
        position = reached
    assert found == [1, 2, 3, 4, 5, 6]


def test_everything_that_asks_brokers_has_tls(network, tmp_path, started):
    """Distances between brokers, the dashboard of a broker, and commands."""
    brokers = tls_chain(started, tmp_path, network)
    a, b, c = (brokers[name] for name in "abc")
    told = json.loads(a.post("/distances", json.dumps({"to": {"b": b.ready["peer"], "c": b.ready["peer"]}}))[1])
    assert told["b"] is not None
    assert told["c"] is None, "b answers there"
    assert sorted(_streamed(network, a)["brokers"]) == ["a", "b", "c"]
    shown = _run("overlay", "show", "--via", a.ready["admin"], "--tls", network.operator)
    assert all(name in shown for name in "abc")
    _run("overlay", "swap", "a", "b", "c", "--via", a.ready["admin"], "--tls", network.operator)
    _run("pub", "x=1", "--to", c.ready["client"], "--tls", network.client)


def _run(*arguments):
    done = subprocess.run([*PLEACH, *map(str, arguments)], env=ENVIRONMENT, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _streamed(network, broker):
    """The first snapshot of a dashboard that has all brokers."""
    context = network.context(network.operator)
    connection = http.client.HTTPSConnection(*address(broker.ready["admin"]), timeout=60, context=context)
    with contextlib.closing(connection):
        connection.request("GET", "/dashboard/stream")
        response = connection.getresponse()
        while line := response.readline():
            found = json.loads(line[6:]) if line.startswith(b"data: ") else {}
            if len(found.get("brokers", ())) == 3:
                return found
    raise AssertionError("the stream has ended")


# Who is not let in -------------------------------------------------------------------------------------------------


def said_by(broker, port, context, node, role="broker", *, seconds=20):
    """What a broker does with a Hello over TLS: its answers; empty where it ends the connection."""
    with socket.create_connection(address(broker.ready[port]), timeout=seconds) as plain:
        try:
            with context.wrap_socket(plain) as wire:
                wire.sendall(encode_frame(Hello(node, time.time_ns(), 0, 0, 1, role=role)))
                reader, frames = FrameReader(), []
                while not frames and (data := wire.recv(65_536)):
                    frames += reader.feed(data)
                return frames
        except (ssl.SSLError, ConnectionError):
            return []


def test_a_true_neighbour_is_let_in(network, broker):
    (hello, *_) = said_by(broker, "peer", network.context(network.broker("a")), "a")
    assert hello.node == "b"
    assert counter(broker, "pleach_tls_refused_total") == 0


REFUSED = {
    "no certificate": (lambda network, place: None, "a", "did not return a certificate"),
    "wrong name": (lambda network, place: network.broker("a"), "c", "the certificate is of a, not c"),
    "a client's": (lambda network, place: network.client, "a", "not of a broker"),
    "not on the list": (lambda network, place: network.stray(place, "x"), "x", "x is not on the membership list"),
    "expired": (lambda network, place: network.stray(place, "a", age_days=20), "a", "certificate has expired"),
    "wrong network": (lambda network, place: network.stray(place, "a", network="other"), "a", "of network other"),
    "another authority": (
        lambda network, place: TlsNetwork(place, "a").broker("a"),
        "a",
        "certificate of the other side is not accepted",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_who_is_no_neighbour_is_refused(network, broker, tmp_path, case):
    files, node, reason = REFUSED[case]
    context = network.context(files(network, tmp_path / "stray"))
    assert said_by(broker, "peer", context, node) == []
    eventually(lambda: reason in broker.log())
    assert counter(broker, "pleach_tls_refused_total") == 1
    assert broker.is_ready() is False, "its neighbours are away, and it lives"


def test_a_revoked_certificate_is_refused_and_a_connected_one_ended(network, broker, tmp_path):
    with socket.create_connection(address(broker.ready["peer"]), timeout=20) as plain:
        wire = network.context(network.broker("a")).wrap_socket(plain)
        wire.sendall(encode_frame(Hello("a", time.time_ns(), 0, 0, 1, role="broker")))
        assert wire.recv(65_536)
        network.made.revoke("a")
        broker.signal(signal.SIGHUP)
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            while wire.recv(65_536):
                pass
        wire.close()
    assert "the certificate of broker a is revoked" in broker.log()
    assert said_by(broker, "peer", network.context(network.broker("a")), "a") == []


def test_a_broken_or_older_list_is_refused_and_the_old_one_stays(network, broker):
    place = network.broker("b")
    old = {name: (place / name).read_bytes() for name in ("members.json", "members.json.sig")}
    network.made.revoke("alice")
    broker.signal(signal.SIGHUP)
    number = network.made.members.number
    eventually(lambda: f"membership list number {number}" in broker.log())
    for name, content in old.items():
        (place / name).write_bytes(content)
    broker.signal(signal.SIGHUP)
    eventually(lambda: "is older than number" in broker.log())
    (place / "members.json").write_text("{")
    broker.signal(signal.SIGHUP)
    eventually(lambda: "not signed by this network's authority" in broker.log())
    (place / "key.pem").write_text("nonsense")
    broker.signal(signal.SIGHUP)
    eventually(lambda: broker.log().count("stay as they are") == 3)
    assert broker.status()["tls"]["members"] == number
    assert said_by(broker, "peer", network.context(network.broker("a")), "a")


def test_an_older_list_is_refused_after_a_restart_too(network, tmp_path, started):
    old = {name: (network.broker("b") / name).read_bytes() for name in ("members.json", "members.json.sig")}
    network.made.revoke("alice")
    started.append(TlsBroker("b", tmp_path, network, durable=True))
    assert started[0].stop() == 0
    for name, content in old.items():
        (network.broker("b") / name).write_bytes(content)
    with pytest.raises(AssertionError, match="is older than number"):
        started[0].start()


def test_a_renewed_certificate_is_used_for_new_connections(network, broker):
    assert 9 < broker.status()["tls"]["expires_days"] < 10
    assert "expires in" in broker.log(), "below 30 days there is a warning"
    network.made.add_broker("b", ["localhost"], ("broker",), 90)
    broker.signal(signal.SIGHUP)
    eventually(lambda: broker.status()["tls"]["expires_days"] > 80)
    assert counter(broker, "pleach_certificate_expiry_days") > 80
    for port in ("client", "peer", "admin"):
        with (
            socket.create_connection(address(broker.ready[port])) as plain,
            network.context(network.broker("a")).wrap_socket(plain) as wire,
        ):
            shown = ssl.DER_cert_to_PEM_cert(wire.getpeercert(binary_form=True)).split()
            assert shown == (network.broker("b") / "certificate.pem").read_text().split(), port


def test_old_versions_of_tls_are_refused(network, broker):
    for port in ("client", "peer", "admin"):
        context = network.context(network.broker("a"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(address(broker.ready[port])) as plain, pytest.raises(ssl.SSLError):
            context.wrap_socket(plain)


# Plain text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["client", "peer"])
def test_plain_text_to_a_port_with_tls_is_refused(broker, port):
    with socket.create_connection(address(broker.ready[port]), timeout=20) as plain:
        plain.sendall(encode_frame(Hello("a", 1, 0, 0, 1)))
        answer = b""
        with contextlib.suppress(ConnectionError):
            while data := plain.recv(4_096):
                answer += data
    assert answer[:2] in (b"", b"\x15\x03"), "an alert of TLS, and no frame"
    eventually(lambda: "what the other side sends is no TLS" in broker.log())


def test_plain_clients_and_plain_brokers_are_told(network, broker, tmp_path):
    async def connected(to, **options):
        async with pleach.connect(to, name="x", connect_timeout=0.2, **options):
            pass

    with pytest.raises(ConnectError, match="the other side speaks TLS"):
        asyncio.run(connected(broker.ready["client"]))
    with processes() as start:
        plain = start("a", tmp_path)
        with pytest.raises(TlsError, match="there is no fallback"):
            asyncio.run(connected(plain.ready["client"], tls=network.client))
        assert "the other side speaks TLS, and this side does not" in plain.log()


# Clients -----------------------------------------------------------------------------------------------------------


def test_a_client_checks_whom_it_talks_to(network, broker, tmp_path):
    async def connected(files):
        async with pleach.connect(broker.ready["client"], name="x", connect_timeout=0.2, tls=files):
            pass

    asyncio.run(connected(network.client))
    other = TlsNetwork(tmp_path / "other", "b", network="acme")
    with pytest.raises(TlsError, match="not accepted"):
        asyncio.run(connected(other.client))
    network.made.revoke("b")
    with pytest.raises(TlsError, match="the certificate of broker b is revoked"):
        asyncio.run(connected(network.client))


def test_a_revoked_client_is_refused_and_disconnected(network, broker):
    async def go():
        async with pleach.connect(broker.ready["client"], name="x", tls=network.client):
            eventually(lambda: "client x is connected" in broker.log())
            network.made.revoke("alice")
            broker.signal(signal.SIGHUP)
            await asyncio.to_thread(eventually, lambda: "the certificate of client alice is revoked" in broker.log())

    asyncio.run(go())

    async def again():
        async with pleach.connect(broker.ready["client"], name="x", connect_timeout=0.2, tls=network.client):
            pass

    with pytest.raises(ConnectError):
        asyncio.run(again())


def test_a_broker_that_says_another_name_is_refused_by_clients(network, tmp_path):
    """A broker's certificate, and the Hello of another."""

    async def answer(reader, writer):
        await reader.read(1)
        writer.write(encode_frame(Hello("c", 5, 0, 0, 1)))
        await reader.read()
        writer.close()

    async def go():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(network.broker("a") / "certificate.pem", network.broker("a") / "key.pem")
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        host, port = server.sockets[0].getsockname()[:2]
        try:
            async with pleach.connect(f"{host}:{port}", name="x", connect_timeout=0.2, tls=network.client):
                pass
        finally:
            server.close()

    with pytest.raises(TlsError, match="the certificate is of a, not c"):
        asyncio.run(go())


# Operators ---------------------------------------------------------------------------------------------------------


def test_operators_ask_with_tls(network, broker):
    async def asked(files):
        own_tls.set(None)
        speak_as(files)
        return await ask(broker.ready["admin"], "/status")

    assert asyncio.run(asked(network.operator)).value["name"] == "b"
    with pytest.raises(UnreachableError):
        asyncio.run(asked(None))
    host, port = address(broker.ready["admin"])
    context = ssl.create_default_context(cafile=str(network.path / "authority.pem"))
    with socket.create_connection((host, port)) as plain, context.wrap_socket(plain, server_hostname="localhost"):
        pass  # curl and browsers go by the host name


def test_operators_with_void_certificates_and_without_tls_are_refused(network, broker):
    network.made.revoke("oscar")
    broker.signal(signal.SIGHUP)
    eventually(lambda: f"membership list number {network.made.members.number}" in broker.log())
    with pytest.raises(OSError):  # noqa: PT011 - a broken connection, in one way or another
        broker.get("/status")
    assert "the certificate of operator oscar is revoked" in broker.log()
    with socket.create_connection(address(broker.ready["admin"]), timeout=20) as plain:
        plain.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert plain.recv(4_096)[:2] == b"\x15\x03", "an alert of TLS"
    assert "what the other side sends is no TLS" in broker.log()


def test_silent_connections_keep_no_operator_out(network, broker):
    sockets = [socket.create_connection(address(broker.ready["admin"])) for _ in range(300)]
    try:
        began = time.perf_counter()
        assert broker.get("/healthz")[0] == 200
        assert time.perf_counter() - began < 4, "before any of them has reached its deadline"
    finally:
        for each in sockets:
            each.close()


# What handshakes cost ----------------------------------------------------------------------------------------------


def test_ten_handshakes_take_milliseconds(network, broker):
    context = network.context(network.broker("a"))
    seconds = []
    for _ in range(10):
        with socket.create_connection(address(broker.ready["peer"])) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            began = time.perf_counter()
            with context.wrap_socket(plain) as wire:
                wire.sendall(encode_frame(Hello("a", time.time_ns(), 0, 0, 1, role="meter")))
                (frame,) = FrameReader().feed(wire.recv(4_096))
            seconds.append(time.perf_counter() - began)
            assert isinstance(frame, Bye)
    middle = sorted(seconds)[5]
    print(f"\nhandshake and answer: {1e3 * min(seconds):.1f} to {1e3 * max(seconds):.1f} ms, middle {1e3 * middle:.1f}")  # noqa: T201
    assert middle < 0.5


def memory_bytes(process):
    told = Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", told)[1])


def test_a_thousand_silent_connections_cost_little(network, broker):
    before = memory_bytes(broker.process)
    sockets = [socket.create_connection(address(broker.ready["peer"])) for _ in range(1_000)]
    try:
        eventually(lambda: "too many connections that have not said Hello" in broker.log())
        grown = memory_bytes(broker.process) - before
        print(f"\n1,000 silent connections: {grown / 1e6:.1f} MB")  # noqa: T201
        assert grown < 50e6
        began = time.perf_counter()
        assert broker.get("/healthz")[0] == 200
        assert time.perf_counter() - began < 2
        ended = select.select(sockets, [], [], 20)[0]
        assert ended
    finally:
        for each in sockets:
            each.close()
