"""Operation, as real processes: reloading, stopping, exit codes, snapshots, mistakes in the settings, bugs."""

import signal
import socket
import subprocess
import sys

import pytest

from pleach.core.effects import Observed
from pleach.core.events.language import parse_filter
from pleach.server.bugs import EXIT_BUG
from pleach.server.node import EXIT_FENCED
from pleach.server.storage.committer import JOURNAL_ENTRIES_MAX
from support.live.broker_process import ENVIRONMENT, PLEACH, RawClient, address, clients, eventually, processes, pump

EXIT_FORCED, EXIT_UNUSABLE = 1, 2


def numbers(client):
    return [event.attributes["n"] for event in client.delivered()]


# Reloading -------------------------------------------------------------------------------------------------------


def test_hangup_takes_over_a_neighbours_new_address_and_says_so(tmp_path):
    settings = tmp_path / "a.toml"
    with processes() as start:
        b = start("b", tmp_path, "--neighbour", "a")
        with socket.create_server(("127.0.0.1", 0)) as nobody:  # takes connections, and never says a word
            old = f"127.0.0.1:{nobody.getsockname()[1]}"
            settings.write_text(f'peers = {{ b = "{old}" }}\n')
            a = start("a", tmp_path, "--config", settings, any_port=True)
            settings.write_text(f'client_listen = "127.0.0.1:1"\npeers = {{ b = "{b.ready["peer"]}" }}\n')
            a.signal(signal.SIGHUP)
            eventually(lambda: "taken over: peers; after a restart: client_listen" in a.log())
        eventually(lambda: a.is_ready() and b.is_ready())
        a.signal(signal.SIGHUP)
        eventually(lambda: "taken over: nothing; after a restart: client_listen" in a.log())


def test_hangup_with_another_neighbour_says_that_it_must_wait(tmp_path):
    settings = tmp_path / "a.toml"
    settings.write_text("neighbours = []\n")
    with processes() as start:
        a = start("a", tmp_path, "--config", settings)
        settings.write_text('peers = { c = "127.0.0.1:9" }\n')
        a.signal(signal.SIGHUP)
        eventually(lambda: "taken over: nothing; after a restart: peers" in a.log())
        assert a.stop() == 0


# Stopping, and exit codes ----------------------------------------------------------------------------------------


def test_a_second_sigterm_ends_at_once(tmp_path):
    """A client that takes no goodbye holds a stop up for some seconds; who is in a hurry says it twice."""
    with processes() as start:
        broker = start("b", tmp_path, "--heartbeat", "60")
        with clients(RawClient("s", broker)) as (s,), socket.create_connection(address(broker.ready["client"])):
            s.subscribe("all", "n >= 0")
            s.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            for n in range(400):
                s.do(s.machine.publish({"n": n}, bytes(20_000)))  # and reads nothing of it
            broker.signal(signal.SIGTERM)
            eventually(lambda: "stopping" in broker.log())
            broker.signal(signal.SIGTERM)
            assert broker.wait() == EXIT_FORCED


def test_a_usage_that_makes_no_sense_is_unusable():
    for arguments in (["--no-such-flag"], ["--name", "b", "--config", "no such file"]):
        done = subprocess.run(
            [*PLEACH, "broker", *arguments], check=False, capture_output=True, text=True, env=ENVIRONMENT, timeout=60
        )
        assert done.returncode == EXIT_UNUSABLE, done.stderr
        assert done.stderr
        assert "Traceback" not in done.stderr


def test_of_two_brokers_of_one_name_the_one_at_work_stays_and_an_older_one_that_returns_ends(tmp_path):
    with processes() as start:
        b = start("b", tmp_path, "--neighbour", "a")
        (tmp_path / "old").mkdir()
        (tmp_path / "new").mkdir()
        old = start("a", tmp_path / "old", "--peer", f"b={b.ready['peer']}", durable=True)
        eventually(old.is_ready)
        new = start("a", tmp_path / "new", "--peer", f"b={b.ready['peer']}", "--replace")
        eventually(lambda: "a is connected to b: end that one first" in b.log())
        assert old.is_ready()
        old.kill()
        eventually(new.is_ready)
        old.start()
        assert old.wait() == EXIT_FENCED
        assert "another a is at work" in old.log()
        assert new.is_ready()


BROKEN_BROKER = """
from pleach.core.routing.router import Router
right = Router.destinations
def wrong(self, attributes, source):
    return right(self, attributes, source) if attributes["n"] != 2 else 1 // 0
Router.destinations = wrong
from pleach.cli.main import run
run()
"""


