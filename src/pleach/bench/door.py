"""The door: what a connection costs until its client is greeted, and how long an access file takes to load."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from pleach.access.access_file import load_access
from pleach.bench.measurement import Measurement
from pleach.bench.systems.registry import GUARDED, OURS, SECURED
from pleach.bench.systems.system import Addresses, Case
from pleach.client.connect import connect

PRINCIPALS = 10_000
LOAD_SECONDS_MAX = 2.0
LOADS, QUICK_LOADS = 5, 2
CONNECTIONS, QUICK_CONNECTIONS = 200, 30


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:  # noqa: ARG001 - nothing is drawn
    yield _load(QUICK_LOADS if quick else LOADS)
    plain = 0.0
    for system in (OURS, SECURED, GUARDED):
        with tempfile.TemporaryDirectory() as directory, system.serve(Case.ONE, Path(directory)) as addresses:
            taken = asyncio.run(_connections(addresses, QUICK_CONNECTIONS if quick else CONNECTIONS))
        milliseconds = median(taken) * 1_000
        plain = plain or milliseconds
        name = f"a client connects, {system.name}"
        yield Measurement("door", name, milliseconds, "ms", OURS.name, milliseconds / plain, None, ok=True)


def _load(times: int) -> Measurement:
    """No two principals alike."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "access.toml")
        file.write_text("\n".join(map(_principal, range(PRINCIPALS))))
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            load_access(file)
            taken.append(time.perf_counter() - began)
    seconds = min(taken)
    name = f"access file of {PRINCIPALS:,} principals"
    ratio = LOAD_SECONDS_MAX / seconds
    return Measurement("door", name, seconds, "s", f"{LOAD_SECONDS_MAX:g} s", ratio, 1.0, ok=ratio >= 1.0)


def _principal(number: int) -> str:
    return f"""[principals.p{number}]
tenant = "t{number % 100}"
names = ["p{number}", "p{number}-*"]
publish = "topic = 'orders-{number}' AND price > {number}"
subscribe = "topic IN ('orders-{number}', 'prices') OR region = 'r{number % 7}'"
"""


async def _connections(addresses: Addresses, count: int) -> list[float]:
    """Seconds from dialling to the broker's Hello, one after the other."""
    taken = []
    for number in range(count):
        began = time.perf_counter()
        async with connect(addresses.publisher, name=f"subscriber{number}", tls=addresses.tls or None):
            taken.append(time.perf_counter() - began)
    return taken
