"""The newcomer's path of docs/how-to/run-brokers.md: its very commands, on ports that are free."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-brokers.md"
PORTS = [7101, 7102, 7103, 7201, 7202, 7203, 7301, 7302, 7303]


def commands(page=PAGE):
    return "".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL))


def with_free_ports(text):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in PORTS]
    for port, taken in zip(PORTS, sockets, strict=True):
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{taken.getsockname()[1]}")
        taken.close()
    return text


def carried_out(script, place, environment, *, seconds_max):
    """What a script did, and what the brokers that it started have logged."""
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
    )
    return done, "".join(f"{file}: {file.read_text()}" for file in sorted(place.glob("net/*.log")))


@pytest.fixture
def shell(tmp_path):
    """A place with a `pleach` on its path; whatever was left running there is gone afterwards."""
    tools = tmp_path / "bin"
    tools.mkdir()
    pleach = tools / "pleach"
    pleach.write_text(f"#!{sys.executable}\nfrom pleach.cli.main import run\nrun()\n")
    pleach.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PLEACH_")}
    environment["PATH"] = f"{tools}:{environment['PATH']}"
    yield tmp_path, environment
    for file in tmp_path.glob("net/*.pid"):
        try:
            os.kill(int(file.read_text()), signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_the_commands_of_the_page_do_what_it_says(shell):
    place, environment = shell
    done, logs = carried_out(with_free_ports(commands()) + "\nwait\n", place, environment, seconds_max=240)
    logs = done.stderr + logs
    got = (place / "net" / "got").read_text().splitlines()
    assert len(got) == 20, logs
    assert [line.split()[1] for line in got] == ["amount=50"] * 10 + ["amount=60"] * 10
    tree = (place / "net" / "tree").read_text()
    assert [line.strip("│├└─ ").split()[0] for line in tree.splitlines()] == ["a", "b", "c"]
