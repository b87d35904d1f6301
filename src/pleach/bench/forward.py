"""Throughput and latency of real brokers, against other systems that are installed.

    publisher process ──▶ server process(es) ──▶ subscriber process          all on loopback

Every system gets events with 200 bytes of payload, from one publisher process to one subscriber process, each written
with the system's own Python library in its fastest normal way; where that is asyncio (Pleach, NATS), on uvloop if it is
installed. In a fan-out all readers are in one process. After a warm-up, which is received to its end, the subscriber
counts: events per second, from the publisher's first event to the last one received. The systems take turns, and the
medians over the rounds are reported.
NATS (core) and MQTT (QoS 0) keep events in memory only, and confirm nothing to the publisher: Pleach is measured in
memory against them, though it confirms every event and loses none on a broken connection; with a disk it is reported
beside.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from pleach.bench.measurement import Measurement
from pleach.bench.systems.processes import read_line, stop
from pleach.bench.systems.registry import DURABLE, GUARDED, OURS, PEERS, SECURED
from pleach.bench.systems.system import Addresses, Case, System, WorkerResult, WorkerTask
from pleach.errors import LiveError

BARS = {
    (Case.ONE, "nats-server with nats-py"): 0.5,
    (Case.ONE, "mosquitto with paho-mqtt"): 2.0,
    (Case.CHAIN, "nats-server with nats-py"): 0.5,
    (Case.FILTERS, "rabbitmq-server's headers exchange with pika"): 20.0,
}
TLS_BAR = 0.85  # of the throughput of plain connections, with rights, too
LATENCY_RATE = 1_000  # events per second while latencies are measured
SETTLE_SECONDS = 0.3  # for subscriptions to reach servers that do not confirm them
ALONE = "alone"


class ForwardSize(NamedTuple):
    events: dict[Case, int]  # per round
    rounds: int
    latency_events: int  # per round


QUICK = ForwardSize(
    {Case.ONE: 20_000, Case.VARIED: 10_000, Case.CHAIN: 15_000, Case.FAN_OUT: 200, Case.FILTERS: 10_000}, 1, 1_000
)
FULL = ForwardSize(
    {Case.ONE: 150_000, Case.VARIED: 60_000, Case.CHAIN: 100_000, Case.FAN_OUT: 1_500, Case.FILTERS: 40_000}, 5, 2_500
)
WARM_UP_SHARE = 5  # a fifth of the measured events, before them


class Running(NamedTuple):
    system: System
    addresses: Addresses


def run(*, quick: bool, seed: int, peers: bool = False) -> Iterator[Measurement]:  # noqa: ARG001 - nothing is drawn
    effort = QUICK if quick else FULL
    systems: list[System] = [OURS, DURABLE, *(peer for peer in PEERS if peers and not is_skipped(peer))]
    with stopped_in_order():
        for case in Case:
            yield from measure(case, [system for system in systems if case in system.cases], effort)
        yield from latencies([system for system in systems if Case.ONE in system.cases], effort)


def run_with_tls(*, quick: bool, seed: int) -> Iterator[Measurement]:  # noqa: ARG001 - nothing is drawn
    """TLS, and TLS with rights, beside plain connections."""
    effort = QUICK if quick else FULL
    with stopped_in_order():
        for case in SECURED.cases:
            yield from measure(case, [OURS, SECURED, GUARDED], effort)
        yield from latencies([OURS, SECURED, GUARDED], effort)


@contextmanager
def stopped_in_order() -> Iterator[None]:
    """A SIGTERM ends the benchmark as Ctrl-C does: with all that it started."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def is_skipped(peer: System) -> bool:
    missing = peer.missing()
    if missing:
        sys.stderr.write(f"{peer.name} is skipped: {missing} is not installed\n")
    return bool(missing)


def measure(case: Case, systems: Sequence[System], effort: ForwardSize) -> Iterator[Measurement]:
    """Throughput of one case, in all systems that have it."""
    rates = rates_of(case, systems, effort)
    ours = rates[OURS.name]
    for system in systems:
        theirs = rates[system.name]
        yield plain(f"{case}, {system.name}", median(theirs), "events/s")
        if system in PEERS:
            yield _compared(case, system, ours, theirs)
        if system in (SECURED, GUARDED):
            ratio = median(mine / plain for mine, plain in zip(theirs, ours, strict=True))
            name = f"{case}, {system.name}"
            yield Measurement("forward", name, median(theirs), "events/s", OURS.name, ratio, TLS_BAR, ratio >= TLS_BAR)


