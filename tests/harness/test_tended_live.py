"""The short form of the rounds: a network with the whole profile grows, loses its founder's machine, and goes on."""

import asyncio

from support.live import tended_rounds

STORY_SECONDS_MAX = 300.0


def test_a_network_that_looks_after_itself_loses_nothing(tmp_path):
    told = tended_rounds.rounds(2, 1, tmp_path, brokers=5)
    report = asyncio.run(asyncio.wait_for(told, STORY_SECONDS_MAX))
    assert report.verdict.counts.deliveries > 100
    assert next(what for what, _ in report.took if what.startswith("destroy")) == "destroy n1"
