"""A consumer process that is stopped (SIGSTOP) in the middle of a stream, and what the others notice of it.

The limit must be within reach of the stopped consumer, and above what the fast ones lag behind on a busy machine.

First all consumers read, then one of them is stopped for as long again, then it goes on (SIGCONT). What must hold: the
broker's memory stays within what its limits allow; the fast consumers get every event once and in order, and their p99
at most doubles; the stopped one is told that its session is lost, or, below the limit, gets everything once in order.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any

import msgspec

import pleach
from pleach.errors import SessionLostError
from support.live.broker_process import BrokerProcess, processes
from support.live.hostile import SAMPLE_SECONDS, resident_bytes, watch
from support.python_process import command, environment

FAST = 10
PAYLOAD = bytes(200)
GROWTH_BYTES_MAX = 48 * 1_048_576  # besides the outboxes: sockets' buffers, the index, what Python keeps
COPIES_OF_OUTBOX = 3  # the session's, the connection's, and what is on its way to a disk
END_SECONDS_MAX = 120.0
LOOK_EVENTS = 100  # between two looks at whether the fast consumers keep up
P99_RATIO_MAX = 2.0


class Plan(msgspec.Struct, frozen=True):
    seconds: float  # with all consumers reading
    stopped_seconds: float  # with one of them stopped
    rate: float  # events per second
    limit: int  # bytes that the broker keeps for a client


class Verdict(msgspec.Struct):
    published: int = 0
    base_bytes: int = 0
    peak_bytes: int = 0
    evicted: int = 0
    p50_ms: list[float] = []  # all running, one stopped
    p99_ms: list[float] = []
    stopped_got: int = 0
    stopped_told: str = ""
    faults: list[str] = []

    @property
    def p99_ratio(self) -> float:
        return self.p99_ms[1] / self.p99_ms[0]

    def expect(self, condition: object, fault: str) -> None:
        if not condition:
            self.faults = [*self.faults, fault]


# Consumers: a process of their own -------------------------------------------------------------------------------


async def consume(door: str, name: str, subscribed: asyncio.Barrier) -> dict[str, Any]:
    """Read to the last event; returns what came, and how late."""
    numbers: list[int] = []
    late: list[list[float]] = [[], []]
    told = ""
    async with pleach.connect(door, name=name) as client:
        events = await client.subscribe("n >= 0")
        await subscribed.wait()
        try:
            async for event in events:
                late[int(event.attributes["phase"])].append(time.monotonic() - float(event.attributes["at"]))
                numbers.append(int(event.attributes["n"]))
                if event.attributes["last"]:
                    break
        except SessionLostError as error:
            told = str(error)
    return {"numbers": numbers, "late": late, "told": told}


async def consume_all(door: str, names: list[str]) -> None:
    subscribed = asyncio.Barrier(len(names) + 1)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(consume(door, name, subscribed)) for name in names]
        await subscribed.wait()
        sys.stdout.write("subscribed\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps([task.result() for task in tasks]))


def start_consumers(door: str, *names: str) -> subprocess.Popen[str]:
    asked = command("support.live.slow_consumer", json.dumps([door, names]))
    process = subprocess.Popen(asked, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    assert process.stdout.readline() == "subscribed\n"
    return process


def stop_for_good(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


# A run -----------------------------------------------------------------------------------------------------------


class Stream:
    """The publisher, at a steady rate; it marks each event with the phase of the run."""

    def __init__(self, client: Any, rate: float, keep_up: Callable[[], Awaitable[None]]) -> None:
        """`keep_up` waits until the fast consumers do: a busy machine stops them as well, for a while."""
        self._client = client
        self._rate = rate
        self._keep_up = keep_up
        self.published = 0

    async def run(self, phase: int, seconds: float) -> None:
        started = time.monotonic()
        for n in range(int(seconds * self._rate)):
            await asyncio.sleep(max(0.0, started + n / self._rate - time.monotonic()))
            if n % LOOK_EVENTS == 0:
                await self._keep_up()
            await self._publish(phase)

    async def end(self) -> None:
        await (await self._publish(1, last=True))

    async def _publish(self, phase: int, *, last: bool = False) -> asyncio.Future[Any]:
        attributes = {"n": self.published, "phase": phase, "at": time.monotonic(), "last": last}
        self.published += 1
        future: asyncio.Future[Any] = await self._client.publish_windowed(attributes, PAYLOAD)
        return future


async def until_fast_keep_up(broker: BrokerProcess, limit: int) -> None:
    """What waits for each of them leaves room for all that comes before the next look."""
    async with asyncio.timeout(END_SECONDS_MAX):
        while await asyncio.to_thread(_fullest_fast, broker) > limit / 2:  # noqa: ASYNC110 - other processes
            await asyncio.sleep(SAMPLE_SECONDS)


def _fullest_fast(broker: BrokerProcess) -> int:
    clients = broker.status()["clients"]
    return max((status["queued_bytes"] for name, status in clients.items() if name.startswith("fast-")), default=0)


async def stream(broker: BrokerProcess, stopped: subprocess.Popen[str], plan: Plan, verdict: Verdict) -> None:
    traffic_notes = asyncio.create_task(watch(broker, verdict))
    async with pleach.connect(broker.ready["client"], name="publisher") as client:
        source = Stream(client, plan.rate, partial(until_fast_keep_up, broker, plan.limit))
        await source.run(0, plan.seconds)
        stopped.send_signal(signal.SIGSTOP)
        await source.run(1, plan.stopped_seconds)
        await source.end()
    verdict.published = source.published
    verdict.evicted = (await asyncio.to_thread(broker.status))["counters"]["evicted"]
    stopped.send_signal(signal.SIGCONT)
    traffic_notes.cancel()


def run(plan: Plan, place: Path, *, durable: bool) -> Verdict:
    verdict = Verdict()
    settings = place / "b.toml"
    settings.write_text(f"[limits]\noutbox_bytes_per_client = {plan.limit}\n", encoding="utf-8")
    with processes() as start, ExitStack() as stack:
        broker = start("b", place, "--config", settings, durable=durable)
        consumers = []
        for names in ([f"fast-{n}" for n in range(FAST)], ["stopped"]):
            consumers.append(start_consumers(broker.ready["client"], *names))
            stack.callback(stop_for_good, consumers[-1])
        verdict.base_bytes = resident_bytes(broker.process.pid)
        asyncio.run(stream(broker, consumers[1], plan, verdict))
        fast, (slow,) = (json.loads(process.communicate(timeout=END_SECONDS_MAX)[0]) for process in consumers)
        _judge(verdict, plan, fast, slow)
    return verdict


def _judge(verdict: Verdict, plan: Plan, fast: list[dict[str, Any]], slow: dict[str, Any]) -> None:
    wanted = list(range(verdict.published))
    for phase in (0, 1):
        cuts = quantiles([late for each in fast for late in each["late"][phase]], n=100)
        verdict.p50_ms = [*verdict.p50_ms, 1_000 * cuts[49]]
        verdict.p99_ms = [*verdict.p99_ms, 1_000 * cuts[98]]
    verdict.stopped_got, verdict.stopped_told = len(slow["numbers"]), slow["told"]
    verdict.expect(all(each["numbers"] == wanted for each in fast), "a fast consumer lost, doubled or reordered events")
    verdict.expect(slow["numbers"] == wanted[: len(slow["numbers"])], "what the stopped one got is not a beginning")
    is_complete = len(slow["numbers"]) == len(wanted)
    verdict.expect(is_complete != bool(slow["told"]), "the stopped one has a gap and was not told, or was told in vain")
    grown = verdict.peak_bytes - verdict.base_bytes
    allowed = GROWTH_BYTES_MAX + COPIES_OF_OUTBOX * plan.limit
    verdict.expect(grown <= allowed, f"the broker grew by {grown:,} bytes; {allowed:,} are allowed")


if __name__ == "__main__":
    asyncio.run(consume_all(*json.loads(sys.argv[1])))
