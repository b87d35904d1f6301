"""Schedules: read, written, refused, and carried out by the simulator."""

import pytest

from pleach.errors import ScheduleError
from pleach.scenario import parse_scenario
from pleach.scenario.schedule import Act, Answer, HandOver, Schedule, ScheduleStep, schedule_text
from pleach.sim.replay import load_schedule, replay
from pleach.trace import judge

SCENARIO = parse_scenario("""
name = "two brokers"
routing = "simple"
links = [["a", "b"]]
duration = 10.0
latency = { default = 3.0 }

[[clients]]
id = "p"
broker = "a"

[[clients]]
id = "s"
broker = "b"
subscribe = ["price > 50"]
reply = { to = "price > 50", with = { answer = { sequence = true } } }

[[steps]]
at = 1.0
do = "publish"
client = "p"
attributes = { price = 60 }

[[steps]]
at = 2.0
do = "crash"
broker = "b"

[[steps]]
at = 3.0
do = "restart"
broker = "b"
""")


def act(actor):
    return ScheduleStep(act=actor)


def deliver(sender, receiver):
    return ScheduleStep(deliver=(sender, receiver))


def replayed(*steps):
    return replay(SCENARIO, Schedule("two brokers", steps=steps))


def seen(result):
    kinds = {"publish", "publish_ack", "deliver", "fault", "drain"}
    return [(r.at, r.node, r.kind) for r in result.records if r.kind in kinds]


def test_the_kth_step_happens_at_time_k_and_the_rest_follows_at_the_end():
    result = replayed(act("p"), deliver("p", "a"), deliver("a", "b"), deliver("b", "s"))
    assert seen(result) == [
        (1.0, "p", "publish"),
        (4.0, "s", "deliver"),
        (4.0, "p", "publish_ack"),
        (4.0, "", "drain"),
    ]
    assert result.quiet
    assert judge(result.records).clean


def test_an_answer_waits_for_its_turn():
    steps = (act("p"), deliver("p", "a"), deliver("a", "b"), deliver("b", "s"), deliver("a", "p"))
    assert sum(r.kind == "publish" for r in replayed(*steps).records) == 1
    answered = replayed(*steps, ScheduleStep(answer="s"))
    assert [(r.at, r.attributes) for r in answered.records if r.kind == "publish"][-1] == (6.0, '{"answer":1}')


def test_scripts_stay_where_a_schedule_leaves_them():
    result = replayed()
    assert seen(result) == [(0.0, "", "drain")]


def test_a_broker_comes_back_with_what_it_knew():
    steps = (act("p"), deliver("p", "a"), act("b"), act("b"), deliver("a", "b"), deliver("b", "s"))
    assert [node for _, node, kind in seen(replayed(*steps)) if kind in ("fault", "deliver")] == ["b", "b", "s"]


def test_what_waits_for_a_broker_that_is_down_is_not_quiet():
    result = replayed(act("p"), act("b"), deliver("p", "a"))
    assert not result.quiet
    assert not judge(result.records).usable


@pytest.mark.parametrize(
    ("steps", "says"),
    [
        ([deliver("a", "b")], "step 1: nothing is under way from 'a' to 'b'"),
        ([act("p"), deliver("p", "b")], "step 2: there is no link from 'p' to 'b'"),
        ([act("p"), act("p")], "step 2: 'p' has no action left after 1"),
        ([act("x")], "step 1: 'x' has no action left after 0"),
        ([ScheduleStep(answer="s")], "step 1: 's' has nothing to answer"),
        ([ScheduleStep(answer="a")], "step 1: 'a' has nothing to answer"),
        ([act("p"), deliver("p", "a"), act("b"), deliver("a", "b")], "step 4: broker 'b' is down"),
    ],
)
def test_a_step_that_is_not_possible_is_named(steps, says):
    with pytest.raises(ScheduleError, match=says):
        replayed(*steps)


def test_a_schedule_of_another_scenario_is_refused():
    with pytest.raises(ScheduleError, match="of scenario 'three brokers', not 'two brokers'"):
        replay(SCENARIO, Schedule("three brokers"))


def test_a_schedule_is_read_as_it_was_written(tmp_path):
    steps = (
        ScheduleStep(act="p", does='publish "x"'),
        ScheduleStep(deliver=("a", "b"), message="Forward"),
        ScheduleStep(answer="s"),
    )
    schedule = Schedule("two brokers", "hasty-ack", steps)
    path = tmp_path / "schedule.json"
    path.write_text(schedule_text(schedule))
    assert load_schedule(path) == schedule
    assert [step.move for step in steps] == [Act("p"), HandOver("a", "b"), Answer("s")]


def test_an_empty_schedule_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "schedule.json"
    path.write_text(schedule_text(Schedule("x")))
    assert load_schedule(path) == Schedule("x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a schedule"),
        ('{"steps": []}', "missing required field `scenario`"),
        ('{"scenario": "x", "steps": [{}]}', "exactly one of `act`, `answer`, `deliver` and `ring`"),
        ('{"scenario": "x", "steps": [{"act": "p", "answer": "p"}]}', "exactly one of"),
        ('{"scenario": "x", "steps": [{"deliver": ["a"]}]}', r"steps\[0\].deliver"),
        ('{"scenario": "x", "steps": [{"act": "p", "at": 3}]}', "unknown field `at`"),
    ],
)
def test_what_is_no_schedule_is_refused(tmp_path, text, says):
    path = tmp_path / "schedule.json"
    path.write_text(text)
    with pytest.raises(ScheduleError, match=says):
        load_schedule(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ScheduleError, match="cannot be read: No such file"):
        load_schedule(tmp_path / "none.json")
