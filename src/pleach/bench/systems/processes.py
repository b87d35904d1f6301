"""Server processes of a benchmark: started in a session of their own, waited for with a bound, and always stopped.

They get no Ctrl-C of the terminal: it ends the benchmark, which stops them in order.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pleach.errors import LiveError

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 15.0
POLL_SECONDS = 0.02
LOOPBACK = "127.0.0.1"


@contextmanager
def server(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with all that it starts, for as long as the block lasts. What it says on stderr goes to `log`."""
    with log.open("ab") as sink:
        process = subprocess.Popen(  # noqa: S603 - commands are written in this package
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sink,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the whole session to end, then make it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def read_line(process: subprocess.Popen[bytes], what: str) -> bytes:
    """The next line that a process prints."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], START_SECONDS_MAX)
    line = process.stdout.readline() if readable else b""
    if not line:
        raise LiveError(f"{what} said nothing within {START_SECONDS_MAX:g} s, or has ended")
    return line


def free_ports(count: int) -> list[int]:
    """Ports that nobody has just now; all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def wait_for_port(port: int, process: subprocess.Popen[bytes], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise LiveError(f"{what} ended with {process.returncode} instead of listening")
        try:
            socket.create_connection((LOOPBACK, port), timeout=1.0).close()
        except OSError:
            time.sleep(POLL_SECONDS)
        else:
            return
    raise LiveError(f"{what} does not listen on port {port} after {START_SECONDS_MAX:g} s")
