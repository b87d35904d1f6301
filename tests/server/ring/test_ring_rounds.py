"""The short form of the rounds: two in which brokers come and go at once, under load."""

import asyncio

from support.live import ring_rounds
from support.thorough import FACTOR

SECONDS_MAX = 240


def test_brokers_come_and_go_at_once_and_nothing_is_lost(tmp_path):
    told = ring_rounds.rounds(2 * FACTOR, 1, tmp_path)
    verdict, meaning, took = asyncio.run(asyncio.wait_for(told, FACTOR * SECONDS_MAX))
    assert verdict.clean, meaning
    assert len(took) == 2 * FACTOR
    assert verdict.counts.deliveries > 50
