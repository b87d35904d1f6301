"""A process with a store is killed (SIGKILL) at random moments: what it was told to be committed is on the disk."""

from __future__ import annotations

import subprocess
import sys
from random import Random

from pleach.server.storage.store import Store
from support.thorough import FACTOR

ROUNDS = 20 * FACTOR
COMMITS_MAX = 60  # that a child is let live for, in a round
CHILD = """
import sys
from pleach.core.links.endpoint import Batch, Journalled, Progress, Queued
from pleach.server.storage.store import Store

with Store.open(sys.argv[1], "b", epoch=1) as store:
    saved = store.load()
    number = saved.sessions["a"].received if saved.sessions else 0
    while True:
        number += 1
        first = max(1, number - 5)
        batch = Batch.empty()._replace(
            journal=[Journalled("a", b"%d" % number, float(number))],
            queued=[Queued(peer, number, b"%d" % number + b"." * 3_000) for peer in ("a", "c")],
            progress={peer: Progress(1, 1, number, first) for peer in ("a", "c")},
        )
        if number % 37 == 0:
            store.commit(batch, b"%d" % number)
        else:
            store.commit(batch)
        print(number, flush=True)
"""


def killed_after(directory, lines):
    """Let a child print so many lines, kill it, and return the last number that it printed."""
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(directory)], stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(lines):
            assert child.stdout.readline(), "the child ended by itself"
    finally:
        child.kill()  # in the middle of whatever it does now
        rest = child.stdout.read()
        child.stdout.close()
        child.wait()
    return int(rest.split("\n")[-2]) if "\n" in rest else None


def check(directory, printed):
    """The printed prefix, and at most the one commit that was not yet printed; returns the last number."""
    with Store.open(directory, "b", epoch=2) as store:
        saved, length = store.load(), store.journal_length
    last = saved.sessions["a"].received
    assert printed <= last <= printed + 1
    assert store.epoch == 1
    state = int(saved.state or 0)
    assert state == last - last % 37
    assert [int(entry.payload) for entry in saved.journal] == list(range(state + 1, last + 1))
    assert length == last - state
    for session in saved.sessions.values():
        assert (session.received, session.first) == (last, max(1, last - 5))
        numbers = [int(payload.rstrip(b".")) for payload in session.outbox]
        assert numbers == list(range(session.first, last + 1))
    return last


def test_what_was_committed_survives_a_kill(tmp_path):
    stream = Random(1)
    last = 0
    for _ in range(ROUNDS):
        lines = stream.randrange(1, COMMITS_MAX)
        printed = killed_after(tmp_path, lines) or last + lines
        last = check(tmp_path, printed)
    assert last >= ROUNDS
