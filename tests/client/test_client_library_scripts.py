"""The blocking façade, and the commands, against a real broker process."""

import json
import os
import signal
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from pleach.cli import pub, sub
from pleach.cli.pub import parse_attributes, parse_value
from pleach.client import blocking
from pleach.errors import (
    AddressError,
    ClientClosedError,
    ConnectError,
    EventError,
    FilterError,
    InvalidInputError,
    PublishRefusedError,
)
from support.live.broker_process import PATIENCE_SECONDS, eventually, processes

SUB = "import typer; from pleach.cli.sub import sub; typer.run(sub)"
ENVIRONMENT = {**os.environ, "PYTHONUNBUFFERED": "1"}


app = typer.Typer()
app.command("pub")(pub.pub)
app.command("sub")(sub.sub)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """One for all: clients have names of their own."""
    with processes() as start:
        yield start("b", tmp_path_factory.mktemp("broker"))


def pleach(*arguments, given=None):
    """A command that runs to its end, in this process."""
    return CliRunner().invoke(app, [*map(str, arguments)], input=given)


class Sub:
    """A running `pleach sub` that has subscribed."""

    def __init__(self, *arguments):
        command = [sys.executable, "-c", SUB, *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=ENVIRONMENT)
        self.first = self.process.stderr.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self):
        output, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, output.splitlines(), errors


# The blocking façade -----------------------------------------------------------------------------------------


def test_a_script_publishes_and_reads(broker):
    with blocking.BlockingClient(broker.ready["client"], name="c") as client:
        sub = client.subscribe("n > 1")
        ids = [client.publish({"n": n}) for n in range(4)]
        assert [event.id for event in (sub.next(timeout=PATIENCE_SECONDS) for _ in range(2))] == ids[2:]
        with pytest.raises(TimeoutError):
            sub.next(timeout=0.01)
        client.publish({"n": 9}, timeout=PATIENCE_SECONDS)
        assert sub.next(timeout=PATIENCE_SECONDS).attributes == {"n": 9}
        sub.unsubscribe()
        assert list(sub) == []
        with pytest.raises(EventError):
            client.publish({"": 1})
    client.close()
    with pytest.raises(ClientClosedError):
        client.publish({"n": 1})


def test_a_script_whose_broker_is_not_there_is_told_so():
    address = "127.0.0.1:1"
    with pytest.raises(ConnectError, match=address):
        blocking.BlockingClient(address, connect_timeout=0.0)


def test_a_script_advertises_where_that_is_wanted(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path, "--advertisements")
        with blocking.BlockingClient(broker.ready["client"]) as client:
            with pytest.raises(PublishRefusedError):
                client.publish({"n": 1})
            name = client.advertise("EXISTS n")
            client.publish({"n": 1})
            client.unadvertise(name)


def test_a_durable_broker_that_is_killed_loses_nothing_of_a_client_that_waits_for_it(tmp_path):
    with processes() as start:
        broker = start("b", tmp_path, durable=True)
        with blocking.BlockingClient(broker.ready["client"], name="c") as client:
            sub = client.subscribe("EXISTS n")
            for n in range(3):
                client.publish({"n": n})
            broker.kill()
            broker.start()
            client.publish({"n": 3}, timeout=PATIENCE_SECONDS)
            assert [sub.next(timeout=PATIENCE_SECONDS).attributes["n"] for _ in range(4)] == [0, 1, 2, 3]


# The commands ------------------------------------------------------------------------------------------------


def test_pub_and_sub_meet(broker):
    to = broker.ready["client"]
    with Sub("price > 3 AND flag = TRUE", "--to", to, "--count", "2", "--json", "--name", "s") as running:
        assert "subscribed as s" in running.first
        done = pleach("pub", "price=5", "flag=true", "topic=a b", "--to", to, "--name", "p", "--repeat", 2)
        assert (done.exit_code, done.stderr) == (0, "")
        assert [line.rpartition("/")[2] for line in done.stdout.split()] == ["1", "2"]
        code, lines, _ = running.end()
    assert code == 0
    assert [json.loads(line)["price"] for line in lines] == [5, 5]


