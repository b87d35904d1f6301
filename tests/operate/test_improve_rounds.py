"""A tree that improves itself under load: a sample of what `long_run.py improve` does with nine brokers for minutes."""

import asyncio

from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.optimise.prices import Prices
from pleach.operate.improving import ImproveOptions
from support.live.improve_rounds import FALL_MIN, FAR, NEAR_SECONDS, Stage, improve_rounds, told

SECONDS_MAX = 120.0  # ten or so where nothing else runs: it ends when the tree has followed
CHANGE_AT = 3.0


def prices():
    """Zones are the brokers' own. Given, not measured: what else runs beside the test must not decide it."""
    between = {(zone, other): 1_000.0 * seconds for (zone, other), seconds in FAR.items()}
    return Prices(within=1_000.0 * NEAR_SECONDS, processing=0.5, between=between)


def followed(place, stage):
    """What came of it: less cost, and nothing lost, doubled or reordered."""
    result = asyncio.run(asyncio.wait_for(improve_rounds(place, stage), 2 * SECONDS_MAX))
    assert result.verdict is not None, "it has become quiet"
    assert result.verdict.clean, result.explained
    assert result.exchanges >= 1, "\n".join(told(result))
    assert result.fall_by_links >= FALL_MIN, "\n".join(told(result))
    return result


def test_the_tree_follows_its_traffic_and_nothing_is_lost_doubled_or_reordered(tmp_path):
    """Six brokers, on a tree that suits the first half: what it saves is saved after the change."""
    wish = ImproveOptions(every=1.5, prices=prices(), starts=4, actions_per_minute_max=20)
    stage = Stage(SECONDS_MAX, CHANGE_AT, brokers_per_zone=2, window=1.0, wish=wish, is_chain=False, goes_on=2.5)
    result = followed(tmp_path, stage)
    assert result.verdict.counts.deliveries > 200


def test_brokers_follow_their_traffic_among_themselves(tmp_path):
    """The same without a loop: they measure, move and decide; nobody else looks but to see what became of it."""
    conduct = CouncilSettings(every=0.5, window=4.0, saving_min=0.2, actions_per_minute_max=20)
    stage = Stage(SECONDS_MAX, CHANGE_AT, brokers_per_zone=2, window=1.0, conduct=conduct, is_chain=False, goes_on=2.5)
    followed(tmp_path, stage)
    assert "exchange" in "".join(log.read_text() for log in tmp_path.glob("*.log"))
