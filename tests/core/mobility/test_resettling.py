"""Clients that move by themselves (S4 §4.4): the baselines arrive, with all that they had, and promise nothing."""

from __future__ import annotations

import msgspec
import pytest

from pleach.scenario.model import Routing
from pleach.sim.run import ScenarioRun
from pleach.trace import Rule, judge
from support.mobility.movement_chain import MOVE, MOVER, MOVES_AT, Trip, route

ALONE = ("covering", "reconnect")


def alone(protocol, **changes):
    return route(msgspec.structs.replace(MOVE, protocol=protocol), **changes)


@pytest.mark.parametrize("advertised", [False, True])
@pytest.mark.parametrize("routing", [Routing.SIMPLE, Routing.COVERING])
@pytest.mark.parametrize("protocol", ALONE)
def test_the_client_arrives_with_all_that_it_had(protocol, routing, advertised):
    trip = Trip(alone(protocol, routing=routing, advertisements=advertised))
    trip.finish()
    assert not trip.watched.flaws
    assert not trip.watched.refused_moves
    assert trip.place == ["t"]
    there = Trip(route(at="t", routing=routing, advertisements=advertised))
    there.finish()
    assert trip.run.brokers["t"].sessions.subscriptions(MOVER) == there.run.brokers["t"].sessions.subscriptions(MOVER)


@pytest.mark.parametrize("protocol", ALONE)
def test_what_is_published_meanwhile_is_lost(protocol):
    """Which is what the transaction is for. Nobody at w wants the same: it takes a while until it comes there."""
    result = ScenarioRun(route(msgspec.structs.replace(MOVE, to="w", protocol=protocol)), 1).finish()
    lost = [v for v in judge(result.records).violations if v.rule is Rule.LOST]
    assert lost
    assert {v.client for v in lost} == {MOVER}


@pytest.mark.parametrize("protocol", ALONE)
def test_the_client_goes_on_publishing(protocol):
    """What the application publishes on the way waits, and is not refused; with advertisements, too."""
    result = ScenarioRun(alone(protocol, advertisements=True), 1).finish()
    own = [record for record in result.records if record.node == MOVER]
    assert not [record for record in own if record.kind.value == "publish_fail"]
    published = [record.event for record in own if record.kind.value == "publish"]
    assert published == [record.event for record in own if record.kind.value == "publish_ack"]


@pytest.mark.parametrize("protocol", ALONE)
def test_a_client_that_has_arrived_may_move_again(protocol):
    there_and_back = [
        msgspec.structs.replace(MOVE, protocol=protocol, to=to, at=at)
        for to, at in (("t", MOVES_AT), ("s", 2 * MOVES_AT))
    ]
    run = ScenarioRun(route(*there_and_back), 1)
    result = run.finish()
    assert not result.refusals
    assert run.clients[MOVER].broker == "s"


def test_a_client_that_moves_already_is_not_asked_twice():
    twice = [msgspec.structs.replace(MOVE, protocol="covering", to=to) for to in ("t", "u")]
    run = ScenarioRun(route(*twice), 1)
    result = run.finish()
    assert [r.reason for r in result.refusals] == ["mover moves already, or is at u"]
    assert run.clients[MOVER].broker == "t"
