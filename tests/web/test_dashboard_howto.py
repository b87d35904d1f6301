"""The newcomer's path of docs/how-to/dashboard.md: its very commands, on ports that are free."""

import re
import socket
import subprocess
from pathlib import Path

from test_daemon_howto import commands, shell  # noqa: F401 - a fixture

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "dashboard.md"


def with_free_ports(text):
    wanted = sorted(set(re.findall(r"127\.0\.0\.1:77\d\d", text)))
    opened = [socket.create_server(("127.0.0.1", 0)) for _ in wanted]
    for address, free in zip(wanted, opened, strict=True):
        text = text.replace(address, f"127.0.0.1:{free.getsockname()[1]}")
        free.close()
    return text


def test_the_commands_of_the_page_show_a_tree_and_a_run(shell):  # noqa: F811
    place, environment = shell
    done = subprocess.run(
        ["bash", "-c", with_free_ports(commands(PAGE))],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    said = done.stdout + done.stderr + "".join(file.read_text() for file in sorted(place.glob("net/*.log")))
    assert done.stdout.count('"ready":true') == 2, said
    assert "event: whole" in done.stdout, said
    assert '"kind":"live"' in done.stdout, said
    assert "verdict: clean" in done.stdout, said
    assert "this dashboard is not called 'evil.example'" in done.stdout, said
    assert "load the dashboard again" in done.stdout, said
    assert done.returncode == 0, said
