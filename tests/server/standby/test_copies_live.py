"""Brokers with copies on other machines, as real processes: what is confirmed, who catches up how, who takes over."""

import json
import time
from contextlib import ExitStack

import pytest

from pleach.server.standby.registers import display
from pleach.server.storage.store import Store
from support.live.broker_process import clients, eventually, pump
from support.standby.copied_brokers import TestClient, broker_and_hosts, chain_of_three, machines


class Flow:
    """Numbers from publisher p to subscriber s, at two brokers or at one."""

    def __init__(self, entry, end):
        self.s, self.p = TestClient("s", end), TestClient("p", entry)
        self.s.subscribe("all", "n >= 0")
        self.count = 0

    def publish(self, count):
        """So many further ones."""
        self.p.publish_all(range(self.count, self.count + count))
        self.count += count

    def arrives(self):
        """Each is confirmed, and has come once and in its place."""
        self.until(lambda: len(self.p.confirmed) == self.count and len(self.s.numbers()) == self.count)
        assert self.s.numbers() == list(range(self.count))

    def carries(self, count):
        self.publish(count)
        self.arrives()

    def moves_to(self, broker):
        self.s.moves_to(broker)
        self.p.moves_to(broker)

    def until(self, condition):
        return eventually(condition, pumping=[self.s, self.p])

    def pump(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pump(self.s, self.p)


@pytest.fixture
def start(tmp_path):
    with machines(tmp_path) as starting:
        yield starting


@pytest.fixture
def flow_at():
    """Makes a flow through a broker, or from one to another."""
    with ExitStack() as stack:

        def flow_at(entry, end=None):
            flow = Flow(entry, end or entry)
            stack.enter_context(clients(flow.s, flow.p))
            return flow

        yield flow_at


def test_a_publish_is_confirmed_when_both_disks_have_it_and_not_before(start, flow_at):
    b, host = broker_and_hosts(start, "h", after=30)
    flow = flow_at(b)
    flow.carries(10)
    host.stop_running()
    flow.publish(10)
    flow.pump(seconds=1.5)
    assert len(flow.p.confirmed) == 10
    assert flow.s.numbers() == list(range(10))
    assert b.told()["waiting"]["for"] == [next(iter(b.told()["copies"]))]
    assert flow.p.is_up()  # it is told that the broker lives
    host.go_on()
    flow.arrives()
    b.kill()
    host.kill()
    with (
        Store.open(b.data, "b", epoch=1) as own,
        Store.open(host.data / "standby" / "b" / "data", "b", epoch=1) as copy,
    ):
        assert own.position == copy.position
        assert own.load() == copy.load()


def test_a_standby_that_restarts_gets_the_records_that_it_lacks(start, flow_at):
    b, host = broker_and_hosts(start, "h", after=30)
    flow = flow_at(b)
    flow.carries(10)
    host.kill()
    flow.publish(10)
    flow.pump(seconds=0.5)
    host.restart()
    flow.arrives()
    assert b.log().count("gets a copy of all") == 1


def test_a_broker_that_has_left_and_is_lost_before_it_has_said_so_to_its_machines_runs_nowhere(start):
    """It still waits for a client that has said farewell: its neighbour knows that it has left, its copies do not."""
    a, b, c = chain_of_three(start)
    guest = TestClient("guest", c)
    with clients(guest):
        guest.subscribe("all", "n >= 0")
        assert c.post("/overlay/remove", '{"broker": "c", "timeout": 0}')[0] == 504
        eventually(lambda: c.status()["leaving"]["has_left"], pumping=[guest])
        eventually(lambda: "once b has confirmed it" in c.log())
        c.destroy()
    eventually(lambda: "of c: this machine takes its place" in a.log() + b.log())

    def is_gone(machine):
        told = json.loads(machine.get("/standby")[1])
        return "c" not in told["runs"] and told["holds"].get("c", {"view": 0})["view"] == 0

    eventually(lambda: is_gone(a) and is_gone(b))
    assert a.is_ready()
    assert b.is_ready()


def test_a_machine_that_is_lost_is_replaced_by_another_while_events_flow(start, flow_at):
    b, one, two = broker_and_hosts(start, "h1", "h2")
    flow = flow_at(b)
    flow.carries(100)
    (copy,) = b.told()["copies"]
    lost, other = (one, two) if copy.startswith("h1") else (two, one)
    lost.destroy()
    flow.carries(100)
    assert [display(each) for each in b.told()["copies"]] == [other.name]


def test_a_broker_whose_machine_is_lost_comes_back_elsewhere_with_everything(start, flow_at):
    b, one, two = broker_and_hosts(start, "h1", "h2")
    flow = flow_at(b)
    flow.carries(50)
    flow.s.disconnect()
    flow.publish(50)
    eventually(lambda: len(flow.p.confirmed) == 100, pumping=[flow.p])
    b.destroy()
    again = eventually(lambda: one.promoted("b") or two.promoted("b"))
    flow.moves_to(again)
    flow.carries(50)
    eventually(lambda: again.is_covered)


def test_a_primary_that_was_replaced_returns_as_a_standby_and_takes_over_again(start, flow_at):
    b, *hosts = broker_and_hosts(start, "h1", "h2")
    flow = flow_at(b)
    flow.carries(10)
    b.kill()
    first = eventually(lambda: [host for host in hosts if host.promoted("b")])[0]
    (second,) = [host for host in hosts if host is not first]
    b.restart()
    again = first.promoted("b")
    flow.moves_to(again)
    flow.carries(10)
    eventually(lambda: again.is_covered and machines_of(again) == {first.name, second.name, "b"})
    second.destroy()
    flow.carries(10)
    assert [display(copy) for copy in again.told()["copies"]] == ["b"]
    third = start("h3", has_broker=False, port=second.port)
    eventually(lambda: machines_of(again) == {first.name, "b", third.name})
    before = b.log().count("clients are let in")
    first.destroy()
    eventually(lambda: b.log().count("clients are let in") > before)
    flow.moves_to(b)
    flow.carries(10)


def machines_of(broker):
    """The members of its view."""
    told = broker.told()
    return {display(machine) for machine in (told["machine"], *told["copies"], *told["witnesses"])}


def test_two_machines_have_no_majority_and_an_operator_decides(start, flow_at):
    b, host = broker_and_hosts(start, "h")
    flow = flow_at(b)
    flow.carries(10)
    status, refusal = host.post("/standby/promote", '{"broker": "b"}')
    assert (status, "is heard here" in refusal) == (409, True)
    b.kill()
    eventually(lambda: host.post("/standby/promote", '{"broker": "b"}')[0] == 200)
    again = eventually(lambda: host.promoted("b"))
    b.restart()
    eventually(lambda: again.is_covered)
    flow.moves_to(again)
    flow.carries(10)


def test_the_middle_of_a_chain_is_destroyed_and_events_flow_again(start, flow_at):
    """Nobody has named machines for copies: each of the three holds those of others."""
    a, b, c = chain_of_three(start)
    flow = flow_at(a, c)
    flow.carries(100)
    b.destroy()
    flow.carries(100)
    again = eventually(lambda: a.promoted("b") or c.promoted("b"))
    eventually(lambda: all(broker.is_covered and broker.is_ready() for broker in (a, again, c)))


def test_a_broker_does_not_forget_its_standbys_with_the_settings(start):
    """They would run it, and it would confirm what they do not have."""
    b, _ = broker_and_hosts(start, "h")
    b.kill()
    b.settings.write_text("")
    with pytest.raises(AssertionError, match="b has copies or votes at b, h"):
        b.restart()


def test_nothing_is_left_of_a_broker_that_leaves_for_good(start):
    a, b, c = chain_of_three(start)
    eventually(lambda: (a.data / "standby" / "c").exists() and (b.data / "standby" / "c").exists())
    assert c.post("/overlay/remove", '{"broker": "c"}')[0] == 200
    assert c.wait() == 0
    eventually(lambda: not (a.data / "standby" / "c").exists() and not (b.data / "standby" / "c").exists())


def test_who_comes_while_nothing_can_be_confirmed_is_told_why(start):
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


def test_a_primary_that_was_paused_confirms_nothing_when_it_goes_on(start, flow_at):
    """Its standby has taken over meanwhile; what its clients have said to it, they say again to that one."""
    b, *hosts = broker_and_hosts(start, "h1", "h2")
    flow = flow_at(b)
    flow.carries(10)
    b.stop_running()
    flow.publish(10)  # they are in its socket
    host = eventually(lambda: [host for host in hosts if host.promoted("b")])[0]
    b.go_on()
    flow.until(lambda: flow.p.socket is None or flow.p.byes)
    assert len(flow.p.confirmed) == 10
    again = host.promoted("b")
    flow.moves_to(again)
    flow.arrives()
    eventually(lambda: again.is_covered and machines_of(again) == {"b", "h1", "h2"})
    assert b.process.poll() is None
