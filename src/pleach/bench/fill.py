"""A copy of a large data directory for a fresh machine, under load: how long it takes, and what publishers notice.

    publisher ──▶ broker ──▶ subscriber
                    │  an outbox: the backlog of a client that is away
                    ├──▶ a copy ✝               destroyed: its process, and its folder
                    ├──▶ (a copy)               with three copies: events are confirmed meanwhile
                    └──▶ a fresh machine        gets a copy of everything

With two copies nothing is confirmed between the loss and the end of the fill (docs/protocols/standby.md): the fill has
the disk for itself, and publishers wait for it. With three they wait until the view of two is agreed upon.

At a steady rate a latency counts from the moment at which the event was due, so that a publisher that is held up counts
for all that it could not publish; at full speed, from the call.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pleach.bench.forward import LATENCY_RATE, plain, stopped_in_order
from pleach.bench.measurement import Measurement
from pleach.bench.systems.pleach import WINDOW, Host, host, host_names, standby_table
from pleach.bench.systems.processes import LOOPBACK, read_line, server
from pleach.bench.systems.system import EVENT_BYTES, TOPIC
from pleach.client.client import Client
from pleach.client.connect import connect
from pleach.core.events.event import Event, EventId
from pleach.core.standby.views import Machine
from pleach.errors import LiveError
from pleach.harness.network import Ready
from pleach.net.http_client import ask
from pleach.net.loops import run_loop
from pleach.server.standby.registers import display
from pleach.server.storage.database import DATABASE

BROKER = "b"
AFTER_SECONDS = 1.0  # of silence, until a machine counts as lost: the default
BACKLOG_EVENT_BYTES = 1_000
MEGABYTE = 1_000_000
SECONDS_MAX = 600.0  # for whatever is waited for
POLL_SECONDS = 0.05
LIMITS = """
[limits]
outbox_bytes_per_client = 8_000_000_000
outbox_bytes_high = 8_000_000_000
"""
# By copies: the rates at which machines are destroyed, one after the other; 0: as fast as it goes.
LOSSES = {3: (LATENCY_RATE, 0), 2: (LATENCY_RATE,)}


class FillSize(NamedTuple):
    megabytes: int  # of the backlog
    seconds_before: float  # that the load is measured without a fill


QUICK = FillSize(30, 2.0)
FULL = FillSize(1_000, 20.0)


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:  # noqa: ARG001 - nothing is drawn
    size = QUICK if quick else FULL
    with stopped_in_order():
        for copies, rates in LOSSES.items():
            for rate, told in zip(rates, run_loop(_stories(copies, rates, size)), strict=True):
                load = f"{rate:,} events/s" if rate else "full speed"
                yield from told.measurements(f"{size.megabytes:,} MB, {copies} copies, {load}")


# What is measured ----------------------------------------------------------------------------------------------


class Confirmed(NamedTuple):
    """When an event was due, and when it was confirmed."""

    due: float
    at: float


class Span(NamedTuple):
    """What the publisher notices between two moments."""

    rate: float  # confirmed events per second
    p99: float  # seconds, of events that were due meanwhile

    @classmethod
    def between(cls, begin: float, end: float, events: list[Confirmed]) -> Span:
        waits = sorted(each.at - each.due for each in events if begin <= each.due < end)
        confirmed = sum(begin <= each.at < end for each in events)
        return cls(confirmed / (end - begin), waits[len(waits) * 99 // 100] if waits else 0.0)


class FillStory(NamedTuple):
    seconds: float  # of the fill
    size: int  # bytes of the database
    stall: float  # the longest time without a confirmation, from the loss on
    before: Span
    meanwhile: Span  # while the fill went on
    memory_before: int  # bytes, of the broker
    memory_peak: int
    replica_peak: int  # of the fresh machine's process

    def measurements(self, name: str) -> Iterator[Measurement]:
        def row(what: str, value: float, unit: str) -> Measurement:
            return plain(f"{name}: {what}", value, unit, "fill")

        def beside(what: str, value: float, unit: str, before: float) -> Measurement:
            return Measurement("fill", f"{name}: {what}", value, unit, "before", value / before, None, ok=True)

        yield row("the fill", self.seconds, "s")
        yield row("filled", self.size / self.seconds / MEGABYTE, "MB/s")
        yield row("confirmed before", self.before.rate, "events/s")
        yield beside("confirmed meanwhile", self.meanwhile.rate, "events/s", self.before.rate)
        yield row("p99 of confirmation before", self.before.p99 * 1_000, "ms")
        yield beside("p99 of confirmation meanwhile", self.meanwhile.p99 * 1_000, "ms", self.before.p99 * 1_000)
        yield row("nothing confirmed after the loss, at most", self.stall, "s")
        yield row("memory of the broker before", self.memory_before / MEGABYTE, "MB")
        before = self.memory_before / MEGABYTE
        yield beside("memory of the broker, at most", self.memory_peak / MEGABYTE, "MB", before)
        yield row("memory of the fresh machine's process, at most", self.replica_peak / MEGABYTE, "MB")


def longest_gap(begin: float, end: float, events: list[Confirmed]) -> float:
    """Without a confirmation."""
    moments = [begin, *sorted(each.at for each in events if begin <= each.at < end), end]
    return max(later - sooner for sooner, later in pairwise(moments))


class ProcessMemory:
    """Resident memory of a process of ours, in bytes, as the kernel counts it."""

    def __init__(self, process: int) -> None:
        self._place = Path("/proc") / str(process)

    @property
    def now(self) -> int:
        return self._field("VmRSS")

    @property
    def peak(self) -> int:
        return self._field("VmHWM")

    def forget_peak(self) -> None:
        (self._place / "clear_refs").write_text("5")

    def _field(self, name: str) -> int:
        lines = dict(line.split(":", 1) for line in (self._place / "status").read_text().splitlines())
        return int(lines[name].split()[0]) * 1_024


# Processes -----------------------------------------------------------------------------------------------------


class CopiedBroker:
    """A broker and the machines around it, each with a folder of its own."""

    def __init__(self, process: int, folder: Path, ready: Ready, hosts: list[Host]) -> None:
        self.process = process
        self.ready = ready
        self._folder = folder
        self._hosts = hosts

    @property
    def database_bytes(self) -> int:
        return (self._folder / DATABASE).stat().st_size

    def host_of(self, machine: Machine) -> Host:
        (found,) = (each for each in self._hosts if each.folder.name == display(machine))
        return found

    async def standby(self) -> dict[str, Any]:
        """What the broker says of its copies."""
        return dict((await ask(self.ready.admin, "/status")).value["standby"])

    async def until(self, is_so: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS_MAX
        while time.monotonic() < deadline:
            standby = await self.standby()
            if is_so(standby):
                return standby
            await asyncio.sleep(POLL_SECONDS)
        raise LiveError(f"not within {SECONDS_MAX:g} s: {what}")


@contextmanager
def _copied_broker(copies: int, directory: Path) -> Iterator[CopiedBroker]:
    with ExitStack() as stack:
        hosts = [stack.enter_context(host(directory / name)) for name in host_names(copies)]
        folder, config = directory / BROKER, directory / "b.toml"
        config.write_text(standby_table(AFTER_SECONDS, copies, [each.address for each in hosts]) + LIMITS)
        command = [sys.executable, "-m", "pleach", "broker", "--name", BROKER, "--config", str(config)]
        command += ["--data-dir", str(folder)]
        command += [f"--{door}-listen={LOOPBACK}:0" for door in ("client", "peer", "admin")]
        process = stack.enter_context(server(command, directory / "b.log"))
        ready = msgspec.json.decode(read_line(process, "the broker"), type=Ready)
        yield CopiedBroker(process.pid, folder, ready, hosts)


def _destroy(lost: Host) -> None:
    with suppress(ProcessLookupError):
        os.killpg(lost.process.pid, signal.SIGKILL)
    lost.process.wait()
    shutil.rmtree(lost.folder)


class Load:
    """A publisher, at a steady rate or at full speed."""

    def __init__(self, client: Client, rate: int) -> None:
        self.events: list[Confirmed] = []
        self.until = math.inf  # an event that is due later is not published
        self._client = client
        self._rate = rate

    async def run(self) -> None:
        """Returns when all is confirmed."""
        begun, count = time.monotonic(), 0
        while (due := begun + count / self._rate if self._rate else time.monotonic()) < self.until:
            if self._rate:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            last = await self._client.publish_windowed({"topic": TOPIC, "number": count}, bytes(EVENT_BYTES))
            last.add_done_callback(partial(self._note, due))
            count += 1
        await last

    def _note(self, due: float, _: asyncio.Future[EventId]) -> None:
        self.events.append(Confirmed(due, time.monotonic()))


async def _stories(copies: int, rates: tuple[int, ...], size: FillSize) -> list[FillStory]:
    async with AsyncExitStack() as stack:
        place = tempfile.TemporaryDirectory(prefix="pleach-bench-", ignore_cleanup_errors=True)
        directory = Path(stack.enter_context(place))
        broker = stack.enter_context(_copied_broker(copies, directory))
        await broker.until(lambda standby: standby["covered"], "all copies are there")
        publisher = await stack.enter_async_context(connect(broker.ready.client, name="publisher", window=WINDOW))
        await _pile_up(publisher, broker.ready.client, size, directory / "absent")
        subscriber = await stack.enter_async_context(connect(broker.ready.client, name="subscriber"))
        await subscriber.subscribe(f"topic = '{TOPIC}'", callback=_take)
        return [await _story(broker, Load(publisher, rate), size) for rate in rates]


async def _pile_up(publisher: Client, address: str, size: FillSize, memory: Path) -> None:
    """Events for a client that is away."""
    async with connect(address, name="absent", state_dir=memory) as absent:
        await absent.subscribe("topic = 'backlog'")
    for number in range(size.megabytes * MEGABYTE // BACKLOG_EVENT_BYTES):
        payload = number.to_bytes(BACKLOG_EVENT_BYTES)
        last = await publisher.publish_windowed({"topic": "backlog", "number": number}, payload)
    await last


def _take(_: Event) -> None:
    """The subscriber's work."""


