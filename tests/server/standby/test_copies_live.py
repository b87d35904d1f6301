"""Brokers with copies on other machines, as real processes: what is confirmed, who catches up how, who takes over."""

import time

import pytest

from pleach.server.standby.registers import display
from pleach.server.storage.store import Store
from support.live.broker_process import clients, eventually, pump
from support.standby.copied_brokers import TestClient, broker_and_hosts, chain_of_three, machines


def subscriber_and_publisher(b):
    s, p = TestClient("s", b), TestClient("p", b)
    s.subscribe("all", "n >= 0")
    return s, p


def test_a_publish_is_confirmed_when_both_disks_have_it_and_not_before(tmp_path):
    with machines(tmp_path) as start:
        b, host = broker_and_hosts(start, "h", after=30)
        s, p = subscriber_and_publisher(b)
        with clients(s, p):
            p.publish_all(range(10))
            eventually(lambda: len(p.confirmed) == 10, pumping=[s, p])
            host.stop_running()
            p.publish_all(range(10, 20))
            until = time.monotonic() + 1.5
            while time.monotonic() < until:
                pump(s, p)
            assert len(p.confirmed) == 10
            assert s.numbers() == list(range(10))
            assert b.told()["waiting"]["for"] == [next(iter(b.told()["copies"]))]
            assert p.is_up()  # it is told that the broker lives
            host.go_on()
            eventually(lambda: len(p.confirmed) == 20 and len(s.numbers()) == 20, pumping=[s, p])
            assert s.numbers() == list(range(20))
        b.kill()
        host.kill()
        with (
            Store.open(b.data, "b", epoch=1) as own,
            Store.open(host.data / "standby" / "b" / "data", "b", epoch=1) as copy,
        ):
            assert own.position == copy.position
            assert own.load() == copy.load()


def test_a_standby_that_restarts_gets_the_records_that_it_lacks(tmp_path):
    with machines(tmp_path) as start:
        b, host = broker_and_hosts(start, "h", after=30)
        s, p = subscriber_and_publisher(b)
        with clients(s, p):
            p.publish_all(range(10))
            eventually(lambda: len(p.confirmed) == 10, pumping=[s, p])
            host.kill()
            p.publish_all(range(10, 20))
            pump(s, p, seconds=0.5)
            host.restart()
            eventually(lambda: len(p.confirmed) == 20 and len(s.numbers()) == 20, pumping=[s, p])
        assert b.log().count("gets a copy of all") == 1


def test_a_machine_that_is_lost_is_replaced_by_another_while_events_flow(tmp_path):
    with machines(tmp_path) as start:
        b, one, two = broker_and_hosts(start, "h1", "h2")
        s, p = subscriber_and_publisher(b)
        with clients(s, p):
            p.publish_all(range(100))
            eventually(lambda: len(p.confirmed) == 100, pumping=[s, p])
            (copy,) = b.told()["copies"]
            lost, other = (one, two) if copy.startswith("h1") else (two, one)
            lost.destroy()
            p.publish_all(range(100, 200))
            eventually(lambda: len(p.confirmed) == 200 and len(s.numbers()) == 200, pumping=[s, p])
            assert s.numbers() == list(range(200))
        assert [display(each) for each in b.told()["copies"]] == [other.name]


def test_a_broker_whose_machine_is_lost_comes_back_elsewhere_with_everything(tmp_path):
    with machines(tmp_path) as start:
        b, one, two = broker_and_hosts(start, "h1", "h2")
        s, p = subscriber_and_publisher(b)
        with clients(s, p):
            p.publish_all(range(50))
            eventually(lambda: len(p.confirmed) == 50 and len(s.numbers()) == 50, pumping=[s, p])
            s.disconnect()
            p.publish_all(range(50, 100))
            eventually(lambda: len(p.confirmed) == 100, pumping=[p])
            b.destroy()
            again = eventually(lambda: one.promoted("b") or two.promoted("b"))
            s.moves_to(again)
            p.moves_to(again)
            p.publish_all(range(100, 150))
            eventually(lambda: len(p.confirmed) == 150 and len(s.numbers()) == 150, pumping=[s, p])
            assert s.numbers() == list(range(150))
        eventually(lambda: again.is_covered)


def test_a_primary_that_was_replaced_returns_as_a_standby_and_takes_over_again(tmp_path):
    with machines(tmp_path) as start:
        b, *hosts = broker_and_hosts(start, "h1", "h2")
        s, p = subscriber_and_publisher(b)
        with clients(s, p):
            p.publish_all(range(10))
            eventually(lambda: len(p.confirmed) == 10 and len(s.numbers()) == 10, pumping=[s, p])
            b.kill()
            first = eventually(lambda: [host for host in hosts if host.promoted("b")])[0]
            (second,) = [host for host in hosts if host is not first]
            b.restart()
            again = first.promoted("b")
            s.moves_to(again)
            p.moves_to(again)
            p.publish_all(range(10, 20))
            eventually(lambda: len(p.confirmed) == 20 and len(s.numbers()) == 20, pumping=[s, p])
            eventually(lambda: again.is_covered and machines_of(again) == {first.name, second.name, "b"})
            second.destroy()
            p.publish_all(range(20, 30))
            eventually(lambda: len(p.confirmed) == 30 and len(s.numbers()) == 30, pumping=[s, p])
            assert [display(copy) for copy in again.told()["copies"]] == ["b"]
        third = start("h3", has_broker=False, port=second.port)
        eventually(lambda: machines_of(again) == {first.name, "b", third.name})
        before = b.log().count("clients are let in")
        first.destroy()
        with clients(s, p):
            eventually(lambda: b.log().count("clients are let in") > before)
            s.moves_to(b)
            p.moves_to(b)
            p.publish_all(range(30, 40))
            eventually(lambda: len(p.confirmed) == 40 and len(s.numbers()) == 40, pumping=[s, p])
            assert s.numbers() == list(range(40))


