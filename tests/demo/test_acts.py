"""The story fits its ground: whoever adds an act sees here whether it can be played."""

import msgspec
import pytest

from pleach.demo.acts import ACTS, ZONES, DemoAct, story, zone_of, zones
from pleach.scenario import steps
from pleach.scenario.positions import FlawError
from pleach.scenario.timeline import check_steps
from pleach.sim.run import run_scenario
from pleach.trace import explain, judge

ACT_SECONDS = 3.0


def test_the_steps_make_sense_one_after_the_other():
    scenario = story()
    check_steps(scenario)
    assert (len(scenario.brokers), len(scenario.clients)) == (9, 30)
    assert [type(step) for step in scenario.steps] == [type(step) for act in ACTS for step in act.steps]


def test_an_act_that_cannot_be_played_is_found_out():
    with pytest.raises(FlawError, match="fra9"):
        check_steps(story([*ACTS, DemoAct("bad", "", "", (steps.RemoveBroker(at=0.0, broker="fra9"),))]))


def test_names_of_acts_are_different():
    assert len({act.name for act in ACTS}) == len(ACTS)


def test_every_broker_stands_in_a_zone_and_zones_are_far_from_each_other():
    scenario = story()
    standing = zones(scenario)
    assert {*standing} == {*scenario.brokers, "iad4"}
    assert {*standing.values()} == {*ZONES.values()}
    for a in standing:
        for b in standing:
            is_far = scenario.latency.of(a, b).low > 0.03
            assert is_far == (zone_of(a) != zone_of(b)), (a, b)


def test_the_story_ends_well_in_the_simulator():
    """The very steps, in virtual time: nothing is refused, nothing lost, and what the titles say comes true."""
    scenario = story()
    at = [ACT_SECONDS * (number + 1) + step.at for number, act in enumerate(ACTS) for step in act.steps]
    timed = tuple(msgspec.structs.replace(step, at=time) for step, time in zip(scenario.steps, at, strict=True))
    run = run_scenario(msgspec.structs.replace(scenario, steps=timed, duration=ACT_SECONDS * (len(ACTS) + 1)), 1)
    verdict = judge(run.records)
    assert verdict.clean, explain(verdict, run.records)
    assert not run.refusals
