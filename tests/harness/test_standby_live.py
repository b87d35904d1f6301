"""Machines that are destroyed, and partitions, on real processes: some rounds of what long runs do for hours."""

import asyncio

import pytest

from support.live import partition_rounds, standby_crash_points, standby_rounds
from support.live.standby_crash_points import Point
from support.live.standby_rounds import Stage

SMALL = Stage(per_second=100.0, movers=2, links=(("a", "b"), ("b", "c"), ("b", "d")))
STORY_SECONDS_MAX = 240  # thirty or so on an idle machine


def told(story):
    asyncio.run(asyncio.wait_for(story, STORY_SECONDS_MAX))


def test_brokers_whose_machines_are_destroyed_come_back_elsewhere_with_everything(tmp_path):
    report = standby_rounds.Report()
    told(standby_rounds.one_network(2, 1, tmp_path, SMALL, report))
    assert report.is_good, report.wrong
    assert len(report.whole) == 2
    assert report.figures()["found"]["lost"] == 0


@pytest.mark.parametrize("seed", [1, 4])
def test_after_a_partition_there_is_one_tree_and_nothing_is_lost(tmp_path, seed):
    report = partition_rounds.Report()
    told(partition_rounds.partition_rounds([3.0], seed, tmp_path, 50.0, report, say=lambda _: None))
    assert report.is_good, report.wrong
    assert len(report.partitions) == 1


def test_machines_destroyed_at_messages(tmp_path):
    points = [Point("swap", "LockAck", "after", "broker"), Point("promotion", "standby.Promise", "before", "standby")]
    report = standby_crash_points.Report()

    async def story():
        nonlocal report
        report = await standby_crash_points.crash_points(points, 1, tmp_path, say=lambda _: None)

    told(story())
    assert report.is_good, report.lines()
    assert report.hit.total() == len(points)
