"""A process with a replica is killed (SIGKILL) at random moments, in fills and in between: what it said is on its disk.

What was killed is then damaged, too: it is refused, or all of it is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from pleach.core.links.endpoint import Batch, Journalled, Progress, Queued
from pleach.errors import StoreError
from pleach.server.storage.replica import Replica
from pleach.server.storage.store import Store
from support.live.disk_damage import flip, random_bits
from support.thorough import FACTOR

ROUNDS = 15 * FACTOR
FLIPS = 60 * FACTOR
LINES_MAX = 60  # that a child is let live for, in a round
CHILD = """
import sys
from itertools import count
from pathlib import Path
from random import Random
from pleach.errors import AstrayError
from pleach.server.storage import database, fill
from pleach.server.storage.replica import Replica
from pleach.server.storage.store import Store, new_run
from test_replica_kill import commit

database.CHECKPOINT_BYTES = 200_000
fill.CHUNK_BYTES = 4_000
folder, stream = Path(sys.argv[1]), Random(int(sys.argv[2]))
records = []
with Store.open(folder / "primary", "b", epoch=1) as store, Replica.open(folder / "replica", "b") as replica:
    assert not replica.damage, replica.damage
    print("opened", replica.position.number if replica.position else 0, flush=True)
    store.begin_run(new_run())
    store.on_record = lambda *record: records.append(record)
    filling = None
    while True:
        commit(store, store.position.number)
        if filling is None and (replica.position is None or stream.random() < 0.2):
            replica.begin_fill()
            records.clear()
            filling = store.fill()
            print("filling", flush=True)
        try:
            replica.apply_all(records)
        except AstrayError:  # the last life has handed out more than it has written
            replica.begin_fill()
            filling = store.fill()
        records.clear()
        if filling is not None:
            chunk = filling.next_chunk()
            if chunk is None:
                replica.end_fill(store.position)
                filling = None
            else:
                replica.take(chunk)
        if filling is None:
            print("has", replica.position.number, flush=True)
"""


def commit(store, number):
    """The same for the same number, in any process."""
    first = max(1, number - 20)
    batch = Batch.empty()._replace(
        journal=[Journalled("a", b"%d" % number, float(number))],
        queued=[Queued(peer, number, b"%d" % number + b"." * 600) for peer in ("a", "c")],
        progress={peer: Progress(1, 1, number, first) for peer in ("a", "c")},
    )
    store.commit(batch, b"%d" % number * 100 if number % 37 == 0 else None)


def killed_after(folder, seed, lines):
    """Let a child print so many lines, and kill it; returns what it said last to have, and whether it was filling."""
    search = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
    )
    said = []
    try:
        for _ in range(lines):
            said.append(child.stdout.readline())
            assert said[-1], "the child ended by itself"
    finally:
        child.kill()  # in the middle of whatever it does now
        said += [line for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        child.stdout.close()
        child.wait()
    had = [int(line.split()[1]) for line in said if not line.startswith("filling")]
    return had[-1], said[-1].startswith("filling")


class Expected:
    """What a store has after so many commits."""

    def __init__(self, folder):
        self._store = Store.open(folder, "b", epoch=1)
        self._known = {}

    def after(self, number):
        while self._store.position.number <= number:
            self._known[self._store.position.number] = self._store.load()
            commit(self._store, self._store.position.number)
        return self._known[number]

    def close(self):
        self._store.close()


@pytest.fixture
def expected(tmp_path):
    expected = Expected(tmp_path / "expected")
    yield expected
    expected.close()


def found_in(folder):
    """The position and the content of a replica; None: it is refused, or damaged, or there was none."""
    try:
        with Replica.open(folder, "b") as replica:
            position = replica.position
    except StoreError:
        return None
    if position is None:
        return None
    with Store.open(folder, "b", epoch=9) as store:
        assert store.position == position
        return position.number, store.load()


def test_what_a_replica_has_confirmed_survives_a_kill(tmp_path, expected):
    stream, filling, last = Random(1), 0, 0
    for seed in range(ROUNDS):
        had, was_filling = killed_after(tmp_path, seed, stream.randrange(1, LINES_MAX))
        filling += was_filling
        found = found_in(tmp_path / "replica")
        if found is None:
            assert had == 0, "it had none"
            continue
        number, content = found
        assert number >= had
        assert content == expected.after(number)
        last = number
    assert last > ROUNDS
    assert filling > 0


def test_whichever_bit_is_flipped_it_counts_as_none_or_is_all_there(tmp_path, expected):
    had, _ = killed_after(tmp_path, 4, 90)
    outcomes = {"damaged": 0, "harmless": 0}
    for name, bit in random_bits(tmp_path / "replica", Random(20), FLIPS):
        place = tmp_path / "damaged"
        shutil.copytree(tmp_path / "replica", place)
        flip(place / name, bit)
        found = found_in(place)
        if found is None:
            outcomes["damaged"] += 1
        else:
            number, content = found
            assert number >= had, f"bit {bit} of {name}"
            assert content == expected.after(number), f"bit {bit} of {name}"
            outcomes["harmless"] += 1
        shutil.rmtree(place)
    assert outcomes["damaged"] > FLIPS // 4
