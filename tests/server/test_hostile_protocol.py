"""What a client or a peer may say that was not asked for: it is refused, and nobody else notices (real brokers)."""

import json
import time

import pytest

from pleach.core.effects import Observed
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import Ack, Bye, ByeReason, Data, Extent, Hello, Read
from pleach.core.messages import Attach, Connect, ConnectAck, RequestRemove, Seek, Subscribe, Subscribed
from support.live.broker_process import RawClient, chain, clients, eventually, processes
from support.live.hostile import resident_bytes
from support.live.stranger import Stranger

LAST = 2**63 - 1


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """One for all that must not harm it; each test has clients of its own names."""
    with processes() as start:
        yield start("b", tmp_path_factory.mktemp("b"))


def settings(place, text):
    file = place / "b.toml"
    file.write_text(text)
    return ["--config", file]


# Row 12: roles ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["standby", "broker", "meter", "", "operator"])
def test_a_role_belongs_to_a_port(tmp_path, role):
    with processes() as start:
        broker = start("b", tmp_path)
        with Stranger(broker.ready["client"], "mallory", role=role) as liar:
            liar.hear_out()
            assert [bye.why for bye in liar.byes] == [ByeReason.REFUSED]
        with Stranger(broker.ready["peer"], "mallory", role="broker") as liar:
            liar.say(Bye(ByeReason.FENCED, "ha", is_at_work=True))
            liar.hear_out()
            assert [bye.why for bye in liar.byes] == [ByeReason.REFUSED]
        with Stranger(broker.ready["peer"], "mallory", role="client") as liar:
            liar.hear_out()
            assert [bye.why for bye in liar.byes] == [ByeReason.REFUSED]
        assert broker.get("/healthz")[0] == 200


def test_a_second_hello_does_not_change_the_role(tmp_path):
    """The first one names a former life of the broker, so that the session waits for a second one."""
    with processes() as start:
        broker = start("b", tmp_path)
        with Stranger(broker.ready["client"], "mallory", peer_epoch=7) as liar:
            liar.until(lambda it: it.greeted)
            liar.say(Hello("mallory", liar.epoch, liar.greeted.epoch, 0, 1, role="broker"))
            liar.hear_out()
            assert [bye.why for bye in liar.byes] == [ByeReason.REFUSED]
        with Stranger(broker.ready["peer"], "mallory", role="broker") as liar:
            liar.hear_out()
            assert [bye.why for bye in liar.byes] == [ByeReason.REFUSED]


# Row 9: epochs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path):
    """a dials b; both have data directories."""
    with processes() as start:
        a = start("a", tmp_path, "--neighbour", "b", durable=True)
        b = start("b", tmp_path, "--peer", f"a={a.ready['peer']}", durable=True)
        for broker in (a, b):
            eventually(broker.is_ready)
        yield a, b


@pytest.mark.parametrize("hours", [1, 700_000])
def test_an_epoch_from_the_future_fences_nobody(pair, hours):
    a, b = pair
    ahead = hours * 3_600 * 10**9  # at most 2^62
    b.kill()
    with Stranger(a.ready["peer"], "b", epoch=time.time_ns() + ahead, role="broker") as liar:
        liar.hear_out()
        assert [bye.why for bye in liar.byes] == [ByeReason.REFUSED]
    b.start()
    eventually(b.is_ready)
    with Stranger(a.ready["client"], "carol", epoch=time.time_ns() + ahead) as liar:
        liar.hear_out()
        assert "set the clocks" in liar.byes[0].reason


def test_a_broker_that_is_at_work_is_not_replaced(pair):
    a, b = pair
    with Stranger(a.ready["peer"], "b", role="broker") as liar:
        liar.hear_out()
        assert [bye.why for bye in liar.byes] == [ByeReason.REFUSED]
    assert a.is_ready()
    b.kill()
    b.start()
    eventually(b.is_ready)
    eventually(a.is_ready)


def test_who_comes_as_a_neighbour_cannot_end_a_broker(pair):
    a, b = pair
    a.kill()
    eventually(lambda: not b.is_ready())
    with Stranger(b.ready["peer"], "a", role="broker") as liar:
        liar.until(lambda it: it.greeted)
        liar.say(Bye(ByeReason.FENCED, "another b is at work", is_at_work=True))
        liar.hear_out()
    assert b.get("/healthz")[0] == 200
    assert "not proven" in b.log()


def test_a_broker_whose_newer_self_is_gone_goes_on_and_says_so(pair):
    """Somebody has come as b while b was away. Without a proof of names that ends its memory, but not its process."""
    a, b = pair
    b.kill()
    eventually(lambda: not a.is_ready())
    with Stranger(a.ready["peer"], "b", role="broker") as liar:
        liar.until(lambda it: it.greeted)
    eventually(lambda: not a.is_ready())
    b.start()
    eventually(lambda: "not proven" in b.log())
    assert b.get("/healthz")[0] == 200
    b.kill()
    b.arguments = [each for each in b.arguments if each not in ("--data-dir", str(b.place / "b"))]
    b.start()
    eventually(b.is_ready)


