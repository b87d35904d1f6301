"""Directories of brokers that are not what they were: an old copy, a second one of a name, one that is gone."""

import shutil
import subprocess

import pytest

from pleach.core.effects import Observed
from pleach.errors import EXIT_OUTDATED
from support.live.broker_process import PATIENCE_SECONDS, RawClient, clients, eventually, processes, pump


def pair(start, place):
    """a dials b; both have data directories."""
    b = start("b", place, "--neighbour", "a", "--heartbeat", "0.2", durable=True)
    a = start("a", place, "--peer", f"b={b.ready['peer']}", "--heartbeat", "0.2", durable=True)
    for broker in (a, b):
        eventually(broker.is_ready)
    return a, b


def numbers(client):
    return [event.attributes["n"] for event in client.delivered()]


def published(client, counts):
    for n in counts:
        client.publish(n=n)
    eventually(lambda: len(client.seen(Observed.PUBLISH_ACK)) == counts[-1] + 1, pumping=[client])


def code_of_another_start(broker):
    """Of a start that does not get as far as the ready line."""
    command = [*broker.command, "broker", "--name", broker.name, *map(str, broker.arguments)]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=False).returncode


@pytest.mark.parametrize("old", ["a", "b"])
def test_an_old_copy_of_a_data_directory_serves_nobody_and_says_why(tmp_path, old):
    with processes() as start:
        a, b = pair(start, tmp_path)
        former, other = (a, b) if old == "a" else (b, a)
        with clients(RawClient("p", former), RawClient("s", other)) as (p, s):
            s.subscribe("all", "n >= 0")
            published(p, range(5))
            former.stop()
            shutil.copytree(tmp_path / old, tmp_path / "backup")
            former.start()
            eventually(former.is_ready)
            published(p, range(5, 50))
            eventually(lambda: len(numbers(s)) == 50, pumping=[p, s])
            former.stop()
            shutil.rmtree(tmp_path / old)
            shutil.move(tmp_path / "backup", tmp_path / old)
            former.start()
            assert former.wait() == EXIT_OUTDATED
            assert "is an old copy" in former.log()
            assert "--replace" in former.log()
            assert code_of_another_start(former) == EXIT_OUTDATED, (
                "nothing new is numbered by it, however often it starts"
            )
            pump(s)
            assert numbers(s) == list(range(50))


def test_a_second_broker_of_a_name_is_refused_while_the_true_one_is_away_and_ends_nothing(tmp_path):
    with processes() as start:
        a, b = pair(start, tmp_path)
        a.stop()
        arguments = ["--peer", f"b={b.ready['peer']}", "--data-dir", tmp_path / "second"]
        second = start("a", tmp_path, *arguments)
        for broker in (b, second):
            eventually(lambda broker=broker: "b knows another a" in broker.get("/readyz")[1])
            assert "--replace" in broker.get("/readyz")[1]
            assert "b knows another a" in broker.log()
            assert 'pleach_link_refused{neighbour="' in broker.get("/metrics")[1]
        a.start()
        for broker in (a, b):
            eventually(broker.is_ready)
        assert b.status()["refused"] == {}
        assert second.process.poll() is None
        assert not second.is_ready()
        with clients(RawClient("p", a), RawClient("s", b)) as (p, s):
            s.subscribe("all", "n >= 0")
            published(p, range(10))
            eventually(lambda: len(numbers(s)) == 10, pumping=[p, s])


def test_one_in_memory_does_not_replace_one_that_has_a_directory(tmp_path):
    with processes() as start:
        a, b = pair(start, tmp_path)
        a.stop()
        start("a", tmp_path, "--peer", f"b={b.ready['peer']}")
        eventually(lambda: "b knows another a" in b.get("/readyz")[1])
        a.start()
        eventually(a.is_ready)


def test_an_operator_replaces_a_broker_whose_disk_is_lost(tmp_path):
    with processes() as start:
        a, b = pair(start, tmp_path)
        a.kill()
        shutil.rmtree(tmp_path / "a")
        a.start()
        eventually(lambda: "b knows another a" in a.get("/readyz")[1])
        a.stop()
        a.arguments.append("--replace")
        a.start()
        for broker in (a, b):
            eventually(broker.is_ready)
        a.arguments.remove("--replace")
        a.stop()
        a.start()
        eventually(a.is_ready)


def test_brokers_in_memory_come_back_as_before(tmp_path):
    with processes() as start:
        b = start("b", tmp_path, "--neighbour", "a")
        a = start("a", tmp_path, "--peer", f"b={b.ready['peer']}")
        for ended in (a, b):
            eventually(a.is_ready)
            ended.kill()
            ended.start()
        for broker in (a, b):
            eventually(broker.is_ready)
