"""Ticks come after the pause that is wanted then; one that is late waits for what has arrived meanwhile."""

import asyncio
import time

import pytest

from pleach.server.ticking import LATE_SECONDS, keep_ticking


class EnoughError(Exception):
    pass


def test_only_a_tick_that_is_late_lets_what_has_arrived_be_read_first(monkeypatch):
    now, told = 0.0, []
    late = iter([0.0, 0.9, 1.1, 0.0, 2.1, 0.0])  # of each sleep

    async def sleep(seconds):
        nonlocal now
        now += seconds + next(late)
        told.append(seconds)

    def tick():
        told.append("tick")
        if told.count("tick") == 4:
            raise EnoughError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pauses = iter([1.0, 1.0, 1.0, 2.0])
    with pytest.raises(EnoughError):
        asyncio.run(keep_ticking(tick, lambda: next(pauses)))
    assert told == [1.0, "tick", 1.0, "tick", 1.0, LATE_SECONDS, "tick", 2.0, LATE_SECONDS, "tick"]