# Row 5: names of brokers and clients ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_connected", [True, False])
@pytest.mark.parametrize(("at", "name"), [("a", "c"), ("c", "a")])
def test_a_client_that_is_called_like_a_broker_does_not_stop_a_swap(tmp_path, at, name, is_connected):
    with processes() as start:
        brokers = dict(zip("abc", chain(start, tmp_path, durable=True), strict=True))
        with clients(RawClient("p", brokers["a"]), RawClient("s", brokers["c"])) as (p, s):
            s.subscribe("all", "n >= 0")
            with Stranger(brokers[at].ready["client"], name, epoch=time.time_ns() + 300 * 10**9) as liar:
                liar.tell(Attach(), Subscribe("all", parse_filter("n >= 0"), network_wide=False))
                liar.until(lambda it: any(isinstance(each, Subscribed) for each in it.messages))
                if is_connected:
                    swap(brokers["a"], "a", "b", "c")
                    liar.hear_out()
                    assert [bye.why for bye in liar.byes] == [ByeReason.BROKEN]
                    assert "name of a broker" in liar.byes[0].reason
            if not is_connected:
                eventually(lambda: name not in _connected(brokers[at]))
                swap(brokers["a"], "a", "b", "c")
            eventually(lambda: sorted(brokers["a"].status()["neighbours"]) == ["c"], pumping=[p, s])
            eventually(lambda: not any(each.status()["operation"] for each in brokers.values()), pumping=[p, s])
            for n in range(5):
                p.publish(n=n)
            eventually(lambda: len(s.delivered()) == 5, pumping=[p, s])
            with Stranger(brokers[at].ready["client"], name) as liar:
                liar.hear_out()
                assert [bye.why for bye in liar.byes] == [ByeReason.REFUSED]
            brokers["a"].kill()
            brokers["a"].start()
            eventually(brokers["a"].is_ready, pumping=[p, s])


def _connected(broker):
    return [name for name, client in broker.status()["clients"].items() if client["up"]]


def swap(broker, a, b, c):
    code, body = broker.post("/overlay/swap", json.dumps({"operation": "one", "a": a, "b": b, "c": c}))
    assert code in (200, 202), body


def test_a_client_that_is_called_like_a_broker_that_joins_gives_way(tmp_path):
    with processes() as start:
        a = start("a", tmp_path, durable=True)
        with Stranger(a.ready["client"], "n") as liar:
            liar.tell(Attach())
            liar.until(lambda it: it.messages)
            n = start("n", tmp_path)
            code, body = a.post("/overlay/expect", json.dumps({"broker": "n"}))
            assert code == 200, body
            request = {"operation": "j", "to": "a", "address": a.ready["peer"]}
            code, body = n.post("/overlay/add", json.dumps(request))
            assert code in (200, 202), body
            eventually(lambda: a.status()["neighbours"].keys() == {"n"})
            liar.hear_out()
        eventually(n.is_ready)


# Rows 2 and 6: readers ------------------------------------------------------------------------------------------------


def backlog(broker, name, payloads, size):
    """A client that is away, and for which so many events wait; returns it and its token."""
    owner, p = RawClient(name, broker), RawClient(f"p-of-{name}", broker)
    with clients(owner, p):
        owner.subscribe("all", f"for = '{name}'")
        owner.disconnect()
        for n in range(payloads):
            p.do(p.machine.publish({"for": name, "n": n}, bytes(size)))
        eventually(lambda: len(p.seen(Observed.PUBLISH_ACK)) == payloads, pumping=[p])
    with Stranger(broker.ready["client"], name, epoch=owner.endpoint.epoch) as same:  # as its own process would
        same.until(lambda it: it.greeted)
        return owner, same.greeted


def reader_of(broker, name, epoch, greeted, token=None, **more):
    numbers = {"peer_epoch": greeted.epoch, "role": "reader", "token": greeted.token if token is None else token}
    return Stranger(broker.ready["client"], name, epoch=epoch, **numbers, **more)


def test_who_has_not_the_token_reads_and_confirms_nothing(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path, durable=True)
        alice, greeted = backlog(broker, "alice", 10, 10)
        epoch = alice.endpoint.epoch
        for token in ("", "0" * 32, greeted.token[:-1]):
            for guess in (epoch, epoch - 1, epoch + 1):
                with reader_of(broker, "alice", guess, greeted, token) as liar:
                    liar.say(Read(0), Ack(greeted.first + 9))
                    liar.hear_out()
                    assert [bye.why for bye in liar.byes] == [ByeReason.REFUSED]
        for knock in (epoch - 1, 1):  # a second client of the name
            with Stranger(broker.ready["client"], "alice", epoch=knock) as liar:
                liar.hear_out()
                assert str(epoch) not in str(liar.heard)
        broker.kill()
        broker.start()
        with reader_of(broker, "alice", epoch, greeted) as reader:  # the token outlives a restart
            reader.say(Read(greeted.first - 1))
            reader.until(lambda it: any(isinstance(frame, Extent) for frame in it.heard))
            upto = max(frame.sequence for frame in reader.heard if isinstance(frame, Data))
            reader.say(Ack(upto))
            reader.until(lambda it: sum(isinstance(frame, Extent) for frame in it.heard) == 2)
        assert "a reader has confirmed what waited for alice" in broker.log()
        assert broker.status()["counters"]["read_confirmed"] >= 1


