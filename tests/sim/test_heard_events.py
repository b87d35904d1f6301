"""An event that was not wanted, and is wanted now: who has heard of it does not get it from a journal any more.

n1–x–n2 and x–n3. A question goes from n1 by x to n3, where it is answered; x confirms it to n1 too late. The reader
wants answers from the start, and questions when x has passed this one by. Then x dies, and only n1 has the question.
"""

import pytest

from pleach.core.client.returning import ReturningClient
from pleach.scenario.load import parse_scenario
from pleach.sim.heard_events import HeardEvents
from pleach.sim.run import run_scenario
from pleach.trace import RecordKind, Rule, judge

CORNER = """
name = "a subscription that is new"
routing = "simple"
ordering = "causal"
links = [["n1", "x"], ["x", "n2"], ["x", "n3"]]
duration = 4.0

[heal]
after = 0.5
grace = 1.0

[latency]
default = 0.001
"n1-x" = 0.05

[[clients]]
id = "asks"
broker = "n1"
publish = {{ every = 1.0, from = 1.0, until = 1.5, attributes = {{ topic = "question" }} }}

[[clients]]
id = "answers"
broker = "n3"
subscribe = ["topic = 'question'"]
reply = {{ to = "topic = 'question'", with = {{ topic = "answer" }}, probability = 1.0 }}

[[clients]]
id = "reads"
broker = "{reader_at}"
subscribe = ["topic = 'answer'"]

[[steps]]
at = {wanted_at}
do = "subscribe"
client = "reads"
filter = "topic = 'question'"

[[steps]]
at = 1.06
do = "crash"
broker = "x"
for_good = true
"""
TOO_LATE = 1.051
IN_TIME = 0.5
SUBTREES = pytest.mark.parametrize("reader_at", ["n2", "x"])


def run(reader_at, wanted_at=TOO_LATE):
    result = run_scenario(parse_scenario(CORNER.format(reader_at=reader_at, wanted_at=wanted_at), "corner.toml"), 1)
    assert result.quiet
    assert any(r.detail == "still has it" and r.event == "asks/0/1" for r in result.records)
    read = [r.event for r in result.records if r.kind == RecordKind.DELIVER and r.client == "reads"]
    return judge(result.records), read


@SUBTREES
def test_it_does_not_come_after_its_answer(reader_at):
    verdict, read = run(reader_at)
    assert verdict.violations == ()
    assert read == ["answers/0/1"]


@SUBTREES
def test_who_wanted_it_in_time_has_it(reader_at):
    verdict, read = run(reader_at, IN_TIME)
    assert verdict.violations == ()
    assert read == ["asks/0/1", "answers/0/1"]


@SUBTREES
def test_without_hearsay_it_would_come(reader_at, monkeypatch):
    monkeypatch.setattr(HeardEvents, "of", lambda *_: [])
    monkeypatch.setattr(ReturningClient, "hear", lambda *_: None)
    verdict, _ = run(reader_at)
    assert [v.rule for v in verdict.violations] == [Rule.CAUSAL]