def test_a_bug_ends_the_process_and_leaves_nothing_half_done(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path, durable=True)
        broker.stop()
        broker.command = [sys.executable, "-c", BROKEN_BROKER]
        broker.start()
        with clients(RawClient("s", broker)) as (s,):
            s.subscribe("all", "n >= 0")
            s.publish(n=1)
            eventually(lambda: numbers(s) == [1], pumping=[s])
            s.publish(n=2)
            assert broker.wait() == EXIT_BUG
            assert "ZeroDivisionError" in broker.log()
            broker.command = PLEACH
            broker.start()
            s.publish(n=3)
            eventually(lambda: len(numbers(s)) == 3, pumping=[s])
            eventually(lambda: len(s.seen(Observed.PUBLISH_ACK)) == 3, pumping=[s])
            assert numbers(s) == [1, 2, 3]


# The data directory ----------------------------------------------------------------------------------------------


def test_a_long_journal_becomes_a_snapshot_and_both_are_recovered(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path, durable=True)
        with clients(RawClient("s", broker), RawClient("churn", broker, heartbeat=30)) as (s, churn):
            s.subscribe("before", "n >= 0")
            for n in range(JOURNAL_ENTRIES_MAX):
                churn.endpoint.perform(churn.machine.unsubscribe(f"x{n}"), now=0.0)
                if n % 500 == 0:
                    churn.flush()
                    pump(churn, s, seconds=0.0)
            eventually(lambda: broker.status()["counters"]["snapshots"] == 1, pumping=[churn, s])
            churn.subscribe("after", "m >= 0")
            broker.kill()
            broker.start()
            clients_ = broker.status()["clients"]
            assert clients_["s"]["subscriptions"] == {"before": "n >= 0"}
            assert clients_["churn"]["subscriptions"] == {"after": "m >= 0"}
            s.publish(n=1)
            eventually(lambda: numbers(s) == [1], pumping=[s])


@pytest.mark.parametrize(
    ("flags", "key", "value"),
    [(["--routing", "simple"], "routing", "covering"), (["--advertisements"], "advertisements", "False")],
)
def test_other_routing_on_an_old_data_directory_is_refused_with_the_remedy(tmp_path, flags, key, value):
    with processes() as start:
        broker = start("b", tmp_path, durable=True)
        assert broker.stop() == 0
        command = [*PLEACH, "broker", "--name", "b", "--data-dir", str(tmp_path / "b"), *flags]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
        assert done.returncode == EXIT_UNUSABLE
        told = " ".join(done.stderr.split())
        assert key in told
        assert f"the data directory was made with {value}; set it to that" in told
        broker.start()
        assert broker.is_ready()


# Mistakes in the tree --------------------------------------------------------------------------------------------


def test_a_neighbour_that_only_one_side_knows_is_said_on_both(tmp_path):
    with processes() as start:
        b = start("b", tmp_path)
        a = start("a", tmp_path, "--peer", f"b={b.ready['peer']}")
        eventually(lambda: "b does not take 'a' as a peer" in b.log())
        eventually(lambda: "b does not take 'a' as a peer" in a.log())
        assert "no link to b" in a.get("/readyz")[1]
        assert b.is_ready()


def test_a_cycle_is_found_said_and_opened(tmp_path):
    with processes() as start:
        fast = ("--heartbeat", "0.2")
        c = start("c", tmp_path, "--neighbour", "a", "--neighbour", "b", *fast)
        b = start("b", tmp_path, "--neighbour", "a", "--peer", f"c={c.ready['peer']}", *fast)
        a = start("a", tmp_path, "--peer", f"b={b.ready['peer']}", "--peer", f"c={c.ready['peer']}", *fast)
        eventually(lambda: "the link to c is closed" in a.log())
        for broker in (a, b, c):
            assert broker is a or "is closed, and stays closed" not in broker.log()
        assert "a cycle of links: a – " in a.get("/readyz")[1]
        with clients(RawClient("p", a), RawClient("s", c)) as (p, s):
            s.do(s.machine.subscribe("all", parse_filter("n >= 0"), network_wide=False))
            eventually(lambda: a.status()["remote_entries"] == 1, pumping=[p, s])  # by way of b
            for n in range(20):
                p.publish(n=n)
            eventually(lambda: len(numbers(s)) >= 20, pumping=[p, s])
            pump(p, s, seconds=0.3)
            assert numbers(s) == list(range(20))
            assert a.status()["counters"]["matches"] == 20


def test_a_tree_has_no_cycle(tmp_path):
    with processes() as start:
        fast = ("--heartbeat", "0.2")
        b = start("b", tmp_path, "--neighbour", "a", "--neighbour", "c", *fast)
        a = start("a", tmp_path, "--peer", f"b={b.ready['peer']}", *fast)
        c = start("c", tmp_path, "--peer", f"b={b.ready['peer']}", *fast)
        for broker in (a, b, c):
            eventually(broker.is_ready)
        c.kill()
        c.start()
        for broker in (a, b, c):
            eventually(broker.is_ready)
            assert "cycle" not in broker.log()