def _others(standby: dict[str, Any], known: Collection[Machine]) -> set[Machine]:
    """Machines that are being filled, or have been: a small fill may end between two looks."""
    return {*standby["filling"], *standby["copies"]}.difference(known)


async def _story(broker: CopiedBroker, load: Load, size: FillSize) -> FillStory:
    """A machine with a copy is destroyed, and another one gets a copy."""
    memory = ProcessMemory(broker.process)
    publishing = asyncio.create_task(load.run())
    await asyncio.sleep(size.seconds_before)
    whole = (await broker.standby())["copies"]
    memory_before = memory.now
    memory.forget_peak()
    lost_at = time.monotonic()
    _destroy(broker.host_of(next(iter(whole))))
    standby = await broker.until(lambda standby: _others(standby, whole), "a fill begins")
    (fresh,) = _others(standby, whole)
    begun_at = time.monotonic()
    await broker.until(lambda standby: fresh in standby["copies"] and not standby["filling"], "the fill ends")
    ended_at = time.monotonic()
    memory_peak, database_bytes = memory.peak, broker.database_bytes
    replica_peak = ProcessMemory(broker.host_of(fresh).process.pid).peak
    load.until = ended_at
    await publishing
    return FillStory(
        ended_at - begun_at,
        database_bytes,
        longest_gap(lost_at, ended_at, load.events),
        Span.between(lost_at - size.seconds_before, lost_at, load.events),
        Span.between(begun_at, ended_at, load.events),
        memory_before,
        memory_peak,
        replica_peak,
    )
