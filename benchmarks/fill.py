"""A fill of a replica while its primary is in use: how long it takes, how long commits wait, how much memory it needs.

    python benchmarks/fill.py --megabytes 1000

The store has outboxes of so many megabytes. Its process commits without a pause, first alone, then with a chunk between
any two commits, which a second process takes over a pipe, with the records. References of the same run: commits
without a fill, and a plain copy of the file with an fsync.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

from pleach.core.links.endpoint import Batch, Progress, Queued
from pleach.core.standby.positions import Position
from pleach.server.storage.database import DATABASE
from pleach.server.storage.replica import Replica
from pleach.server.storage.store import Store, new_run

EPOCH = 1
PEERS = ("a", "b", "c")
PAYLOAD_BYTES = 1_000
BATCH_EVENTS = 32
CHUNKS_IN_FLIGHT = 8
REST_SECONDS = 0.002  # between commits: a broker that handles events


class Writer:
    """Commits of events for three peers, of which one reads, and two let their outboxes grow."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._numbers = count(1)
        self._last = 0
        self.seconds: list[float] = []

    def commit(self, events: int = BATCH_EVENTS) -> None:
        queued = []
        for _ in range(events):
            self._last = next(self._numbers)
            payload = self._last.to_bytes(8, "big") + os.urandom(PAYLOAD_BYTES - 8)
            queued += [Queued(peer, self._last, payload) for peer in PEERS]
        firsts = {"a": self._last + 1 - events, "b": 1, "c": 1}
        progress = {peer: Progress(EPOCH, 1, self._last, first) for peer, first in firsts.items()}
        batch = Batch.empty()._replace(queued=queued, progress=progress)
        started = time.perf_counter()
        self._store.commit(batch)
        self.seconds.append(time.perf_counter() - started)


class Figures(NamedTuple):
    seconds: float
    commits: int
    longest: float  # of a commit, with what it waited for
    median: float
    slow: float  # one in a hundred takes longer
    memory: int  # bytes, the most that the process has had

    @classmethod
    def of(cls, started: float, waits: list[float]) -> Figures:
        seconds = time.perf_counter() - started
        slow = statistics.quantiles(waits, n=100)[-1]
        return cls(seconds, len(waits), max(waits), statistics.median(waits), slow, memory())

    def told(self, what: str) -> str:
        return (
            f"{what}: {self.seconds:.1f} s, {self.commits:,} commits, at most {self.memory / 1e6:.0f} MB of memory; "
            f"a commit takes {self.median * 1_000:.1f} ms (median), 99 % within {self.slow * 1_000:.0f} ms, "
            f"the longest {self.longest * 1_000:.0f} ms"
        )


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


def replicate(folder: Path, stream: Connection) -> None:
    """The process of the replica: takes what comes, and confirms each chunk."""
    with Replica.open(folder, "b") as replica:
        replica.begin_fill()
        while (message := stream.recv()) is not None:
            match message:
                case bytes():
                    replica.take(message)
                    stream.send("taken")
                case (_, _):
                    started = time.perf_counter()
                    replica.end_fill(message)
                    stream.send(time.perf_counter() - started)
                case _:
                    replica.apply_all([message])
        stream.send((replica.position, memory()))


class Replication:
    """Sends records and chunks in the order in which they are given, in a thread of its own."""

    def __init__(self, stream: Connection) -> None:
        self._stream = stream
        self._waiting: SimpleQueue[object] = SimpleQueue()
        self._sender = Thread(target=self._send)
        self._sender.start()
        self.put = self._waiting.put
        self.in_flight = 0  # chunks

    def _send(self) -> None:
        while (message := self._waiting.get()) is not None:
            self._stream.send(message)
        self._stream.send(None)

    def note_taken(self) -> None:
        while self._stream.poll():
            self._stream.recv()
            self.in_flight -= 1

    def end(self, position: Position) -> None:
        self.put(position)
        for _ in range(self.in_flight):
            self._stream.recv()
        print(f"the replica needs {self._stream.recv():.2f} s to put the new copy into its place")
        self.put(None)
        self._sender.join()
        reached, most = self._stream.recv()
        assert reached == position
        print(f"the replica's process has had at most {most / 1e6:.0f} MB of memory")


def with_fill(store: Store, writer: Writer, stream: Connection) -> Iterator[float]:
    """Commits with a chunk between any two; yields how long each commit took, with the chunk before it."""
    replication = Replication(stream)
    store.begin_run(new_run())
    store.on_record = lambda *record: replication.put(record)
    fill, reading = store.fill(), []
    while True:
        replication.note_taken()
        started = time.perf_counter()
        if replication.in_flight < CHUNKS_IN_FLIGHT:
            chunk = fill.next_chunk()
            if chunk is None:
                break
            reading.append(time.perf_counter() - started)
            replication.put(chunk)
            replication.in_flight += 1
        writer.commit()
        yield time.perf_counter() - started
        time.sleep(REST_SECONDS)
    store.on_record = None
    replication.end(store.position)
    median, longest = statistics.median(reading) * 1_000, max(reading) * 1_000
    print(f"{len(reading):,} chunks were read, each in {median:.1f} ms (median), at most {longest:.0f} ms")


def alone(writer: Writer, seconds: float) -> Iterator[float]:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        writer.commit()
        yield time.perf_counter() - started
        time.sleep(REST_SECONDS)


def plain_copy(folder: Path) -> float:
    started = time.perf_counter()
    shutil.copy(folder / DATABASE, folder / "copy")
    with (folder / "copy").open("rb") as copied:
        os.fsync(copied.fileno())
    (folder / "copy").unlink()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, help="on the disk that is to be measured")
    parser.add_argument("--replica", type=Path, help="on the disk of the replica, if that is another one")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as name,
        tempfile.TemporaryDirectory(dir=arguments.replica or arguments.folder) as other,
    ):
        folder, place = Path(name), Path(other)
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("spawn").Process(target=replicate, args=(place / "replica", theirs))
        child.start()
        with Store.open(folder / "primary", "b", epoch=EPOCH) as store:
            writer = Writer(store)
            for _ in range(arguments.megabytes):
                writer.commit(1_000_000 // PAYLOAD_BYTES)
            print(f"the store has {store.path.stat().st_size / 1e6:,.0f} MB; memory before: {memory() / 1e6:.0f} MB")
            started = time.perf_counter()
            print(Figures.of(started, list(alone(writer, 10.0))).told("without a fill"))
            started = time.perf_counter()
            print(Figures.of(started, list(with_fill(store, writer, ours))).told("with a fill"))
            print(f"a plain copy of the file: {plain_copy(folder / 'primary'):.1f} s")
            expected = store.load()
        child.join()
        with Store.open(place / "replica", "b", epoch=EPOCH) as copy:
            assert copy.load() == expected
        print("both stores are equal")


if __name__ == "__main__":
    main()
