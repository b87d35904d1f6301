"""A tree that improves itself under load: a sample of what `improve_rounds.py` does with nine brokers for minutes."""

import asyncio

from improve_rounds import FALL_MIN, Stage, improve_rounds, told

from pleach.live.improving import Wish

SECONDS = 10.0
SECONDS_MAX = 100.0


def test_the_tree_follows_its_traffic_and_nothing_is_lost_doubled_or_reordered(tmp_path):
    """Six brokers, on a tree that suits the first half: what it saves is saved after the change."""
    wish = Wish(every=1.5, starts=4, actions_per_minute_max=20)
    stage = Stage(SECONDS, brokers_per_zone=2, per_second=20.0, window=1.25, wish=wish, is_chain=False)
    result = asyncio.run(asyncio.wait_for(improve_rounds(tmp_path, stage), SECONDS_MAX))
    assert result.verdict is not None, "it has become quiet"
    assert result.verdict.clean, result.explained
    assert result.exchanges >= 1, "\n".join(told(result))
    assert result.fall >= FALL_MIN, "\n".join(told(result))
    assert result.verdict.counts.deliveries > 200
