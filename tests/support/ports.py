"""Ports that a process of a test has to itself, also while it is killed and started again.

Ports that the system chooses are given to the next connection or listener as soon as they are free, and what is started
again finds somebody else there. Those below its range are given to nobody.
"""

from __future__ import annotations

import contextlib
import os
import socket

LOOPBACK = "127.0.0.1"
FIRST, SLICES, SLICE_PORTS = 20_000, 6, 2_000  # processes that test at the same time draw from different slices

_given: set[int] = set()  # ports that somebody in this process has, or had


def free_ports(count: int) -> list[int]:
    if len(_given) > SLICE_PORTS // 2:
        _given.clear()  # the first ones are free again
    found: list[int] = []
    while len(found) < count:
        port = FIRST + _slice() * SLICE_PORTS + int.from_bytes(os.urandom(4)) % SLICE_PORTS
        if port not in _given and _is_free(port):
            found.append(port)
            _given.add(port)
    return found


def free_port() -> int:
    return free_ports(1)[0]


def _slice() -> int:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    return int(worker or os.getpid()) % SLICES


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # connections that have ended do not count, as for servers
        probe.bind((LOOPBACK, port))
        return True
    return False
