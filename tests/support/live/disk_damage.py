"""Damage to data directories: one bit is flipped in a file, and a broker is started on what is left.

What must hold: a broker either serves all that was confirmed, unaltered, or ends with code 2 and says what is damaged
and what to do about it. It never serves something else, and never prints a traceback.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pleach.core.effects import Observed
from pleach.core.events.language import parse_filter
from pleach.server.storage.database import COMMITTED, DATABASE, REMEDY
from support.live.broker_process import BrokerProcess, RawClient, address, clients, eventually, processes

LOG = f"{DATABASE}-wal"
FILES = (DATABASE, LOG, COMMITTED)
EVENTS = 40
EXIT_UNUSABLE = 2
MARKER = "marked-payload"
FILTER_MARKER = "marked_attribute"


def flip(file: Path, bit: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(bit // 8)
        (byte,) = opened.read(1)
        opened.seek(bit // 8)
        opened.write(bytes([byte ^ 1 << bit % 8]))


def bit_of(file: Path, text: bytes, *, last: bool = True) -> int:
    """The lowest bit of the middle of a text in a file."""
    data = file.read_bytes()
    place = data.rfind(text) if last else data.find(text)
    assert place >= 0, f"{text!r} is not in {file.name}"
    return (place + len(text) // 2) * 8


def random_bits(directory: Path, rng: Random, count: int) -> Iterator[tuple[str, int]]:
    """Bits of all files in turn; each third one in the first hundred bytes, where the headers are."""
    sizes = {name: (directory / name).stat().st_size for name in FILES if (directory / name).exists()}
    for n in range(count):
        name = sorted(sizes)[n % len(sizes)]
        yield name, rng.randrange(8 * (min(sizes[name], 100) if n % 9 < 3 else sizes[name]))


class StartedOnDamage(BrokerProcess):
    """A broker that may refuse to start; `code` says how it ended, if it did."""

    code: int | None = None

    def start(self) -> None:
        try:
            super().start()
        except AssertionError:
            self.code = self.process.returncode


class Confirmed(NamedTuple):
    """A data directory after `kill -9` or SIGTERM, and the client that waits for what it keeps."""

    directory: Path
    subscriber: Any


def written_under_load(place: Path, *, ends_by: str = "kill") -> Confirmed:
    """A broker confirms events for a client that is away, while others come and go, and ends."""
    with processes() as start:
        broker = start("b", place, durable=True)
        with clients(RawClient("s", broker), RawClient("p", broker), RawClient("other", broker)) as (s, p, other):
            wanted = f"n >= 0 AND {FILTER_MARKER} = TRUE"
            s.subscribe("all", wanted)
            s.disconnect()
            for n in range(EVENTS):
                p.do(p.machine.publish({"n": n, FILTER_MARKER: True}, f"{MARKER}-{n:04}".encode() * 20))
                other.do(other.machine.subscribe(f"o{n}", parse_filter(f"{wanted} AND other = {n}")))
                eventually(lambda count=n + 1: len(p.seen(Observed.PUBLISH_ACK)) == count, pumping=[p, other])
            if ends_by == "kill":
                broker.kill()
            else:
                broker.stop()
    return Confirmed(place / "b", s)


@contextmanager
def started_on(confirmed: Confirmed, place: Path, damage: list[tuple[str, int]]) -> Iterator[StartedOnDamage]:
    """A broker on a copy of the directory with these bits flipped."""
    place.mkdir()
    shutil.copytree(confirmed.directory, place / "b")
    for name, bit in damage:
        flip(place / "b" / name, bit)
    broker = StartedOnDamage("b", place, durable=True)
    try:
        yield broker
    finally:
        broker.kill()
        shutil.rmtree(place)


def fault_of(broker: StartedOnDamage, confirmed: Confirmed) -> str:
    """What is wrong with the way in which a broker has dealt with damage; empty: nothing."""
    log = broker.log()
    if "Traceback" in log:
        return f"a traceback: {log}"
    if broker.code is not None:
        refused = broker.code == EXIT_UNUSABLE and ("is damaged" in log or "this Pleach knows" in log)
        return "" if refused else f"exit code {broker.code}: {log}"
    again = copy.deepcopy(confirmed.subscriber)
    again.server = address(broker.ready["client"])
    with clients(again):
        eventually(lambda: len(again.delivered()) == EVENTS, pumping=[again])
    got = [(event.attributes["n"], event.payload) for event in again.delivered()]
    return "" if got == [(n, f"{MARKER}-{n:04}".encode() * 20) for n in range(EVENTS)] else f"altered: {got}"


def tells(broker: StartedOnDamage, *words: str) -> bool:
    log = broker.log()
    return broker.code == EXIT_UNUSABLE and "Traceback" not in log and all(w in log for w in (*words, REMEDY))


def faults_of_flips(place: Path, seed: int, count: int) -> list[str]:
    """Flip bits one by one, in a directory of a broker that was killed and of one that was stopped."""
    faults = []
    for ends_by in ("kill", "stop"):
        (place / ends_by).mkdir()
        confirmed = written_under_load(place / ends_by, ends_by=ends_by)
        for name, bit in random_bits(confirmed.directory, Random(f"{seed}/{ends_by}"), count):
            with started_on(confirmed, place / "damaged", [(name, bit)]) as broker:
                if fault := fault_of(broker, confirmed):
                    faults.append(f"bit {bit} of {name} ({ends_by}): {fault}")
    return faults
