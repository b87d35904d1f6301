"""Clients that go to and fro under load: a sample of what `long_run.py moves` does for minutes."""

import asyncio

from support.live.move_rounds import move_rounds

LINKS = (("a", "b"), ("c", "b"))
SECONDS = 4.0
SECONDS_MAX = 250.0
MOVES_MIN = 21


def test_moving_clients_lose_double_and_reorder_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("support.live.move_rounds.PAUSE_SECONDS", 0.5)
    asked = move_rounds(tmp_path, seconds=SECONDS, links=LINKS, clients=10, per_second=100.0, moves_min=MOVES_MIN)
    rounds = asyncio.run(asyncio.wait_for(asked, SECONDS_MAX))
    assert rounds.verdict is not None, "it has become quiet"
    assert rounds.verdict.clean, rounds.explained
    assert rounds.verdict.counts.deliveries > 200
    assert set(rounds.ends) == {"done"}
    assert rounds.ends["done"] >= MOVES_MIN