def test_a_newer_client_does_not_learn_the_epoch_of_the_former(broker):
    with clients(RawClient("carol", broker)) as (carol,):
        eventually(carol.is_up, pumping=[carol])
        epoch = carol.endpoint.epoch
        with Stranger(broker.ready["client"], "carol", peer_epoch=7) as liar:  # not taken for its session's Hello
            liar.until(lambda it: it.greeted)
            assert liar.greeted.peer_epoch not in (0, epoch)


def test_a_reader_that_reads_nothing_costs_little_memory(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path)
        alice, greeted = backlog(broker, "alice", 100, 100_000)
        base = resident_bytes(broker.process.pid)
        with reader_of(broker, "alice", alice.endpoint.epoch, greeted, receive_bytes=4_096) as liar:
            liar.say(*[Read(greeted.first - 1)] * 400)
            eventually(lambda: broker.status()["counters"]["strangers_closed"] > 0)
            assert resident_bytes(broker.process.pid) - base < 20 * 1_048_576
        with reader_of(broker, "alice", alice.endpoint.epoch, greeted) as reader:
            reader.say(*[Read(greeted.first - 1)] * 5)  # one who reads gets all the answers
            reader.until(lambda it: sum(isinstance(frame, Extent) for frame in it.heard) == 5)


# Row 10: a neighbour is no operator -----------------------------------------------------------------------------------


@pytest.mark.parametrize("by_seek", [True, False])
def test_a_neighbour_removes_no_broker(tmp_path, by_seek):
    """a – b – c, where the test plays a: b passed the request on, and c left the tree and ended."""
    with processes() as start:
        b = start("b", tmp_path, "--neighbour", "a", "--neighbour", "c")
        c = start("c", tmp_path, "--peer", f"b={b.ready['peer']}")
        eventually(c.is_ready)
        with Stranger(b.ready["peer"], "a", role="broker") as liar:
            liar.until(lambda it: it.greeted)
            remove = RequestRemove("one", "c")
            liar.tell(Seek(remove) if by_seek else remove)
            liar.hear_out()
        assert "a peer is no operator" in b.log()
        assert c.is_ready()
        assert c.status()["neighbours"].keys() == {"b"}
        assert not c.status()["operation"]


# Row 11: addresses ----------------------------------------------------------------------------------------------------

NO_ADDRESSES = ["a..b:7200", f"{'x' * 64}.example:7200", "a b:7200", "a\n:7200", "nonsense", "a:99999999", "a\x00:1"]


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_what_is_no_address_is_not_dialled(tmp_path, address):
    """It had been an error of the library, which no one expected: the process ended, and again at every start."""
    with processes() as start:
        b = start("b", tmp_path, *settings(tmp_path, 'welcome = ["n"]\n'), durable=True)
        with Stranger(b.ready["peer"], "n", role="broker") as liar:
            liar.until(lambda it: it.greeted)
            liar.tell(Connect("one", address))
            liar.hear_out()
        assert not b.status()["neighbours"]
        n = start("n", tmp_path)
        code, body = n.post("/overlay/add", json.dumps({"to": "b", "address": address}))
        assert code == 400, body
        assert n.get("/healthz")[0] == 200
        b.kill()
        b.start()
        assert b.get("/healthz")[0] == 200


@pytest.mark.parametrize("address", ["no-such-host.invalid:7200", f"{'ü' * 60}.example:7200"])
def test_a_host_that_cannot_be_found_is_unreachable(tmp_path, address):
    with processes() as start:
        b = start("b", tmp_path, *settings(tmp_path, 'welcome = ["n"]\n'), durable=True)
        with Stranger(b.ready["peer"], "n", role="broker") as liar:
            liar.until(lambda it: it.greeted)
            liar.tell(Connect("one", address))
            liar.until(lambda it: any(isinstance(each, ConnectAck) for each in it.messages))
        eventually(lambda: b.status()["neighbours"].keys() == {"n"})
        b.kill()
        b.start()
        assert "n" in b.status()["neighbours"]
        assert b.get("/healthz")[0] == 200
        assert "Traceback" not in b.log()


@pytest.mark.parametrize("address", ["a..b:7200", f"{'x' * 64}:7200"])
def test_a_setting_that_is_no_address_is_refused_at_the_start(tmp_path, address):
    with processes() as start, pytest.raises(AssertionError, match="is no address"):
        start("b", tmp_path, "--peer", f"a={address}")
