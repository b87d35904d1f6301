"""Every message of a movement as a crash point, at whatever broker handles it: moved or not moved.

Before the message is handled and after, for short and for longer than the source has patience (S4 §4.1: "crash failures
of mobile clients and coordinators are allowed").
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise, product
from random import Random

import msgspec
import pytest

from pleach.core.mobility.source import PATIENCE_SECONDS
from pleach.scenario.model import Ordering, Routing
from pleach.scenario.steps import SubscribeStep, Swap
from support.mobility.movement_chain import MOVE, MOVES_AT, PATH, Trip, route
from support.overlay.faults_at_messages import CrashAt, CutAt, When
from support.thorough import FACTOR

pytestmark = pytest.mark.heavy

OUTAGES = {"short": 0.004, "long": 5 * PATIENCE_SECONDS}  # seconds; longer than the target has patience, too
if FACTOR > 1:
    OUTAGES["a while"] = 1.5 * PATIENCE_SECONDS
PAIRS = 15 * FACTOR  # of crashes
DELAY_MAX = 0.05  # seconds: more than it takes from s to t

MODES = {
    "covering": {},
    "merging, advertised, hierarchical": {
        "routing": Routing.MERGING,
        "advertisements": True,
        "hierarchical": True,
        "ordering": Ordering.FIFO,
    },
}
STEPS = {
    "move": (MOVE,),
    "change of mind": (MOVE, SubscribeStep(at=MOVES_AT + 0.005, client="mover", filter="said < 2")),
    "bounded": (msgspec.structs.replace(MOVE, delay_max=DELAY_MAX),),
    "and a swap": (MOVE, Swap(at=MOVES_AT + 0.001, brokers=("s", "b", "c"))),
}
CASES = list(product(("move", "change of mind"), MODES))[: None if FACTOR > 1 else 3]
MESSAGES = {"Negotiate", "Approve", "Halted", "MoveState", "MoveAck", "MoveCommit"}


def planned(name, mode="covering"):
    return route(*STEPS[name], **MODES[mode])


@lru_cache
def points_of(name, mode="covering"):
    """Found by a run without mishap."""
    trip = Trip(planned(name, mode))
    assert not trip.finish()
    assert trip.place == ["t"]
    return tuple(trip.points)


def check(name, mode, *mishaps):
    """Run with these mishaps; returns whether the client has moved."""
    trip = Trip(planned(name, mode), mishaps)
    told = f"{name}, {mode}: {', '.join(map(str, mishaps))}; {points_of(name, mode)[mishaps[0].index]}"
    assert not trip.finish(), told
    is_refused = bool(trip.watched.refused_moves)
    assert trip.place == (["s"] if is_refused else ["t"]), told
    return not is_refused


@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_a_crash_at_any_message_leaves_the_client_moved_or_not_moved(name, mode, when, outage):
    points = points_of(name, mode)
    assert {point.message for point in points} == MESSAGES
    moved = [check(name, mode, CrashAt(point.index, when, OUTAGES[outage])) for point in points]
    assert any(moved)
    assert (outage == "short") == all(moved)


@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("when", When)
def test_with_bounded_delays_a_crash_of_the_source_or_the_target_leaves_it_moved_or_not_moved(when, outage):
    """S4 §4.1, network model (i): the network is within its bounds, so that brokers on the path do not crash."""
    points = [point for point in points_of("bounded") if point.receiver in (PATH[0], PATH[-1])]
    assert {point.message for point in points} == MESSAGES
    moved = [check("bounded", "covering", CrashAt(point.index, when, OUTAGES[outage])) for point in points]
    assert any(moved)


@pytest.mark.parametrize("outage", OUTAGES)
def test_a_cut_of_each_link_of_the_path_at_each_message(outage):
    links = [*pairwise(PATH), ("mover", "s")]
    for point in points_of("move"):
        for link in links if FACTOR > 1 else [links[point.index % len(links)]]:
            check("move", "covering", CutAt(point.index, link, OUTAGES[outage]))


@pytest.mark.parametrize("outage", OUTAGES)
def test_a_crash_while_a_movement_and_a_swap_meet(outage):
    for point in points_of("and a swap"):
        check("and a swap", "covering", CrashAt(point.index, When.AFTER, OUTAGES[outage]))


def test_two_crashes():
    stream = Random("two crashes of a movement")
    last = len(points_of("move")) - 1
    for _ in range(PAIRS):
        first, second = sorted(stream.sample(range(last + 1), 2))
        mishaps = [
            CrashAt(index, stream.choice(list(When)), stream.choice(list(OUTAGES.values())))
            for index in (first, second)
        ]
        check("move", "covering", *mishaps)


def test_giving_up_is_among_the_points():
    trips = [Trip(planned("move"), (CrashAt(i, When.BEFORE, OUTAGES["long"]),)) for i in range(6)]
    for trip in trips:
        trip.finish()
    assert {"MoveAbort", "Reject"} <= {point.message for trip in trips for point in trip.points}