def rates_of(case: Case, systems: Sequence[System], effort: ForwardSize) -> dict[str, list[float]]:
    """Events per second by the name of each system, one for each round; the systems take turns."""
    rates: dict[str, list[float]] = {system.name: [] for system in systems}
    with served(case, systems) as running:
        for _ in range(effort.rounds):
            for each in running:
                events = max(10, int(effort.events[case] * each.system.pace))
                rates[each.system.name].append(_round(each, case, events, 0).rate)
    return rates


def _compared(case: Case, peer: System, ours: list[float], theirs: list[float]) -> Measurement:
    bar = BARS.get((case, peer.name))
    ratio = median(mine / other for mine, other in zip(ours, theirs, strict=True))
    ok = bar is None or ratio >= bar
    return Measurement("forward", f"{case}, {OURS.name}", median(ours), "events/s", peer.name, ratio, bar, ok)


def latencies(systems: Sequence[System], effort: ForwardSize, bench: str = "forward") -> Iterator[Measurement]:
    """p50 and p99 from the publisher's call to the subscriber's, at a steady rate."""
    outcomes: dict[str, list[WorkerResult]] = {system.name: [] for system in systems}
    with served(Case.ONE, systems) as running:
        for _ in range(effort.rounds):
            for each in running:
                outcomes[each.system.name].append(_round(each, Case.ONE, effort.latency_events, LATENCY_RATE))
    for name, rounds in outcomes.items():
        for percent in (50, 99):
            seconds = median(outcome.latencies[len(outcome.latencies) * percent // 100] for outcome in rounds)
            yield plain(f"latency p{percent} at {LATENCY_RATE:,} events/s, {name}", seconds * 1_000, "ms", bench)


def plain(case: str, value: float, unit: str, bench: str = "forward") -> Measurement:
    return Measurement(bench, case, value, unit, ALONE, 1.0, None, ok=True)


# Processes -----------------------------------------------------------------------------------------------------


@contextmanager
def served(case: Case, systems: Sequence[System]) -> Iterator[list[Running]]:
    """The servers of all systems, side by side; those whose turn it is not are idle."""
    with ExitStack() as stack:
        place = tempfile.TemporaryDirectory(prefix="pleach-bench-", ignore_cleanup_errors=True)
        root = Path(stack.enter_context(place))
        running = []
        for number, system in enumerate(systems):
            directory = root / str(number)
            directory.mkdir()
            running.append(Running(system, stack.enter_context(system.serve(case, directory))))
        yield running


def _round(running: Running, case: Case, events: int, rate: int) -> WorkerResult:
    with connected(running, case, Phases(max(1, events // WARM_UP_SHARE), events, rate)) as workers:
        workers.warm_up()
        workers.let_go()
        assert workers.subscriber.stdout is not None
        line = workers.subscriber.stdout.readline()  # the worker bounds its own time
    outcome = msgspec.json.decode(line, type=WorkerResult) if line else WorkerResult(0, 0.0)
    if not outcome.received:
        raise LiveError(f"{workers.name}, {case}: the subscriber got nothing")
    return outcome


class Phases(NamedTuple):
    warm_up: int  # events
    events: int
    rate: int  # events per second; 0: as fast as it goes


class Workers(NamedTuple):
    """The client processes of a system."""

    name: str
    publisher: subprocess.Popen[bytes]
    subscriber: subprocess.Popen[bytes]

    def warm_up(self) -> None:
        """Publish the first phase; returns when all of it is confirmed and received, and both are still connected."""
        self.let_go()
        read_line(self.subscriber, f"the subscriber of {self.name}")
        read_line(self.publisher, f"the publisher of {self.name}")

    def let_go(self) -> None:
        assert self.publisher.stdin is not None
        self.publisher.stdin.write(b"go\n")
        self.publisher.stdin.flush()


@contextmanager
def connected(running: Running, case: Case, phases: Phases) -> Iterator[Workers]:
    """Both are connected, and nothing is published yet."""
    name, addresses = running.system.name, running.addresses
    with ExitStack() as stack:
        task = WorkerTask(name, case, addresses.subscriber, phases.events, phases.warm_up, phases.rate, addresses.tls)
        subscriber = stack.enter_context(_worker("subscribe", task))
        read_line(subscriber, f"the subscriber of {name}")
        task = msgspec.structs.replace(task, address=addresses.publisher)
        publisher = stack.enter_context(_worker("publish", task))
        read_line(publisher, f"the publisher of {name}")
        time.sleep(SETTLE_SECONDS)
        yield Workers(name, publisher, subscriber)


@contextmanager
def _worker(role: str, task: WorkerTask) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "pleach.bench.systems.worker", role, msgspec.json.encode(task).decode()]
    process = subprocess.Popen(  # noqa: S603 - ourselves
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        yield process
    finally:
        stop(process)
