"""Three real broker processes in a chain: events cross it, and no signal loses one."""

import signal

import pytest

from pleach.core.effects import Observed
from support.live.broker_process import RawClient, chain, clients, eventually, processes, pump
from support.thorough import FACTOR

ROUNDS = 3 * FACTOR
EVENTS_PER_ROUND = 150


def numbers(client):
    return [event.attributes["n"] for event in client.delivered()]


def test_events_cross_the_chain_to_whom_they_concern(tmp_path):
    with processes() as start:
        a, _b, c = chain(start, tmp_path)
        with clients(RawClient("p", a), RawClient("s", c), RawClient("t", c)) as (p, s, t):
            s.subscribe("high", "n >= 10")
            t.subscribe("low", "n < 10")
            for n in range(20):
                p.publish(n=n)
            eventually(lambda: len(numbers(s)) + len(numbers(t)) == 20, pumping=[p, s, t])
            eventually(lambda: len(p.seen(Observed.PUBLISH_ACK)) == 20, pumping=[p, s, t])
            assert numbers(s) == list(range(10, 20))
            assert numbers(t) == list(range(10))
            assert a.status()["counters"]["publishes"] == 20
            assert c.status()["clients"]["s"]["subscriptions"] == {"high": "n >= 10"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_durable_middle_broker_comes_back_and_nothing_is_lost_doubled_or_out_of_order(tmp_path, number):
    with processes() as start:
        a, b, c = chain(start, tmp_path, durable=True, extra=["--heartbeat", "2"])
        with clients(RawClient("p", a), RawClient("s", c)) as (p, s):
            s.subscribe("all", "n >= 0")
            sent = 0
            for _ in range(ROUNDS if number is signal.SIGKILL else 1):
                for i in range(EVENTS_PER_ROUND):
                    p.publish(n=sent)
                    sent += 1
                    if i % 10 == 0:
                        pump(p, s, seconds=0.001)
                    if i == EVENTS_PER_ROUND // 2:
                        b.signal(number)
                        assert b.wait() == (0 if number is signal.SIGTERM else -signal.SIGKILL)
                b.start()
            eventually(lambda: len(numbers(s)) >= sent, pumping=[p, s])
            eventually(lambda: len(p.seen(Observed.PUBLISH_ACK)) == sent, pumping=[p, s])
            assert numbers(s) == list(range(sent))


def test_a_durable_edge_broker_keeps_its_clients_over_kill_9(tmp_path):
    with processes() as start:
        a, _b, c = chain(start, tmp_path, durable=True)
        with clients(RawClient("p", a), RawClient("s", c)) as (p, s):
            s.subscribe("all", "n >= 0")
            for n in range(200):
                p.publish(n=n)
                if n in (60, 140):
                    pump(p, s, seconds=0.001)
                    broker = c if n == 60 else a
                    broker.kill()
                    broker.start()
            eventually(lambda: len(numbers(s)) >= 200, pumping=[p, s])
            assert numbers(s) == list(range(200))


def test_in_memory_a_broker_that_comes_back_gets_the_subscriptions_again(tmp_path):
    """What was under way may be lost, and the log says so; the network works again."""
    with processes() as start:
        a, b, c = chain(start, tmp_path)
        assert "in memory only" in b.log()
        with clients(RawClient("p", a), RawClient("s", c)) as (p, s):
            s.subscribe("all", "n >= 0")
            b.kill()
            b.start()
            for broker in (a, b, c):
                eventually(broker.is_ready, pumping=[p, s])
            eventually(lambda: b.status()["remote_entries"] == 1, pumping=[p, s])
            eventually(lambda: a.status()["remote_entries"] == 1, pumping=[p, s])
            p.publish(n=1)
            eventually(lambda: numbers(s) == [1], pumping=[p, s])


def test_two_that_dial_each_other_settle_on_one_connection(tmp_path):
    with processes() as start:
        b = start("b", tmp_path, "--neighbour", "a")
        a = start("a", tmp_path, "--peer", f"b={b.ready['peer']}")
        b.stop()
        b.arguments += ["--peer", f"a={a.ready['peer']}"]
        b.start()
        with clients(RawClient("p", a), RawClient("s", b)) as (p, s):
            s.subscribe("all", "n >= 0")
            for n in range(50):
                p.publish(n=n)
                pump(p, s, seconds=0.001)
            eventually(lambda: numbers(s) == list(range(50)), pumping=[p, s])
            eventually(lambda: a.is_ready() and b.is_ready(), pumping=[p, s])
