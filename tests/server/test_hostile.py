"""A sample of the hostile connections of `long_run.py hostile`, and the attacks that once worked, one by one."""

import asyncio
import socket
from contextlib import ExitStack

import pytest

from pleach.core.effects import Observed
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import Ack, Bye, ByeReason, FrameReader, encode_frame
from pleach.core.links.session import Session, SessionState
from pleach.core.messages import Advertise, Subscribe, decode, encode, wire_tag
from pleach.net.connection import Connection, Handlers
from pleach.server.backpressure import STALLED_SECONDS_MAX, StalledConsumers
from support.live import hostile
from support.live.broker_process import RawClient, address, clients, eventually, processes
from support.live.hostile_acts import ACTS
from support.live.hostile_wire import greeting, raw_messages
from support.thorough import FACTOR


@pytest.fixture
def broker(tmp_path):
    with processes() as start:
        yield start("b", tmp_path)


def stranger(door):
    return socket.create_connection(address(door), timeout=60)


@pytest.mark.parametrize("durable", [False, True], ids=["in memory", "with a data directory"])
def test_a_siege_goes_unnoticed_by_honest_clients(tmp_path, durable):
    connections = 4 * len(ACTS) * FACTOR
    verdict = hostile.run(connections, 1, tmp_path, durable=durable, names=sorted(ACTS), flooded=False)
    assert verdict.faults == []
    assert verdict.acts == dict.fromkeys(ACTS, 4 * FACTOR)
    assert verdict.published > 10


def test_the_judge_sees_what_is_wrong(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path)
        honest = hostile.Honest("")
        honest.published, honest.received, honest.latencies = 3, [0, 2, 1], [0.1, 0.1]
        with broker.errors.open("a") as log:
            log.write("Traceback (most recent call last)\n")
        broker.kill()
        verdict = hostile.Verdict(base_files=3, end_files=4, peak_bytes=10**9)
        hostile._judge(verdict, honest, broker)
    told = " ".join(verdict.faults)
    assert len(verdict.faults) == 5
    assert all(word in told for word in ("died", "grew", "files open", "out of order", "bugs"))


# Filters ---------------------------------------------------------------------------------------------------------

HONEST_FILTERS = [
    "TRUE",
    "topic = 't' AND price > 50",
    "(a = 1 OR b = 2) AND (c = 3 OR d LIKE '%x') AND NOT (e BETWEEN 1 AND 2) AND NOT (f BETWEEN 1 AND 2)",
    "NOT (a BETWEEN 1 AND 3 OR a BETWEEN 5 AND 7) AND b IN ('x', 'OR', '(')",
    '"OR" = 1 OR "(" = 2 OR NOT EXISTS c',
    " AND ".join(f"(a{n} = 1 OR b{n} = 2)" for n in range(6)),
    " AND ".join(f"NOT (a{n} BETWEEN 1 AND 2)" for n in range(32)),
]


@pytest.mark.parametrize("text", HONEST_FILTERS)
def test_filters_that_a_client_library_sends_are_read(text):
    for message in (Subscribe("s", parse_filter(text)), Advertise("s", parse_filter(text))):
        assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "text",
    [
        " AND ".join(f"(a{n} = 1 OR b{n} = 2)" for n in range(32)),
        " OR ".join(f"a{n} = {n}" for n in range(400)),
        " OR ".join(f"(a < {n} OR a > {n + 1})" for n in range(600)),
        "((a = 1))",
        "a = '" + "x" * 1_100_000 + "'",
        " AND ".join(f"a LIKE '%{n}%'" for n in range(500)),
        " AND ".join(f"(a = {n} OR a = 'x{n}')" for n in range(32)),
    ],
    ids=["distributed", "long", "many ranges", "nested", "large", "many patterns", "types mixed"],
)
def test_a_filter_that_takes_long_to_parse_ends_the_connection(broker, text):
    """One message of 1 KB kept a broker busy for minutes."""
    data = greeting_of("hostile") + b"".join(raw_messages([wire_tag(Subscribe), "s", text, True]))
    with stranger(broker.ready["client"]) as connection:
        connection.sendall(data)
        while _received(connection):
            pass
    assert "FilterError" in broker.log()
    assert broker.get("/healthz")[0] == 200


def greeting_of(name):
    class Fixed:
        def randrange(self, _):
            return 0

    return greeting(Fixed(), name)


def _received(connection):
    try:
        return connection.recv(65_536)
    except ConnectionResetError:
        return b""


# Memory ----------------------------------------------------------------------------------------------------------


def test_confirmations_that_nobody_reads_do_not_pile_up():
    """Frames that are sent again are confirmed again: as much memory as somebody cares to send."""
    written = []

    class Transport(asyncio.Transport):
        def set_write_buffer_limits(self, high=None, low=None):
            pass

        def write(self, data):
            written.append(data)

    async def send_many():
        connection = Connection(Handlers(lambda *_: None, lambda *_: None))
        connection.connection_made(Transport())
        connection.pause_writing()
        for upto in range(1, 1_000):
            connection.send(Ack(upto))
        await asyncio.sleep(0)
        assert written == []
        connection.resume_writing()
        await asyncio.sleep(0)
        connection.connection_lost(None)

    asyncio.run(send_many())
    assert list(FrameReader().feed(b"".join(written))) == [Ack(999)]


