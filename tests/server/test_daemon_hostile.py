"""What strangers, ghosts and slow clients can do to a broker: nothing that the others notice."""

import json
import math
import random
import re
import signal
import socket
import time
from contextlib import ExitStack

import pytest

from pleach.core.effects import Observed
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import BROKER, CLIENT, Ack, Bye, ByeReason, Data, FrameReader, Hello, encode_frame
from pleach.core.messages import Along, Forward, Mark, Marked, Publish, Said, encode
from pleach.core.messages.runs import encode_event, encode_run
from pleach.server.http import open_connections
from support.live.broker_process import RawClient, address, clients, eventually, processes, pump
from support.live.hostile import open_files
from support.live.hostile_http import FOLLOWED, HUGE_HEADS, TWO_HOSTS, TWO_LENGTHS

EPOCH = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """One for all that must not harm it; each test has clients of its own names."""
    with processes() as start:
        yield start("b", tmp_path_factory.mktemp("b"))


@pytest.fixture(scope="module")
def expectant(tmp_path_factory):
    """A broker whose neighbour never comes."""
    with processes() as start:
        yield start("b", tmp_path_factory.mktemp("b"), "--neighbour", "a")


def answer(door, data):
    """What a broker says to a stranger, until it hangs up; `data` is sent at once."""
    with socket.create_connection(address(door), timeout=60) as connection:
        connection.sendall(data)
        reader, frames = FrameReader(), []
        while received := _received(connection):
            frames += reader.feed(received)
        return frames


def _received(connection):
    try:
        return connection.recv(65_536)
    except ConnectionResetError:
        return b""


def hello(node, epoch=EPOCH, **changes):
    numbers = (changes.get("peer_epoch", 0), changes.get("received", 0), changes.get("first", 1))
    return encode_frame(Hello(node, epoch, *numbers, role=changes.get("role", CLIENT)))


def closed_strangers(broker):
    return broker.status()["counters"]["strangers_closed"]


def test_a_hundred_garbage_connections_leave_it_healthy(broker):
    before = closed_strangers(broker)
    rng = random.Random(7)
    for n in range(100):
        door = broker.ready["client" if n % 2 else "peer"]
        data = rng.randbytes(rng.randrange(1, 300)) if n % 3 else encode_frame(Data(1, b"x"))
        with socket.create_connection(address(door), timeout=60) as connection:
            connection.sendall(data)
    eventually(lambda: closed_strangers(broker) == before + 100)
    assert broker.get("/healthz")[0] == 200
    with clients(RawClient("healthy", broker)) as (s,):
        s.subscribe("all", "healthy >= 0")
        s.publish(healthy=1)
        eventually(lambda: len(s.delivered()) == 1, pumping=[s])


@pytest.mark.parametrize(
    ("door", "name"),
    [("client", "a"), ("client", "b"), ("client", ""), ("client", "x" * 300), ("peer", "stranger"), ("peer", "b")],
)
def test_a_name_that_does_not_belong_to_the_port_is_refused_and_told(expectant, door, name):
    before = closed_strangers(expectant)
    (bye,) = answer(expectant.ready[door], hello(name, role=BROKER if door == "peer" else CLIENT))
    assert bye.why is ByeReason.REFUSED
    assert bye.reason
    eventually(lambda: closed_strangers(expectant) == before + 1)


@pytest.mark.parametrize("changes", [{"epoch": 2**62}, {"first": 2**63 - 1}, {"received": 2**62}])
def test_numbers_that_no_store_can_keep_are_refused(broker, changes):
    before = closed_strangers(broker)
    (bye,) = answer(broker.ready["client"], hello("absurd", **changes))
    assert isinstance(bye, Bye)
    assert bye.why is ByeReason.REFUSED
    eventually(lambda: closed_strangers(broker) == before + 1)


@pytest.mark.parametrize("changes", [{"epoch": 2**64 - 1}, {"epoch": 0}, {"received": -1}, {"first": 0}])
def test_numbers_that_no_hello_has_end_the_connection_without_a_word(broker, changes):
    """It is no frame: nobody who could read an answer sends it."""
    before = closed_strangers(broker)
    assert answer(broker.ready["client"], hello("absurd", **changes)) == []
    eventually(lambda: closed_strangers(broker) == before + 1)


