"""The page that `pleach network init` writes is carried out, command by command, in the directory that it is for."""

import re
import socket
from contextlib import ExitStack
from random import Random

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.founding.layout import PORT_STEP
from support.docs.blocks import Fate, blocks_of
from support.docs.page_scripts import furnish, run, script_of
from support.live import broker_process  # noqa: F401 - the test is one of those with processes

SECONDS_MAX = 280
TRIES_MAX = 1_000


def free_base(count):
    """Where ports of clients, brokers and operators are free for so many brokers."""
    rng = Random()
    bases = (rng.randrange(20_000, 30_000, 10) for _ in range(TRIES_MAX))
    return next(base for base in bases if all_free(base + step * PORT_STEP + 1 + n for step in range(3) for n in count))


def all_free(ports):
    with ExitStack() as opened:
        try:
            for port in ports:
                opened.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return False
    return True


@pytest.mark.parametrize(
    "flags",
    [["--brokers=4", "--zones=east,west"], ["--brokers=3", "--tls"], ["--brokers=2"]],
    ids=["zones", "tls", "two"],
)
def test_the_commands_do_what_the_page_says(tmp_path, flags):
    environment = furnish(tmp_path)
    place = tmp_path / "net"
    done = CliRunner().invoke(app, ["network", "init", str(place), f"--port={free_base(range(6))}", *flags])
    assert done.exit_code == 0, done.output
    blocks = blocks_of(place / "README.md")
    assert {block.fate for block in blocks} == {Fate.RUN}
    code = run(script_of(blocks, tmp_path), place, environment, seconds_max=SECONDS_MAX)
    logs = "\n".join(f"--- {log}\n{log.read_text()[-2_000:]}" for log in sorted(place.glob("*/log")))
    assert code == 0, f"{code}\n{(place / 'stderr').read_text()}\n{(place / 'stdout').read_text()}\n{logs}"
    said = (place / "stdout").read_text()
    assert re.findall(r"^(\d+)$", said, re.MULTILINE) == (["10"] if "--brokers=2" in flags else ["10", "20"])