def test_names_the_size_of_a_frame_are_refused(broker):
    with clients(RawClient("s", broker)) as (s,):
        s.do(s.machine.subscribe("n" * 300, parse_filter("n >= 0")))
        s.subscribe("all", "n >= 0")
        assert broker.status()["clients"]["s"]["subscriptions"] == {"all": "n >= 0"}


def test_answers_of_the_operators_port_that_nobody_reads_are_given_up(broker):
    base = hostile.open_files(broker.process.pid)
    with ExitStack() as stack:
        for _ in range(80):
            connection = stack.enter_context(stranger(broker.ready["admin"]))
            connection.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n")
        eventually(lambda: hostile.open_files(broker.process.pid) <= base)


# Turns -----------------------------------------------------------------------------------------------------------


def test_silent_strangers_do_not_keep_others_out(tmp_path):
    """The oldest of too many strangers goes, not the newest."""
    settings = tmp_path / "b.toml"
    settings.write_text("[limits]\nstrangers = 5\n")
    with processes() as start, ExitStack() as stack:
        broker = start("b", tmp_path, "--config", settings)
        silent = [stack.enter_context(stranger(broker.ready["client"])) for _ in range(6)]
        assert _received(silent[0]) == b""
        with clients(RawClient("s", broker)) as (s,):
            eventually(s.is_up, pumping=[s])


def test_one_who_publishes_and_reads_gets_out_of_its_own_back_pressure(tmp_path):
    """Its confirmations come behind its events: a broker that does not read them would wait for ever."""
    settings = tmp_path / "b.toml"
    settings.write_text("[limits]\noutbox_bytes_high = 300_000\noutbox_bytes_low = 100_000\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings, "--heartbeat", "0.2")
        with clients(RawClient("both", broker, heartbeat=30)) as (both,):
            both.subscribe("all", "n >= 0")
            for n in range(100):
                both.do(both.machine.publish({"n": n}, bytes(10_000)))
            eventually(lambda: len(both.delivered()) == 100, pumping=[both])
            eventually(lambda: not broker.status()["publishers_paused"], pumping=[both])
            assert [event.attributes["n"] for event in both.delivered()] == list(range(100))


def test_who_takes_nothing_for_long_is_found_the_fullest_first():
    sessions = {name: Session("b", name, SessionState(1)) for name in ("a", "neighbour", "empty", "full", "moves")}
    for name, count in (("a", 1), ("neighbour", 9), ("full", 5), ("moves", 7)):
        for _ in range(count):
            sessions[name].send(b"x", now=0.0)
    stalled_consumers = StalledConsumers()
    stalled_consumers.begin(sessions, ["neighbour"], 100.0)
    sessions["moves"].first += 1
    assert stalled_consumers.idle(sessions, 100.0 + STALLED_SECONDS_MAX) == []
    assert stalled_consumers.idle(sessions, 100.1 + STALLED_SECONDS_MAX) == ["full", "a"]


@pytest.mark.slow
def test_publishers_do_not_wait_for_ever_for_clients_that_are_gone(tmp_path):
    """Each of several absent clients is below its limit, all together are above theirs."""
    settings = tmp_path / "b.toml"
    settings.write_text("[limits]\noutbox_bytes_high = 300_000\noutbox_bytes_low = 100_000\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings, "--heartbeat", "0.2")
        gone = [RawClient(f"gone-{n}", broker) for n in range(4)]
        with clients(RawClient("p", broker, heartbeat=30), *gone) as (p, *_):
            for client in gone:
                client.subscribe("all", "n >= 0")
                client.disconnect()
            for n in range(20):
                p.do(p.machine.publish({"n": n}, bytes(10_000)))
            eventually(lambda: broker.status()["publishers_paused"], pumping=[p])
            p.publish(n=20)
            eventually(lambda: len(p.seen(Observed.PUBLISH_ACK)) == 21, pumping=[p])
            assert broker.status()["counters"]["evicted"] >= 2
            eventually(lambda: gone[0].byes, pumping=[p, gone[0]])


# Logs ------------------------------------------------------------------------------------------------------------


def test_what_strangers_say_forges_no_lines(broker):
    reason = "bye\n2026-01-01 INFO b: all is well\x1b[2J" + "x" * 100_000
    with stranger(broker.ready["client"]) as connection:
        connection.sendall(greeting_of("hostile") + encode_frame(Bye(ByeReason.LEAVING, reason)))
        while _received(connection):
            pass
    eventually(lambda: "bye" in broker.log())
    lines = broker.log().splitlines()
    assert not [line for line in lines if line.startswith("2026-01-01") or "\x1b" in line]
    assert max(map(len, lines)) < 5_000