def test_frames_out_of_place_end_that_connection_only(broker):
    with clients(RawClient("calm", broker)) as (s,):
        s.subscribe("all", "calm >= 0")
        for n, data in enumerate([b"\xc1", b"\x93garbage", b""]):
            frames = answer(broker.ready["client"], hello(f"t{n}") + encode_frame(Data(1, data)))
            assert isinstance(frames[0], Hello)
        answer(broker.ready["client"], hello("u") + encode_frame(Ack(10_000)))
        answer(broker.ready["client"], hello("v") + encode_frame(Data(7, b"")))
        s.publish(calm=1)
        eventually(lambda: len(s.delivered()) == 1, pumping=[s])


@pytest.fixture(scope="module")
def rebuilding(tmp_path_factory):
    """A broker that rebuilds its tables, with a neighbour that each test plays itself."""
    place = tmp_path_factory.mktemp("rebuilding")
    settings = place / "b.toml"
    settings.write_text('[stabilise]\nkind = "rebuild"\nrefresh = 0.5\nperiod = 5.0\n')
    with processes() as start:
        yield start("b", place, "--neighbour", "a", "--config", settings)


ODD_EVENTS = {
    "a number that is none": Event(EventId("p", 0, 1), {"odd": math.nan}),
    "a nested map": Event(EventId("p", 0, 1), {"odd": {"odd": 1}}),
    "a list": Event(EventId("p", 0, 1), {"odd": [1]}),
    "an id that is none": Event(EventId("p", 0, 0), {"odd": 1}),
}
WRAPPED = {
    "along a tree": lambda event: encode(Along("a", Forward(event))),
    "marked": lambda event: encode(Marked("1", Mark.FLOOD, "a", Forward(event))),
    "alone": lambda event: encode(Forward(event)),
    "in a run": lambda event: encode_run(Forward, 2, 2 * encode_event(event)),
    "of a client": lambda event: encode(Said("p", Publish(event))),
}


@pytest.mark.parametrize("wrapped", WRAPPED)
@pytest.mark.parametrize("odd", ODD_EVENTS)
def test_an_event_of_a_neighbour_that_is_none_ends_that_connection_only(rebuilding, odd, wrapped):
    with clients(RawClient("calm", rebuilding)) as (s,):
        s.do(s.machine.subscribe("all", parse_filter("EXISTS odd"), network_wide=False))
        eventually(lambda: s.seen(Observed.SUBSCRIBE_ACK), pumping=[s])
        refused = rebuilding.log().count("EventError")
        frames = answer(
            rebuilding.ready["peer"],
            hello("a", time.time_ns(), role=BROKER) + encode_frame(Data(1, WRAPPED[wrapped](ODD_EVENTS[odd]))),
        )
        assert isinstance(frames[0], Hello)
        eventually(lambda: rebuilding.log().count("EventError") == refused + 1, pumping=[s])
        assert rebuilding.get("/healthz")[0] == 200
        s.publish(odd=1)
        eventually(s.delivered, pumping=[s])
        assert [event.attributes for event in s.delivered()] == [{"odd": 1}]
        s.do(s.machine.detach())
        pump(s)


def test_a_client_cannot_tell_a_broker_that_it_is_a_ghost(broker):
    answer(broker.ready["client"], hello("joker") + encode_frame(Bye(ByeReason.FENCED, "ha")))
    with clients(RawClient("joker", broker)) as (s,):
        eventually(s.is_up, pumping=[s])


