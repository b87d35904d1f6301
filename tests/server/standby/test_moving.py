"""A planned move, phase by phase, without sockets."""

import asyncio
import json
from http import HTTPStatus

from pleach.core.standby.composition import Candidate
from pleach.core.standby.effects import ToMember
from pleach.core.standby.member import StandbyConfig, StandbyMember
from pleach.core.standby.messages import TakeOver
from pleach.core.standby.positions import Position
from pleach.core.standby.views import Register, View
from pleach.server.http.broker_moves import BrokerMovePages
from pleach.server.http.page import HttpRequest
from pleach.server.standby.moving import (
    AGAIN_SECONDS,
    PATIENCE_SECONDS,
    SILENT_SECONDS_MAX,
    BrokerMove,
    MovePhase,
    best_heir,
)

OTHERS = [Candidate("s#1", "h:1")]
THERE = Candidate("m#1", "h:2")
BASE = Position(1, 10)


def primary(*copies):
    register = Register(View("b", 2, ("b#1", *copies)))
    member = StandbyMember("b#1", "b", StandbyConfig(1.0), register=register, position=BASE)
    member.lead(BASE, 2)
    return member


def move(member, known=""):
    machines = {THERE.address: known}
    return BrokerMove(THERE.address, member, machines.get, 0.0), machines


def test_nothing_is_different_until_the_machine_answers():
    member = primary("s#1")
    moving, machines = move(member)
    assert list(moving.candidates(OTHERS, 0.5)) == OTHERS
    machines[THERE.address] = "m#1"
    assert list(moving.candidates(OTHERS, 0.6)) == [*OTHERS, THERE]  # it is spoken to
    assert moving.phase is MovePhase.FINDING
    member.heard["m#1"] = 0.7
    assert list(moving.candidates(OTHERS, 0.8)) == [THERE]
    assert moving.phase is MovePhase.COPYING


def test_it_is_asked_to_take_over_once_it_has_everything_and_again_if_nothing_comes_of_it():
    member = primary("m#1")
    member.heard["m#1"] = 0.0
    moving, _ = move(member, "m#1")
    moving.candidates(OTHERS, 0.1)
    assert not moving.effects(0.1)  # it has said nothing yet of what it has
    member.leadership.acknowledged["m#1"] = BASE
    asked = [ToMember("m#1", TakeOver("b", 2))]
    assert list(moving.effects(0.2)) == asked
    assert moving.phase is MovePhase.HANDING_OVER
    assert not moving.effects(0.3)
    assert list(moving.effects(0.2 + AGAIN_SECONDS)) == asked


def test_a_machine_that_falls_silent_is_no_reason_to_do_without_others():
    member = primary("s#1")
    member.heard["m#1"] = 0.0
    moving, _ = move(member, "m#1")
    moving.candidates(OTHERS, 0.1)
    assert list(moving.candidates(OTHERS, PATIENCE_SECONDS / 2)) == [THERE]
    assert list(moving.candidates(OTHERS, 2 * PATIENCE_SECONDS)) == [*OTHERS, THERE]
    assert moving.phase is MovePhase.FINDING
    late = PATIENCE_SECONDS + SILENT_SECONDS_MAX
    moving.candidates(OTHERS, late)
    assert moving.phase is MovePhase.GIVEN_UP
    assert not moving.effects(late)
    assert moving.status()["phase"].startswith("given up")


# Where a broker goes whose machine is leaving ---------------------------------------------------------------------


def test_it_goes_to_its_copy_unless_that_is_silent():
    member = primary("s#1")
    usual = [THERE, *OTHERS]
    member.heard.update({"s#1": 10.0, "m#1": 10.0})
    assert best_heir(usual, member, 10.5) == OTHERS[0]
    member.heard["m#1"] = 12.0
    assert best_heir(usual, member, 12.0) == THERE
    assert best_heir(usual, member, 20.0) == OTHERS[0]  # nobody answers


def test_a_broker_without_standbys_moves_nowhere_and_says_what_it_lacks():
    (move,) = BrokerMovePages("b", None).routes
    page = asyncio.run(move.handler(HttpRequest("POST", move.path, b'{"to": "m"}')))
    told = json.loads(page.body)
    assert page.status is HTTPStatus.CONFLICT
    assert told["error"] == "b has no standbys, and moves nowhere"
    assert "[standby]" in told["remedy"]
