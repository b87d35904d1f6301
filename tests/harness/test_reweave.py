"""The short forms of the long live commands: five reconfigurations under load, and six crashes in the middle of one."""

import asyncio

from support.live import crash_points, reweave
from support.thorough import FACTOR

STORIES_SECONDS_MAX = 240
# One for each role of the three operations, before and after commits in turn.
SAMPLE = (
    crash_points.Point("swap", "b", "Swap", "before"),
    crash_points.Point("add", "joiner", "ConnectAck", "after"),
    crash_points.Point("remove", "leaver", "CloseAB", "before"),
    crash_points.Point("swap", "a", "LockAck", "after"),
    crash_points.Point("remove", "heir", "Handover", "after"),
    crash_points.Point("swap", "c", "Close#2", "before"),
)


def told(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, FACTOR * STORIES_SECONDS_MAX))


def test_nothing_is_lost_while_the_tree_is_rewoven(tmp_path):
    report = told(reweave.reweave(5 * FACTOR, 3, tmp_path, per_second=300))
    assert report.is_good, "\n".join(report.lines())
    assert sum(report.done.values()) == 5 * FACTOR
    assert report.verdict.counts.deliveries > 500


def test_a_broker_that_dies_at_a_step_of_an_operation_leaves_a_tree_and_a_clean_trace(tmp_path):
    assert set(SAMPLE) <= set(crash_points.POINTS)
    report = told(crash_points.crash_points(list(SAMPLE) * FACTOR, 1, tmp_path))
    assert report.is_good, "\n".join(report.lines())
    assert report.done + report.refused == len(SAMPLE) * FACTOR


def test_the_points_are_all_messages_of_the_operations_and_each_is_chosen_in_its_turn():
    messages = {point.message.partition("#")[0] for point in crash_points.POINTS}
    assert {
        "Lock",
        "LockAck",
        "Swap",
        "Open",
        "Close",
        "Handover",
        "CloseAB",
        "Farewell",
        "ClientLeft",
        "Left",
    } <= messages
    assert set(crash_points.chosen(200, 1)) == set(crash_points.POINTS)