def test_what_sub_prints_pub_reads(broker, tmp_path):
    to = broker.ready["client"]
    payload = tmp_path / "payload"
    payload.write_bytes(b"\x00\x01")
    lines = '{"n": 1}\n\n{"n": 2, "s": "x"}\n'
    with Sub("EXISTS n", "--to", to, "--count", "2", "--json") as running:
        assert pleach("pub", "--json-lines", "--to", to, "--payload-file", payload, given=lines).exit_code == 0
        code, printed, _ = running.end()
    assert code == 0
    with Sub("EXISTS n", "--to", to, "--count", "2") as running:
        again = pleach("pub", "--json-lines", "--json", "--to", to, "--name", "q", given="\n".join(printed))
        assert [set(json.loads(line)) for line in again.stdout.splitlines()] == [{"id"}, {"id"}]
        _, shown, _ = running.end()
    assert shown[0].startswith("q/")
    assert "n=1" in shown[0]
    assert r"b'\x00\x01'" in shown[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_sub_in_good_order(broker, number):
    with Sub("TRUE", "--to", broker.ready["client"], "--name", "s") as running:
        eventually(lambda: broker.status()["clients"])
        running.process.send_signal(number)
        code, lines, errors = running.end()
    assert (code, lines, errors) == (0, [], "")


def test_an_interrupt_before_the_count_is_reached_says_so(broker):
    with Sub("TRUE", "--to", broker.ready["client"], "--count", "1") as running:
        running.process.send_signal(signal.SIGINT)
        assert running.end()[0] == 130


def test_sub_with_a_state_directory_goes_on_where_it_was(broker, tmp_path):
    to = broker.ready["client"]
    arguments = ["EXISTS n", "--to", to, "--name", "s", "--state-dir", str(tmp_path / "s"), "--count", "2", "--json"]
    with Sub(*arguments) as running:
        assert (
            pleach("pub", "--json-lines", "--to", to, given="".join(f'{{"n": {n}}}\n' for n in range(4))).exit_code == 0
        )
        first = running.end()[1]
    with Sub(*arguments) as running:
        second = running.end()[1]
    assert [json.loads(line)["n"] for line in first + second] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "error", "wanted"),
    [
        (["pub", "--to", "127.0.0.1:1"], InvalidInputError, "KEY=VALUE"),
        (["pub", "n=1", "--json-lines", "--to", "127.0.0.1:1"], InvalidInputError, "either"),
        (["pub", "price", "--to", "127.0.0.1:1"], EventError, "price=5"),
        (["pub", "n=1", "--to", "nowhere"], AddressError, "host:port"),
        (["pub", "n=1", "--to", "127.0.0.1:1", "--timeout", "0"], ConnectError, "Connection refused"),
        (["sub", "n >", "--to", "127.0.0.1:1"], FilterError, "column"),
    ],
)
def test_input_that_is_unusable_is_named(arguments, error, wanted):
    done = pleach(*arguments)
    assert isinstance(done.exception, error)
    assert wanted in str(done.exception)


def test_a_bad_line_is_named_and_what_came_before_it_is_published(broker):
    done = pleach("pub", "--json-lines", "--to", broker.ready["client"], given='{"n": 1}\n{"n": [2]}\n')
    assert isinstance(done.exception, EventError)
    assert len(done.stdout.split()) == 1
    assert "line 2" in str(done.exception)


def test_a_refused_event_gives_exit_code_1(tmp_path):
    with processes() as start:
        to = start("b", tmp_path, "--advertisements").ready["client"]
        refused = pleach("pub", "n=1", "--to", to)
        assert refused.exit_code == 1
        assert "advertise" in refused.stderr
        assert pleach("pub", "n=1", "--to", to, "--advertise", "EXISTS n").exit_code == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("5.0", 5.0),
        ("1e3", 1000.0),
        ("true", True),
        ("FALSE", False),
        ("x'0aff'", b"\x0a\xff"),
        ("'5'", "5"),
        ("'it''s'", "it's"),
        ("text", "text"),
        ("two words", "two words"),
        ("5 6", "5 6"),
        ("5x", "5x"),
        ("a/b#c", "a/b#c"),
        ("in", "in"),
        ("", ""),
        ("it's", "it's"),
    ],
)
def test_values_are_typed_like_literals(text, value):
    parsed = parse_value(text)
    assert (parsed, type(parsed)) == (value, type(value))


def test_pairs_are_split_at_the_first_sign():
    assert parse_attributes(["a=b=c", "n=1"]) == {"a": "b=c", "n": 1}
    with pytest.raises(EventError, match="twice"):
        parse_attributes(["a=1", "a=2"])
