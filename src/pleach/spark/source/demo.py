"""A demonstration: three brokers, a publisher, and a stream that reads what it wants while a link is swapped.

p ──▶ a ── b ── c       swapped in the middle of it: a ── c ── b        stream: symbol = 'IBM' at b, the rest at c
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from pleach.client import blocking
from pleach.errors import LiveError
from pleach.harness.network import Ready
from pleach.net.http_client import ask
from pleach.spark.session import spark_session
from pleach.spark.source.register import NAME, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SYMBOLS = ("IBM", "ACME", "TIN")
FILTER, SPLIT = "price >= 90", "symbol = 'IBM'"
PAUSE_SECONDS = 0.02  # between events
STOP_SECONDS_MAX = 15.0
ARRIVAL_SECONDS_MAX = 60.0
POLL_SECONDS = 0.1


class QuoteRow(msgspec.Struct, frozen=True):
    symbol: str
    price: int
    n: int


class DemoOutcome(msgspec.Struct, frozen=True):
    published: int
    wanted: list[int]
    arrived: list[int]
    batches: int

    @property
    def is_good(self) -> bool:
        return bool(self.wanted) and sorted(self.arrived) == self.wanted


class DemoReporter(msgspec.Struct, frozen=True):
    """Who is told how it goes."""

    stage: Callable[[str], None]
    batch: Callable[[int, Sequence[QuoteRow]], None]


def run_demo(seconds: float, master: str, audience: DemoReporter) -> DemoOutcome:
    with tempfile.TemporaryDirectory(prefix="pleach-demo-") as scratch:
        place = Path(scratch)
        audience.stage("starting three brokers")
        with _brokers(place) as (a, b, c):
            audience.stage("starting Spark")
            spark = spark_session(master, app="pleach source-demo")
            try:
                stream = _Stream(spark, place, f"{b.client},{c.client}", audience)
                return _watch(stream, a, seconds, audience)
            finally:
                spark.stop()


def _watch(stream: _Stream, a: Ready, seconds: float, audience: DemoReporter) -> DemoOutcome:
    audience.stage("subscribing")
    with stream.running(), _Publisher(a.client) as publisher:
        audience.stage(f"reading {FILTER}")
        time.sleep(seconds / 2)
        asyncio.run(ask(a.admin, "/overlay/swap", {"a": "a", "b": "b", "c": "c"}, seconds_max=ARRIVAL_SECONDS_MAX))
        audience.stage("a–b–c is a–c–b now")
        time.sleep(seconds / 2)
        publisher.stop()
        wanted = [row.n for row in map(_row, range(publisher.count)) if row.price >= 90]
        stream.wait_for(len(wanted))
    return DemoOutcome(publisher.count, wanted, [row.n for row in stream.rows], len(stream.batches))


def _row(number: int) -> QuoteRow:
    return QuoteRow(SYMBOLS[number % len(SYMBOLS)], number * 37 % 100, number)


class _Publisher:
    """Publishes on a thread of its own, until it is stopped."""

    def __init__(self, address: str) -> None:
        self._client = blocking.BlockingClient(address, name="demo-publisher")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._publish, name="publisher", daemon=True)
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._client.close()

    def _publish(self) -> None:
        while not self._stop.wait(PAUSE_SECONDS):
            self._client.publish(msgspec.to_builtins(_row(self.count)))
            self.count += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class _Stream:
    def __init__(self, spark: SparkSession, place: Path, brokers: str, audience: DemoReporter) -> None:
        register(spark)
        self.batches: dict[int, list[QuoteRow]] = {}
        self._audience = audience
        options = {"brokers": brokers, "name": "demo", "filter": FILTER, "split": SPLIT}
        frame = spark.readStream.format(NAME).options(**options).schema("symbol string, price int, n bigint").load()
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(place / "checkpoint"))
        self._writer = writer.trigger(processingTime="500 milliseconds")
        self._query: StreamingQuery | None = None

    @property
    def rows(self) -> list[QuoteRow]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    def _take(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = [QuoteRow(*row) for row in frame.collect()]
        self._audience.batch(number, self.batches[number])

    @contextmanager
    def running(self) -> Iterator[None]:
        self._query = self._writer.start()
        try:
            self._wait(lambda: bool(self.batches))  # the first batch is there once the network knows the stream
            yield
        finally:
            self._query.stop()

    def wait_for(self, count: int) -> None:
        self._wait(lambda: len(self.rows) >= count)

    def _wait(self, condition: Callable[[], bool]) -> None:
        assert self._query is not None
        deadline = time.monotonic() + ARRIVAL_SECONDS_MAX
        while not condition() and time.monotonic() < deadline:
            if (error := self._query.exception()) is not None:
                raise LiveError(f"the stream has failed: {error}")
            time.sleep(POLL_SECONDS)


@contextmanager
def _brokers(place: Path) -> Iterator[tuple[Ready, Ready, Ready]]:
    """a – b – c, as processes that end with the block."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        b = _broker(started, place, "b", "--neighbour=a", "--neighbour=c")
        a, c = (_broker(started, place, name, f"--peer=b={b.peer}") for name in "ac")
        yield a, b, c
    finally:
        for process in started:
            process.terminate()
        for process in started:
            _see_off(process)


def _broker(started: list[subprocess.Popen[bytes]], place: Path, name: str, *arguments: str) -> Ready:
    command = [sys.executable, "-m", "pleach", "broker", f"--name={name}", f"--data-dir={place / name}", *arguments]
    with (place / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL)  # noqa: S603
    started.append(process)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise LiveError(f"broker {name} does not start: {(place / f'{name}.log').read_text()[-400:]}")
    return msgspec.json.decode(line, type=Ready)


def _see_off(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
