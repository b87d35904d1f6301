"""Bytes on the wire: what an event costs between publisher, servers and subscriber, as the kernel counts it.

    publisher ══▶ server ══▶ subscriber
                    ║ ▲
                    ▼ ║      every way between two servers
                  server

The kernel knows of each TCP socket how many bytes the other side has acknowledged (`ss -ti`), without what TCP, IP and
retransmission add. Every end of a connection is on this machine, so that sender and receiver are known by their
processes, whatever the system. What is counted begins when publisher and subscriber are connected, and ends when all
is confirmed and received, and they are connected still: no connection is missed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias

from pleach.bench.forward import LATENCY_RATE, ForwardSize, Phases, Running, connected, plain, served
from pleach.bench.measurement import Measurement
from pleach.bench.systems.system import Case, System
from pleach.errors import LiveError

RATES = (0, LATENCY_RATE)  # at full speed, and at a steady rate, at which fewer events share a message
COMMAND = ("ss", "-tinpHO")
COMMAND_SECONDS_MAX = 10.0
PROCESS = re.compile(r"\bpid=(\d+)")
ACKNOWLEDGED = re.compile(r"\bbytes_acked:(\d+)")

STABLE_SECONDS, STABLE_SECONDS_MAX = 1.0, 60.0  # without another connection: a cluster has built what it needs
POLL_SECONDS = 0.2

Session: TypeAlias = int  # of processes: that of a server or a client, with all that it has started
Way: TypeAlias = tuple[Session, Session]  # from, to
Socket: TypeAlias = tuple[str, str]  # its own address, and that of the other end


class Sent(NamedTuple):
    """What has arrived of what was sent by a socket."""

    way: Way
    arrived: int  # bytes


class EventBytes(NamedTuple):
    """Bytes for each event."""

    published: float  # publisher to server
    delivered: float  # server to subscriber
    busiest: float  # from one server to another, where that is most: to a copy
    copied: float  # between all servers, in all directions


def measured(
    systems: Sequence[System], effort: ForwardSize, bench: str, rates: Sequence[int] = RATES
) -> Iterator[Measurement]:
    """Medians over the rounds."""
    if shutil.which(COMMAND[0]) is None:
        sys.stderr.write("bytes on the wire are skipped: ss (iproute2) is not installed\n")
        return
    for system in systems:
        with served(Case.VARIED, [system]) as (running,):
            for rate in rates:
                events = effort.latency_events if rate else max(10, int(effort.events[Case.VARIED] * system.pace))
                rounds = [bytes_per_event(running, events, rate) for _ in range(effort.rounds)]
                yield from _rows(system.name, rate, EventBytes(*map(median, zip(*rounds, strict=True))), bench)


def _rows(name: str, rate: int, found: EventBytes, bench: str) -> Iterator[Measurement]:
    when = f"at {rate:,} events/s" if rate else "at full speed"

    def case(what: str) -> str:
        return f"bytes per event {what} {when}, {name}"

    yield plain(case("from the publisher"), found.published, "bytes", bench)
    yield plain(case("to the subscriber"), found.delivered, "bytes", bench)
    for what, value in (("to another server, at most", found.busiest), ("between all servers", found.copied)):
        ratio = value / found.published
        yield Measurement(bench, case(what), value, "bytes", "from the publisher", ratio, None, ok=True)


def bytes_per_event(running: Running, events: int, rate: int) -> EventBytes:
    with connected(running, Case.VARIED, Phases(events, 1, rate)) as workers:
        publisher, subscriber = workers.publisher.pid, workers.subscriber.pid
        servers = _started_here() - {publisher, subscriber}
        before = _acknowledged_by_all(servers | {publisher, subscriber})
        workers.warm_up()
        after = acknowledged()
    if not before.keys() <= after.keys():
        raise LiveError(f"{workers.name}: a connection has ended while its bytes were counted")
    sent: Counter[Way] = Counter()
    for socket, (way, arrived) in after.items():
        sent[way] += arrived - (before[socket].arrived if socket in before else 0)
    between = [count for way, count in sent.items() if servers.issuperset(way)]
    return EventBytes(
        _total(sent, {publisher}, servers) / events,
        _total(sent, servers, {subscriber}) / events,
        max(between) / events,
        sum(between) / events,
    )


def _total(sent: Counter[Way], senders: Collection[Session], receivers: Collection[Session]) -> int:
    return sum(count for (sender, receiver), count in sent.items() if sender in senders and receiver in receivers)


def _started_here() -> set[Session]:
    """Of the processes that this one has started: each has a session of its own."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            _, parent, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(parent) == os.getpid():
                found.add(int(folder.name))
    return found


def _acknowledged_by_all(sessions: Collection[Session]) -> dict[Socket, Sent]:
    """As soon as their connections have not changed for a while."""
    deadline = time.monotonic() + STABLE_SECONDS_MAX
    since, known = time.monotonic(), set[Socket]()
    while time.monotonic() < deadline:
        found = {socket: sent for socket, sent in acknowledged().items() if {*sent.way} <= {*sessions}}
        if found.keys() != known:
            since, known = time.monotonic(), {*found}
        elif time.monotonic() - since >= STABLE_SECONDS:
            return found
        time.sleep(POLL_SECONDS)
    raise LiveError(f"connections still change after {STABLE_SECONDS_MAX:g} s")


def acknowledged() -> dict[Socket, Sent]:
    """Of connections whose ends are both on this machine."""
    answer = subprocess.run(  # noqa: S603 - the command is written here
        COMMAND, capture_output=True, text=True, check=True, timeout=COMMAND_SECONDS_MAX
    )
    sockets: dict[Socket, tuple[Session, int]] = {}
    for line in answer.stdout.splitlines():
        _state, _unread, _unsent, local, remote, *_ = line.split()
        process, acknowledged = PROCESS.search(line), ACKNOWLEDGED.search(line)
        with suppress(ProcessLookupError):
            if process is not None:
                sockets[local, remote] = os.getsid(int(process[1])), int(acknowledged[1]) if acknowledged else 0
    return {
        (local, remote): Sent((sender, sockets[remote, local][0]), count)
        for (local, remote), (sender, count) in sockets.items()
        if (remote, local) in sockets
    }