def test_those_who_say_nothing_are_few_and_not_for_long(tmp_path):
    settings = tmp_path / "b.toml"
    settings.write_text("[limits]\nstrangers = 3\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings)
        silent = [socket.create_connection(address(broker.ready["client"]), timeout=60) for _ in range(5)]
        eventually(lambda: closed_strangers(broker) == 2)
        eventually(lambda: closed_strangers(broker) == 5)  # after the five seconds that a greeting may take
        for connection in silent:
            assert not _received(connection)
            connection.close()


def test_a_client_of_the_same_name_and_a_newer_epoch_wins(broker):
    with clients(RawClient("two", broker, epoch=EPOCH), RawClient("two", broker, epoch=EPOCH + 1)) as (old, new):
        eventually(old.is_up, pumping=[old])
        eventually(new.is_up, pumping=[new])
        eventually(lambda: old.fenced, pumping=[old])
        new.subscribe("all", "two >= 0")
        new.publish(two=1)
        eventually(lambda: len(new.delivered()) == 1, pumping=[new])
        ghost = answer(broker.ready["client"], hello("two", EPOCH - 1))
        assert [frame.why for frame in ghost] == [ByeReason.FENCED]
        new.publish(two=2)
        eventually(lambda: len(new.delivered()) == 2, pumping=[new])


def test_a_client_that_comes_back_with_its_epoch_resumes(broker):
    with clients(RawClient("back", broker), RawClient("p", broker)) as (s, p):
        s.subscribe("all", "back >= 0")
        s.disconnect()
        for n in range(10):
            p.publish(back=n)
        eventually(lambda: len(p.seen(Observed.PUBLISH_ACK)) == 10, pumping=[p])
        assert broker.status()["clients"]["back"]["queued"] >= 10
        eventually(lambda: len(s.delivered()) == 10, pumping=[s, p])
        assert [event.attributes["back"] for event in s.delivered()] == list(range(10))


def test_a_slow_consumer_is_sent_away_and_the_others_do_not_notice(tmp_path):
    settings = tmp_path / "b.toml"
    settings.write_text("[limits]\noutbox_bytes_per_client = 1_000_000\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings)
        with clients(RawClient("slow", broker), RawClient("good", broker), RawClient("p", broker)) as (slow, good, p):
            slow.subscribe("all", "n >= 0")
            good.subscribe("all", "n >= 0")
            for n in range(30):
                p.do(p.machine.publish({"n": n}, b"x" * 50_000))
                eventually(lambda wanted=n + 1: len(good.delivered()) == wanted, pumping=[p, good])
            assert len(good.delivered()) == 30
            status = broker.status()
            assert status["counters"]["evicted"] == 1
            assert "slow" not in status["clients"]
            assert status["outbox_bytes"] < 1_000_000
            eventually(lambda: slow.byes, pumping=[slow])
            assert slow.byes[0].why is ByeReason.BROKEN


def test_a_client_that_was_sent_away_while_absent_cannot_resume_in_silence(tmp_path):
    settings = tmp_path / "b.toml"
    settings.write_text("[limits]\noutbox_bytes_per_client = 50_000\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings, durable=True)
        with clients(RawClient("away", broker), RawClient("p", broker)) as (away, p):
            away.subscribe("all", "n >= 0")
            away.disconnect()
            for n in range(20):
                p.do(p.machine.publish({"n": n}, b"x" * 10_000))
            eventually(lambda: len(p.seen(Observed.PUBLISH_ACK)) == 20, pumping=[p])
            broker.kill()
            broker.start()
            eventually(lambda: away.byes, pumping=[away])
            assert away.byes[0].why is ByeReason.BROKEN


def test_publishers_are_not_read_from_while_too_much_waits(tmp_path):
    settings = tmp_path / "b.toml"
    settings.write_text("[limits]\noutbox_bytes_high = 300_000\noutbox_bytes_low = 100_000\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings, "--heartbeat", "0.2")
        with clients(RawClient("slow", broker), RawClient("p", broker, heartbeat=30)) as (slow, p):
            slow.subscribe("all", "n >= 0")
            slow.disconnect()
            for n in range(300):
                p.do(p.machine.publish({"n": n}, b"x" * 10_000))
                pump(p, seconds=0.0)
                if broker.status()["publishers_paused"]:
                    break
            assert broker.status()["publishers_paused"]
            published = n + 1
            eventually(lambda: len(slow.delivered()) == published, pumping=[slow, p])
            eventually(lambda: not broker.status()["publishers_paused"], pumping=[slow, p])
            p.publish(n=-1)
            eventually(lambda: len(p.seen(Observed.PUBLISH_ACK)) == published + 1, pumping=[slow, p])


def test_a_full_disk_refuses_publishes_until_consumers_have_made_room(tmp_path):
    settings = tmp_path / "b.toml"
    settings.write_text("[limits]\ndata_bytes = 2_000_000\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings, durable=True)
        with clients(RawClient("s", broker), RawClient("p", broker)) as (s, p):
            s.subscribe("all", "n >= 0")
            s.disconnect()
            answers = (Observed.PUBLISH_ACK, Observed.PUBLISH_FAIL)
            answered = lambda: sum(len(p.seen(kind)) for kind in answers)  # noqa: E731
            for n in range(400):  # what is on its way stays below the reserve, also where the machine is busy
                p.do(p.machine.publish({"n": n}, b"x" * 10_000))
                if n % 5 == 0:
                    eventually(lambda n=n: answered() > n - 10, pumping=[p])
            eventually(lambda: answered() == 400, pumping=[p])
            refused = p.seen(Observed.PUBLISH_FAIL)
            assert len(refused) > 100
            assert "short of space" in refused[0].detail
            assert not broker.is_ready()
            broker.kill()
            broker.start()
            taken = [o.event_id for o in p.seen(Observed.PUBLISH_ACK)]
            eventually(lambda: len(s.delivered()) == len(taken), pumping=[s, p])
            assert [str(event.id) for event in s.delivered()] == taken
            eventually(lambda: _is_taken(p), pumping=[s, p])


def _is_taken(client):
    """Publish once more; whether the last answer was a yes."""
    client.publish(n=-1)
    pump(client)
    return client.observed[-1].kind is Observed.PUBLISH_ACK


def test_one_burst_beyond_the_quota_is_held_and_not_lost(tmp_path):
    """More than the reserve in one go: the batch itself does not fit, and waits for a consumer."""
    settings = tmp_path / "b.toml"
    settings.write_text("[limits]\ndata_bytes = 1_100_000\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings, durable=True)
        with clients(RawClient("s", broker), RawClient("p", broker)) as (s, p):
            s.subscribe("all", "n >= 0")
            s.disconnect()
            for n in range(3):
                p.do(p.machine.publish({"n": n}, b"x" * 400_000))
            eventually(lambda: broker.status()["publishes_refused"], pumping=[p])
            eventually(lambda: len(s.delivered()) + len(p.seen(Observed.PUBLISH_FAIL)) == 3, pumping=[s, p])
            eventually(lambda: len(p.seen(Observed.PUBLISH_ACK)) == len(s.delivered()), pumping=[s, p])
            eventually(lambda: not broker.status()["publishes_refused"] or _is_taken(p), pumping=[s, p])
            assert [event.attributes["n"] for event in s.delivered()][:2] == [0, 1]


def test_too_many_clients_are_refused_and_told(tmp_path):
    settings = tmp_path / "b.toml"
    settings.write_text("[limits]\nclients = 2\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings)
        with clients(*(RawClient(name, broker) for name in ("s", "t"))) as (s, t):
            eventually(lambda: len(broker.status()["clients"]) == 2, pumping=[s, t])
            (bye,) = answer(broker.ready["client"], hello("u"))
            assert bye == Bye(ByeReason.REFUSED, "b has 2 clients, its limit")
            s.do(s.machine.detach())
            eventually(lambda: len(broker.status()["clients"]) == 1, pumping=[s, t])
            s.disconnect()
            eventually(lambda: broker.status()["clients"].keys() == {"t"}, pumping=[t])
            with clients(RawClient("u", broker)) as (u,):
                eventually(lambda: "u" in broker.status()["clients"], pumping=[t, u])


# The process -----------------------------------------------------------------------------------------------------


def test_a_second_broker_on_the_same_data_directory_does_not_start(tmp_path):
    with processes() as start:
        start("b", tmp_path, durable=True)
        with pytest.raises(AssertionError, match="held by another process"):
            start("b", tmp_path, durable=True)


def test_hangup_reads_the_file_again(tmp_path):
    settings = tmp_path / "b.toml"
    settings.write_text("heartbeat = 1.0\n")
    with processes() as start:
        broker = start("b", tmp_path, "--config", settings)
        settings.write_text("heartbeat = 2.0\nrouting = 'simple'\n[limits]\nclients = 1\n")
        broker.signal(signal.SIGHUP)
        eventually(lambda: "after a restart: routing" in broker.log())
        with clients(RawClient("s", broker)) as (s,):
            eventually(s.is_up, pumping=[s])
            (bye,) = answer(broker.ready["client"], hello("t"))
            assert "1 clients" in bye.reason
        settings.write_text("heartbeat = 'often'\n")
        broker.signal(signal.SIGHUP)
        eventually(lambda: "the settings stay as they are" in broker.log())
        assert broker.stop() == 0


def test_stop_says_goodbye(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path)
        with clients(RawClient("s", broker)) as (s,):
            eventually(s.is_up, pumping=[s])
            broker.signal(signal.SIGTERM)
            eventually(lambda: s.byes, pumping=[s])
            assert s.byes[0].why is ByeReason.LEAVING
        assert broker.wait() == 0


# Admin -----------------------------------------------------------------------------------------------------------

SAMPLE = re.compile(r'pleach_[a-z_]+(\{[a-z]+="[^"]*"\})? [0-9.e+-]+')


def test_the_operators_pages(expectant):
    assert expectant.get("/healthz") == (200, '{"alive":true}\n')
    code, body = expectant.get("/readyz")
    assert code == 503
    assert json.loads(body) == {"ready": False, "reasons": ["no link to a"]}
    code, text = expectant.get("/metrics")
    assert code == 200
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples)
    assert 'pleach_link_up{neighbour="a"} 0' in samples
    assert "pleach_publishes_total 0" in samples
    assert expectant.get("/nowhere")[0] == 404
    assert expectant.get("/status", method="POST")[0] == 405
    assert expectant.get("/" + "x" * 20_000)[0] == 431
    assert expectant.get("/healthz")[0] == 200


def raw_answer(broker, data):
    """All that the operators' port says, until it hangs up."""
    with socket.create_connection(address(broker.ready["admin"]), timeout=60) as connection:
        connection.sendall(data)
        said = b""
        while received := _received(connection):
            said += received
        return said


@pytest.mark.parametrize("sources", [["127.0.0.1"], [f"127.0.0.{n}" for n in range(1, 9)]], ids=["one", "eight"])
def test_silent_connections_to_the_operators_port_keep_nobody_out(broker, sources):
    before = open_files(broker.process.pid)
    with ExitStack() as stack:
        for n in range(400):
            source = (sources[n % len(sources)], 0)
            there = stack.enter_context(socket.create_connection(address(broker.ready["admin"]), 60, source))
            there.sendall(b"" if n % 2 else b"GET /status HTTP/1.1\r\nX: ")
            if n % 20 == 0:
                assert broker.get("/healthz")[0] == 200
        assert broker.get("/healthz")[0] == broker.get("/status")[0] == 200
        assert open_files(broker.process.pid) <= before + open_connections.WAITING_MAX + 1
        eventually(lambda: open_files(broker.process.pid) <= before)  # they had five seconds to ask for something
    assert broker.get("/healthz")[0] == 200


def get_paths(broker):
    """All pages of a real broker, as it lists them itself."""
    listed = json.loads(broker.get("/nowhere")[1])["remedy"].removeprefix("there are ").split(", ")
    return [path for path in listed if not path.startswith("POST ")]


def test_no_page_is_there_for_a_name_that_was_pointed_at_the_broker(broker):
    paths = get_paths(broker)
    assert {"/healthz", "/metrics", "/status", "/dashboard/", "/dashboard/stream"} <= set(paths)
    for path in (*paths, "/nowhere"):
        said = raw_answer(broker, f"GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n".encode())
        assert said.startswith(b"HTTP/1.1 421 "), path
    assert raw_answer(broker, b"GET /metrics HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 421 ")


def test_looking_changes_nothing(broker):
    """Of all that a broker tells, only the counters of this port's own traffic may differ."""

    def told():
        code, text = broker.get("/status")
        return code, {key: value for key, value in json.loads(text).items() if key != "counters"}

    before = told()
    for path in get_paths(broker):
        if path != "/dashboard/stream":
            assert broker.get(path)[0] in (200, 301, 404)
    assert told() == before
    assert broker.get("/traffic")[0] == broker.get("/traffic", method="PUT")[0] == 405


@pytest.mark.parametrize("request_", [*TWO_HOSTS, *TWO_LENGTHS, *FOLLOWED, *HUGE_HEADS])
def test_a_request_is_read_in_one_way_or_refused(broker, request_):
    said = raw_answer(broker, request_)
    assert len(re.findall(rb"HTTP/1\.1 \d", said)) == 1
    assert b"smuggled" not in said
    if request_ not in FOLLOWED:
        assert re.match(rb"HTTP/1\.1 (400|411|421|431|501) ", said)
