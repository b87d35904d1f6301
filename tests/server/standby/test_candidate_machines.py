"""Which machines a broker's primary chooses from, when it does not know yet which of them are gone."""

from types import SimpleNamespace

import pytest

from pleach.core.messages import HostLocation
from pleach.core.standby.member import StandbyConfig, StandbyMember
from pleach.server.standby.candidates import ASKED_MAX, PATIENCE_SECONDS, CandidateMachines

KNOWN = 12


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def member():
    return StandbyMember("b#1", "b", StandbyConfig(after=1.0), now=100.0)


def chooser(member, clock, known=KNOWN):
    hosts = {f"m{n}#1": HostLocation(1, f"127.0.0.{n}:7000", "") for n in range(1, known + 1)}
    directory = SimpleNamespace(known=SimpleNamespace(brokers={}, hosts=hosts))
    settings = SimpleNamespace(standby=SimpleNamespace(at=()), zone="")
    links = SimpleNamespace()
    return CandidateMachines(member, directory, SimpleNamespace(neighbours=()), links, lambda: settings, clock=clock)


def test_who_was_just_promoted_asks_all_at_once_and_takes_whoever_answers(member, clock):
    choose = chooser(member, clock)
    ranked = [each.machine for each in choose()]
    assert len(ranked) == KNOWN
    for machine in (ranked[-1], ranked[-3]):  # the best are gone
        member.timing.note_heard(machine, clock.now)
    assert [each.machine for each in choose()][:2] == [ranked[-3], ranked[-1]]


def test_where_enough_of_the_best_answer_there_are_few(member, clock):
    choose = chooser(member, clock)
    ranked = [each.machine for each in choose()]
    for machine in ranked[1:4]:
        member.timing.note_heard(machine, clock.now)
    assert [each.machine for each in choose()] == ranked[:4]


def test_who_has_not_answered_for_long_makes_room(member, clock):
    choose = chooser(member, clock)
    ranked = [each.machine for each in choose()]
    clock.now += PATIENCE_SECONDS
    for machine in ranked[4:8]:
        member.timing.note_heard(machine, clock.now)
    assert [each.machine for each in choose()] == ranked[4:8]


def test_there_is_a_bound(member, clock):
    assert len(chooser(member, clock, known=2 * ASKED_MAX)()) == ASKED_MAX


def test_a_machine_that_is_leaving_is_no_candidate(member, clock):
    choose = chooser(member, clock, known=3)
    hosts = choose._directory.known.hosts
    hosts["m2#1"] = HostLocation(2, hosts["m2#1"].address, is_leaving=True)
    assert {each.machine for each in choose()} == {"m1#1", "m3#1"}
