"""Thousands of hostile connections against one real broker, while a publisher and a subscriber go about their work.

What must hold: the broker lives; its memory stays within a bound of what it was; its open files come back to what they
were; nothing was a bug ("internal error", a traceback); the two honest clients get every event once and in order; and
/healthz is answered each time it is asked for, without a stall.
The attackers are a process of their own, so that honest latencies are not those of their event loop.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import quantiles

import msgspec

import pleach
from support.live import hostile_filter_acts, hostile_http, hostile_protocol_acts  # noqa: F401 - their acts are among ACTS
from support.live.broker_process import BrokerProcess, address, processes
from support.live.health_watch import HealthWatch
from support.live.hostile_acts import ACTS, subscribe_a_lot
from support.live.hostile_wire import Target
from support.python_process import command, environment

# What waits for absent clients is bounded by the settings; small ones, so that a run comes up against them.
LIMITS = """
[limits]
subscriptions = 15_000
vacant = 50
outbox_bytes_per_client = 2_000_000
outbox_bytes_high = 24_000_000
outbox_bytes_low = 12_000_000
"""
GROWTH_BYTES_MAX = 150 * 1_048_576
ACTS_AT_ONCE = 48
SUBSCRIPTION_FLOODS = 2  # in a run with all acts: each asks for ten times what a client may have
SUBSCRIPTIONS_PER_CLIENT = 100_000
PUBLISH_SECONDS = 0.01
SAMPLE_SECONDS = 0.1
RECOVERY_SECONDS_MAX = 60.0
STALL_SECONDS_MAX = 0.25  # of /healthz, on a machine that does nothing else …
STALL_FACTOR = 25  # … and as a multiple of the longest answer before the attack, up to …
STALL_SECONDS_EVER = 2.0  # … this, whatever else the machine does
QUIET_ANSWERS = 25
BUG = re.compile(r"Traceback|internal error|could not be handled|never retrieved")


class Verdict(msgspec.Struct):
    """What a run has shown."""

    connections: int = 0
    seconds: float = 0.0
    base_bytes: int = 0
    peak_bytes: int = 0
    end_bytes: int = 0
    base_files: int = 0
    end_files: int = 0
    published: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    health_asked: int = 0
    health_quiet_ms_max: float = 0.0
    health_ms_max: float = 0.0
    health_failures: list[str] = []
    acts: dict[str, int] = {}
    faults: list[str] = []

    def expect(self, condition: object, fault: str) -> None:
        if not condition:
            self.faults = [*self.faults, fault]


# The attackers ---------------------------------------------------------------------------------------------------


async def attack(target: Target, connections: int, seed: int, names: list[str]) -> Counter[str]:
    """Carry out acts drawn by lot, a bounded number at a time; returns how often each was."""
    rng = Random(f"hostile/{seed}")
    drawn = [names[n % len(names)] for n in range(connections)]
    rng.shuffle(drawn)
    slots = asyncio.Semaphore(ACTS_AT_ONCE)

    async def carry_out(n: int, name: str) -> None:
        async with slots:
            with suppress(OSError, TimeoutError):  # to be cut off is what an attacker expects
                await ACTS[name](Random(f"hostile/{seed}/{n}"), target)

    async with asyncio.TaskGroup() as group:
        for n, name in enumerate(drawn):
            group.create_task(carry_out(n, name))
    return Counter(drawn)


async def flood(target: Target, seed: int) -> None:
    for n in range(SUBSCRIPTION_FLOODS):
        with suppress(OSError, TimeoutError):
            await subscribe_a_lot(Random(f"flood/{seed}/{n}"), target, SUBSCRIPTIONS_PER_CLIENT)


def attack_as_told(told: str) -> None:
    orders = json.loads(told)
    target = msgspec.convert(orders["target"], Target)
    acts = asyncio.run(attack(target, orders["connections"], orders["seed"], orders["names"]))
    if orders["flood"]:
        asyncio.run(flood(target, orders["seed"]))
    sys.stdout.write(json.dumps(acts))


# The honest ------------------------------------------------------------------------------------------------------


class Honest:
    """A publisher and a subscriber that want to be left in peace."""

    def __init__(self, door: str) -> None:
        self._door = door
        self._done = asyncio.Event()
        self.published = 0
        self.received: list[int] = []
        self.latencies: list[float] = []

    async def run(self, ready: asyncio.Event) -> None:
        async with pleach.connect(self._door, name="reader") as reader, pleach.connect(self._door, name="victim") as me:
            events = await reader.subscribe("honest = TRUE", network_wide=False)  # a neighbour is absent
            reading = asyncio.create_task(self._read(events))
            ready.set()
            while not self._done.is_set():
                await me.publish({"honest": True, "n": self.published, "at": time.monotonic()}, bytes(100))
                self.published += 1
                await asyncio.sleep(PUBLISH_SECONDS)
            async with asyncio.timeout(RECOVERY_SECONDS_MAX):
                while len(self.received) < self.published:  # noqa: ASYNC110 - bounded, and polled for clarity
                    await asyncio.sleep(SAMPLE_SECONDS)
            reading.cancel()

    async def _read(self, events: pleach.Subscription) -> None:
        async for event in events:
            self.latencies.append(time.monotonic() - float(event.attributes["at"]))
            self.received.append(int(event.attributes["n"]))

    def stop(self) -> None:
        self._done.set()


# The broker ------------------------------------------------------------------------------------------------------


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0]) * 1_024


def open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


async def watch(broker: BrokerProcess, verdict: Verdict) -> None:
    while broker.process.poll() is None:
        with suppress(OSError):
            verdict.peak_bytes = max(verdict.peak_bytes, resident_bytes(broker.process.pid))
        await asyncio.sleep(SAMPLE_SECONDS)


async def until_files_are_closed(broker: BrokerProcess, files: int) -> None:
    deadline = time.monotonic() + RECOVERY_SECONDS_MAX
    while open_files(broker.process.pid) > files and time.monotonic() < deadline:  # noqa: ASYNC110 - another process
        await asyncio.sleep(SAMPLE_SECONDS)


# A run -----------------------------------------------------------------------------------------------------------


async def siege(broker: BrokerProcess, connections: int, seed: int, names: list[str], *, flooded: bool) -> Verdict:
    verdict, honest, ready = Verdict(connections), Honest(broker.ready["client"]), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(honest.run(ready))
        await ready.wait()
        pid = broker.process.pid
        verdict.base_bytes, verdict.base_files = resident_bytes(pid), open_files(pid)
        traffic_notes = group.create_task(watch(broker, verdict))
        started = time.monotonic()
        with HealthWatch(broker.ready["admin"]) as health:
            await _until_asked(health)
            quiet = health.mark()
            verdict.acts = await _attack_from_outside(broker, connections, seed, names, flooded=flooded)
        _note(verdict, health, quiet)
        verdict.seconds = time.monotonic() - started
        await until_files_are_closed(broker, verdict.base_files)
        verdict.end_files, verdict.end_bytes = open_files(pid), resident_bytes(pid)
        honest.stop()
        traffic_notes.cancel()
    _judge(verdict, honest, broker)
    return verdict


async def _until_asked(health: HealthWatch) -> None:
    while health.mark() < QUIET_ANSWERS and not health.failures:  # noqa: ASYNC110 - it is another thread
        await asyncio.sleep(SAMPLE_SECONDS)


def _note(verdict: Verdict, health: HealthWatch, quiet: int) -> None:
    verdict.health_asked = len(health.seconds)
    verdict.health_quiet_ms_max = 1_000 * max(health.seconds[:quiet])
    verdict.health_ms_max = 1_000 * max(health.seconds[quiet:])
    verdict.health_failures = health.failures[:10]


async def _attack_from_outside(
    broker: BrokerProcess, connections: int, seed: int, names: list[str], *, flooded: bool
) -> dict[str, int]:
    doors = (address(broker.ready[door]) for door in ("client", "peer", "admin"))
    target = Target(*doors, broker.name, "absent", "victim")
    orders = {"target": target, "connections": connections, "seed": seed, "names": names, "flood": flooded}
    attackers = await asyncio.create_subprocess_exec(
        *command("support.live.hostile", json.dumps(orders)), stdout=asyncio.subprocess.PIPE, env=environment()
    )
    output, _ = await attackers.communicate()
    assert attackers.returncode == 0, "the attackers have failed, which proves nothing"
    counts: dict[str, int] = json.loads(output)
    return counts


def _judge(verdict: Verdict, honest: Honest, broker: BrokerProcess) -> None:
    verdict.published = honest.published
    cuts = quantiles(honest.latencies, n=100)
    verdict.p50_ms, verdict.p99_ms = 1_000 * cuts[49], 1_000 * cuts[98]
    grown = verdict.peak_bytes - verdict.base_bytes
    verdict.expect(broker.process.poll() is None, "the broker has died")
    verdict.expect(grown <= GROWTH_BYTES_MAX, f"the broker grew by {grown:,} bytes; {GROWTH_BYTES_MAX:,} are allowed")
    verdict.expect(
        verdict.end_files <= verdict.base_files, f"{verdict.end_files} files open, {verdict.base_files} before"
    )
    verdict.expect(not verdict.health_failures, f"/healthz was not answered: {verdict.health_failures}")
    bound = 1_000 * min(STALL_SECONDS_EVER, STALL_SECONDS_MAX + STALL_FACTOR * verdict.health_quiet_ms_max / 1_000)
    verdict.expect(verdict.health_ms_max <= bound, f"/healthz stalled for {verdict.health_ms_max:,.0f} ms")
    verdict.expect(honest.received == list(range(honest.published)), "honest events were lost, doubled or out of order")
    found = BUG.findall(broker.log())
    verdict.expect(not found, f"the log shows bugs: {dict(Counter(found))}")


def run(connections: int, seed: int, place: Path, *, durable: bool, names: list[str], flooded: bool) -> Verdict:
    with processes() as start:
        settings = place / "b.toml"
        settings.write_text(LIMITS, encoding="utf-8")
        broker = start("b", place, "--config", settings, "--neighbour", "absent", durable=durable)
        return asyncio.run(siege(broker, connections, seed, names, flooded=flooded))


if __name__ == "__main__":
    attack_as_told(sys.argv[1])
