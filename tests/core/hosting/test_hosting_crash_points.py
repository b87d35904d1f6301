"""Every message of a component's movement as a crash point: it is at one broker afterwards, and its sums are exact."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import ClassVar

import pytest

from pleach.core.mobility.source import PATIENCE_SECONDS
from pleach.scenario.model import Span, Stabilise, Stabiliser
from pleach.trace import RecordKind
from support.hosting.component_networks import WatchedLodging, places, with_amounts, wrong_sums
from support.mobility.movement_chain import MOVES_AT, PATH, route
from support.overlay.faults_at_messages import CrashAt, Journey, When

pytestmark = pytest.mark.heavy

OUTAGES = {"short": 0.004, "long": 5 * PATIENCE_SECONDS}  # seconds; longer than the target has patience, too
NAME = "k0"
MESSAGES = {"RequestMove", "Negotiate", "Approve", "MoveState", "MoveAck", "MoveCommit"}  # `Halted` never leaves home


class OneLodger(WatchedLodging):
    components: ClassVar = {NAME: "said > 2"}


class Removal(Journey):
    """The component goes from one end of the path to the other."""

    def __init__(self, mishaps=(), delay_ms_max=0, **changes):
        super().__init__(with_amounts(route(**changes)), mishaps, traffic_notes=OneLodger)
        self.run.sim.at(0.0, partial(self.watched.host, NAME, PATH[0]))
        self.run.sim.at(MOVES_AT, partial(self.watched.move, NAME, PATH[-1], 1, delay_ms_max))

    def finish(self):
        found = super().finish()
        flaws, said = wrong_sums(self.run.recorder.records, NAME)
        assert said
        return [*found, *flaws]


@lru_cache
def points():
    removal = Removal()
    assert not removal.finish()
    assert places(removal.run.brokers, NAME) == [PATH[-1]]
    return tuple(removal.points)


@pytest.mark.parametrize("outage", OUTAGES)
@pytest.mark.parametrize("when", When)
def test_a_crash_at_any_message_leaves_it_whole_and_at_one_broker(when, outage):
    assert {point.message for point in points()} | {"RequestMove"} == MESSAGES
    there = []
    for point in points():
        removal = Removal([CrashAt(point.index, when, OUTAGES[outage])])
        assert not removal.finish(), f"{point}, {when}, {outage}"
        there += places(removal.run.brokers, NAME)
    assert set(there) <= {PATH[0], PATH[-1]}
    assert (outage == "short") == (set(there) == {PATH[-1]})


def test_a_bound_on_delays_that_does_not_hold_does_not_cost_its_only_copy():
    """A client would be lost to both ends (S4 §4.1 promises nothing then)."""
    on_the_way = [point for point in points() if point.receiver not in (PATH[0], PATH[-1])]
    assert on_the_way
    for point in on_the_way:
        removal = Removal([CrashAt(point.index, When.BEFORE, OUTAGES["long"])], delay_ms_max=50)
        assert not removal.finish(), str(point)


def test_what_a_component_wants_is_renewed_where_it_is():
    """Leases: several run out, before it moves and after."""
    leases = Stabilise(kind=Stabiliser.LEASES, refresh=0.02, period=0.08, delay=Span(0.001, 0.001))
    removal = Removal(stabilise=leases, duration=1.0)
    assert not removal.finish()
    assert places(removal.run.brokers, NAME) == [PATH[-1]]
    assert any(r.kind is RecordKind.DELIVER and r.node == NAME and r.at > 0.9 for r in removal.run.recorder.records)
