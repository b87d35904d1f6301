"""The newcomer's path of docs/how-to/reweave.md: its very commands, on ports that are free."""

import contextlib
import re
import socket
from pathlib import Path
from random import Random

from test_daemon_howto import carried_out, commands, shell  # noqa: F401 - a fixture

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "reweave.md"
BROKERS = (1, 2, 3, 4)


def with_free_ports(text):
    """Ports are written as a tens and the number of a broker: each tens becomes one whose ports are all free."""
    rng = Random()
    for tens in sorted(set(re.findall(r"127\.0\.0\.1:(7\d\d)", text))):
        free = next(base for _ in range(1_000) if is_free(base := rng.randrange(2_000, 3_000)))
        text = text.replace(f"127.0.0.1:{tens}", f"127.0.0.1:{free}")
    return text


def is_free(base):
    with contextlib.ExitStack() as opened:
        try:
            for number in BROKERS:
                opened.enter_context(socket.create_server(("127.0.0.1", 10 * base + number)))
        except OSError:
            return False
    return True


def test_the_commands_of_the_page_reweave_a_tree_under_a_subscriber(shell):  # noqa: F811
    place, environment = shell
    done, logs = carried_out(with_free_ports(commands(PAGE)), place, environment, seconds_max=280)
    said = done.stdout + done.stderr
    assert len((place / "net" / "got").read_text().splitlines()) == 300, said + logs
    assert "c has ended with 0" in done.stdout, said + logs
    assert done.stdout.count("done: the tree is as planned") == 5, said + logs
    assert "clients have left b" in done.stdout, said + logs
