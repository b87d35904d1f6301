"""Every protocol message of the three operations as a crash point: before it is handled and after, for short and long.

Whatever happens, the operation is either done or refused and undone, what is left is a tree, its tables agree, and
under load the oracle finds nothing. The order in which messages are handled is that of a run without mishap.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from random import Random

import pytest

from pleach.scenario.model import Ordering, Routing
from support.overlay.faults_at_messages import CrashAt, CutAt, Journey, When
from support.overlay.small_networks import ADD, OPPOSED, REMOVE, SWAP, links_after, station
from support.thorough import FACTOR

OUTAGES = {"short": 0.004, "long": 30.0}  # seconds; a lease is 10 s
PAIRS = 20 * FACTOR  # of crashes

OPERATIONS = {
    "swap": (SWAP,),
    "add": (ADD,),
    "remove": (REMOVE,),
    "opposed swaps": (SWAP, OPPOSED),
    "swap and remove": (SWAP, REMOVE),
}
MESSAGES = {  # S0 §IV and messages/: all that must have been crash points
    "swap": {"Lock", "LockAck", "Swap", "Open", "Close"},
    "add": {"Connect", "ConnectAck"},
    "remove": {"RemoveReq", "RemoveAck", "Handover", "CloseAB", "Said", "Farewell", "ClientLeft", "Left"},
}
MODES = {
    "covering": {},
    "merging, advertised, hierarchical": {
        "routing": Routing.MERGING,
        "advertisements": True,
        "hierarchical": True,
        "ordering": Ordering.FIFO,
    },
}


def planned(name, mode="covering"):
    return station(*OPERATIONS[name], **MODES[mode])


@lru_cache
def points_of(name, mode="covering"):
    """Found by a run without mishap."""
    journey = Journey(planned(name, mode))
    assert not journey.finish()
    return tuple(journey.points)


def check(name, mode, *mishaps):
    """Run with these mishaps; returns whether every operation was done."""
    journey = Journey(planned(name, mode), mishaps)
    told = f"{name}, {mode}: {', '.join(map(str, mishaps))}; {points_of(name, mode)[mishaps[0].index]}"
    assert not journey.finish(), told
    refused = journey.watched.refused
    if len(OPERATIONS[name]) == 1:
        assert journey.links == links_after(*(() if refused else OPERATIONS[name])), told
    return not refused


@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["swap", "add", "remove"])
def test_a_crash_at_any_message_leaves_the_operation_done_or_undone(name, mode, when, outage):
    points = points_of(name, mode)
    assert {point.message for point in points} == MESSAGES[name]
    done = [check(name, mode, CrashAt(point.index, when, OUTAGES[outage])) for point in points]
    assert any(done)


@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize("name", ["opposed swaps", "swap and remove"])
def test_a_crash_while_two_operations_meet(name, when, outage):
    """Locks are refused here, and requests wait: LockNack is among the points."""
    for point in points_of(name):
        check(name, "covering", CrashAt(point.index, when, OUTAGES[outage]))


def test_refused_locks_are_among_the_points():
    assert "LockNack" in {point.message for point in points_of("opposed swaps")}


@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize("stalled", range(12))
def test_a_crash_while_a_swap_is_given_up(stalled, when):
    """A broker stalls at each message of a swap, past its lease; then whoever handles what follows crashes, too."""
    stall = CrashAt(stalled, When.BEFORE, OUTAGES["long"])
    journey = Journey(planned("swap"), (stall,))
    assert not journey.finish(), stall
    for point in journey.points[stalled + 1 :]:
        check("swap", "covering", stall, CrashAt(point.index, when, OUTAGES["short"]))


def test_giving_up_is_among_the_points():
    journeys = [Journey(planned("swap"), (CrashAt(i, When.BEFORE, OUTAGES["long"]),)) for i in range(12)]
    for journey in journeys:
        journey.finish()
    assert {"LockNack", "Abort", "Aborted"} <= {point.message for journey in journeys for point in journey.points}


@pytest.mark.parametrize("name", ["swap", "remove", "swap and remove"])
def test_two_crashes(name):
    stream = Random(f"two crashes/{name}")
    last = len(points_of(name)) - 1
    for _ in range(PAIRS):
        first, second = sorted(stream.sample(range(last + 1), 2))
        mishaps = [
            CrashAt(index, stream.choice(list(When)), stream.choice(list(OUTAGES.values())))
            for index in (first, second)
        ]
        check(name, "covering", *mishaps)


@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("link", [("a", "b"), ("b", "c"), ("a", "c")], ids="-".join)
def test_a_cut_of_each_link_of_the_triangle_at_each_step(link, outage):
    for point in points_of("swap"):
        check("swap", "covering", CutAt(point.index, link, OUTAGES[outage]))


@pytest.mark.parametrize("outage", OUTAGES)
def test_a_cut_of_the_link_of_a_broker_that_leaves_or_joins(outage):
    cuts = {"remove": [("c", "z"), ("at-z", "z"), ("at-z", "c")], "add": [("b", "n")]}
    for name, links in cuts.items():
        for point, link in product(points_of(name), links):
            check(name, "covering", CutAt(point.index, link, OUTAGES[outage]))


@pytest.mark.parametrize("name", ["swap", "add", "remove"])
@pytest.mark.parametrize("outage", OUTAGES)
def test_a_crash_right_after_the_request(name, outage):
    journey = Journey(planned(name))
    asked = {"swap": "a", "add": "n", "remove": "z"}[name]
    journey.run.sim.at(OPERATIONS[name][0].at, lambda: journey._crash(asked, OUTAGES[outage]))
    assert not journey.finish()
    assert journey.links == links_after(*(() if journey.watched.refused else OPERATIONS[name]))