def machines_of(broker):
    """The members of its view."""
    told = broker.told()
    return {display(machine) for machine in (told["machine"], *told["copies"], *told["witnesses"])}


def test_two_machines_have_no_majority_and_an_operator_decides(tmp_path):
    with machines(tmp_path) as start:
        b, host = broker_and_hosts(start, "h")
        s, p = subscriber_and_publisher(b)
        with clients(s, p):
            p.publish_all(range(10))
            eventually(lambda: len(p.confirmed) == 10 and len(s.numbers()) == 10, pumping=[s, p])
            status, refusal = host.post("/standby/promote", '{"broker": "b"}')
            assert (status, "is heard here" in refusal) == (409, True)
            b.kill()
            eventually(lambda: host.post("/standby/promote", '{"broker": "b"}')[0] == 200)
            again = eventually(lambda: host.promoted("b"))
            b.restart()
            eventually(lambda: again.is_covered)
            s.moves_to(again)
            p.moves_to(again)
            p.publish_all(range(10, 20))
            eventually(lambda: len(p.confirmed) == 20 and len(s.numbers()) == 20, pumping=[s, p])
            assert s.numbers() == list(range(20))


def test_the_middle_of_a_chain_is_destroyed_and_events_flow_again(tmp_path):
    """Nobody has named machines for copies: each of the three holds those of others."""
    with machines(tmp_path) as start:
        a, b, c = chain_of_three(start)
        s, p = TestClient("s", c), TestClient("p", a)
        s.subscribe("all", "n >= 0")
        with clients(s, p):
            p.publish_all(range(100))
            eventually(lambda: len(s.numbers()) == 100 and len(p.confirmed) == 100, pumping=[s, p])
            b.destroy()
            p.publish_all(range(100, 200))
            eventually(lambda: len(s.numbers()) == 200 and len(p.confirmed) == 200, pumping=[s, p])
            assert s.numbers() == list(range(200))
            again = eventually(lambda: a.promoted("b") or c.promoted("b"))
            eventually(lambda: all(broker.is_covered and broker.is_ready() for broker in (a, again, c)))


def test_a_broker_does_not_forget_its_standbys_with_the_settings(tmp_path):
    """They would run it, and it would confirm what they do not have."""
    with machines(tmp_path) as start:
        b, _ = broker_and_hosts(start, "h")
        b.kill()
        b.settings.write_text("")
        with pytest.raises(AssertionError, match="b has copies or votes at b, h"):
            b.restart()


def test_nothing_is_left_of_a_broker_that_leaves_for_good(tmp_path):
    with machines(tmp_path) as start:
        a, b, c = chain_of_three(start)
        eventually(lambda: (a.data / "standby" / "c").exists() and (b.data / "standby" / "c").exists())
        assert c.post("/overlay/remove", '{"broker": "c"}')[0] == 200
        assert c.wait() == 0
        eventually(lambda: not (a.data / "standby" / "c").exists() and not (b.data / "standby" / "c").exists())


def test_who_comes_while_nothing_can_be_confirmed_is_told_why(tmp_path):
    with machines(tmp_path) as start:
        b, host = broker_and_hosts(start, "h", after=0.5)
        p = TestClient("p", b)
        with clients(p):
            eventually(p.is_up, pumping=[p])
            host.kill()
            p.publish(n=1)
            eventually(lambda: not b.is_ready(), pumping=[p])
            late = TestClient("late", b)
            with clients(late):
                eventually(lambda: late.byes, pumping=[p, late])
                assert "it waits for h; too few of its machines answer" in late.byes[0].reason
            host.restart()
            eventually(lambda: len(p.confirmed) == 1, pumping=[p])


def test_a_primary_that_was_paused_confirms_nothing_when_it_goes_on(tmp_path):
    """Its standby has taken over meanwhile; what its clients have said to it, they say again to that one."""
    with machines(tmp_path) as start:
        b, *hosts = broker_and_hosts(start, "h1", "h2")
        s, p = subscriber_and_publisher(b)
        with clients(s, p):
            p.publish_all(range(10))
            eventually(lambda: len(p.confirmed) == 10 and len(s.numbers()) == 10, pumping=[s, p])
            b.stop_running()
            p.publish_all(range(10, 20))  # they are in its socket
            host = eventually(lambda: [host for host in hosts if host.promoted("b")])[0]
            b.go_on()
            eventually(lambda: p.socket is None or p.byes, pumping=[s, p])
            assert len(p.confirmed) == 10
            again = host.promoted("b")
            s.moves_to(again)
            p.moves_to(again)
            eventually(lambda: len(p.confirmed) == 20 and len(s.numbers()) == 20, pumping=[s, p])
            assert s.numbers() == list(range(20))
            eventually(lambda: again.is_covered and machines_of(again) == {"b", "h1", "h2"})
            assert b.process.poll() is None
