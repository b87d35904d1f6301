"""The steps `corrupt` and `garble`: what they do, what they write down, and when they are refused."""

from __future__ import annotations

import pytest

from pleach.core.broker import BrokerState
from pleach.core.messages import Layer, unpack
from pleach.errors import ScenarioError
from pleach.faults.damage import PARTS
from pleach.scenario.load import parse_scenario
from pleach.sim.run import ScenarioRun, run_scenario
from pleach.trace import RecordKind, judge

NETWORK = """
name = "chain"
routing = "covering"
duration = 9.0
links = [["a", "b"], ["b", "c"]]
latency = {{ default = 0.01 }}
{stabilise}
clients = [
  {{ id = "s", broker = "a", subscribe = ["price > 3"] }},
  {{ id = "p", broker = "c", publish = {{ every = 0.1, attributes = {{ price = {{ uniform = [0, 9] }} }} }} }},
]
steps = [{{ at = 2.0, {step} }}]
"""
LEASES = 'stabilise = { kind = "leases", refresh = 1.0, period = 1.5 }'
CORRUPT = 'do = "corrupt", broker = "b", what = "{what}", share = 1.0'
GARBLE = 'do = "garble", link = ["a", "b"], share = 1.0'


def scenario(step, stabilise=LEASES):
    return parse_scenario(NETWORK.format(step=step, stabilise=stabilise))


def damaged_state(what):
    """The state of broker b before and after."""
    run = ScenarioRun(scenario(CORRUPT.format(what=what)), 1)
    run.advance(1.999)
    before = run.brokers["b"].capture()
    run.advance(2.0)
    return before, run.brokers["b"].capture()


@pytest.mark.parametrize("what", [what for what in PARTS if what not in ("waits", "clients")])
def test_a_corruption_changes_the_state(what):
    before, after = damaged_state(what)
    assert before != after


@pytest.mark.parametrize("step", [*(CORRUPT.format(what=what) for what in PARTS), GARBLE])
@pytest.mark.parametrize("seed", range(3))
def test_after_the_time_that_the_trace_says_everything_is_judged_and_clean(step, seed):
    result = run_scenario(scenario(step), seed)
    fault = next(record for record in result.records if record.kind == RecordKind.FAULT)
    assert "stabilises=3.03 flight=0.03" in fault.detail
    verdict = judge(result.records)
    assert verdict.clean, verdict
    assert verdict.counts.suspensions == 1


REBUILD = 'stabilise = { kind = "rebuild", refresh = 1.0, period = 1.5 }'
FROM_BACKUP = 'do = "crash", broker = "b" }, { at = 2.05, do = "restart", broker = "b", state_from = 0.5'
CHANGED = ', { at = 1.0, do = "subscribe", client = "s", filter = "price < 2" }]'


@pytest.mark.parametrize("stabilise", [LEASES, REBUILD])
@pytest.mark.parametrize("step", [*(CORRUPT.format(what=what) for what in PARTS), GARBLE])
def test_every_part_of_both_kinds_can_be_struck(stabilise, step):
    assert judge(run_scenario(scenario(step, stabilise), 1).records).clean


@pytest.mark.parametrize("stabilise", [LEASES, REBUILD])
def test_a_broker_that_restarts_with_an_older_state_finds_back(stabilise):
    """What was subscribed to in between it does not know any more."""
    text = NETWORK.format(step=FROM_BACKUP, stabilise=stabilise)[:-2] + CHANGED
    run = ScenarioRun(parse_scenario(text), 1)
    run.advance(2.05)
    assert len(run.brokers["b"].router.received_from(Layer.SUBSCRIPTIONS, "a")) == 1
    records = run.finish().records
    assert len(run.brokers["b"].router.received_from(Layer.SUBSCRIPTIONS, "a")) == 2
    restarted = next(record for record in records if record.detail.startswith("restart"))
    assert "state_from=0.5 stabilises=3.0" in restarted.detail
    verdict = judge(records)
    assert verdict.clean, verdict
    assert verdict.counts.suspensions == 1


@pytest.mark.parametrize(
    ("stabilise", "state_from", "says"),
    [("", "0.5", "an old state needs repair"), (LEASES, "2.05", "not before the step itself at 2.05 s")],
)
def test_a_state_that_nothing_mends_or_that_is_not_older_is_refused(stabilise, state_from, says):
    step = FROM_BACKUP.replace("= 0.5", f"= {state_from}")
    with pytest.raises(ScenarioError, match=says):
        scenario(step, stabilise)


def test_what_is_lost_later_is_seen():
    """A table is emptied after that time, which the trace does not tell of."""
    run = ScenarioRun(scenario(CORRUPT.format(what="flags")), 1)
    run.advance(6.0)
    for entry in run.brokers["b"].router.received_from(Layer.SUBSCRIPTIONS, "a"):
        run.brokers["b"].router.remove(Layer.SUBSCRIPTIONS, "a", entry)
    assert judge(run.finish().records).violations


@pytest.mark.parametrize(
    ("step", "stabilise", "says"),
    [
        (CORRUPT.format(what="table"), "", "this network does not find back by itself"),
        (GARBLE, "", "this network does not find back by itself"),
        (CORRUPT.format(what="soul"), LEASES, "nothing is known of 'soul'; table, flags, clock"),
    ],
)
def test_faults_that_cannot_be_are_refused(step, stabilise, says):
    result = run_scenario(scenario(step, stabilise), 1)
    assert [refusal.reason for refusal in result.refusals if says in refusal.reason]
    assert judge(result.records).clean


def test_a_broker_that_is_down_cannot_be_damaged_further():
    text = NETWORK.format(step=CORRUPT.format(what="table"), stabilise=LEASES)
    down = text.replace(
        "steps = [", 'steps = [{ at = 1.0, do = "crash", broker = "b" }, { at = 3.0, do = "restart", broker = "b" }, '
    )
    assert "broker b is not running" in [refusal.reason for refusal in run_scenario(parse_scenario(down), 1).refusals]


def test_the_seed_alone_decides():
    once, again, other = (run_scenario(scenario(CORRUPT.format(what="all")), seed).records for seed in (1, 1, 2))
    assert once == again
    assert [record.at for record in once] != [record.at for record in other]


def test_damage_is_plain_data():
    """What a damaged broker is restored from is what a disk could hold."""
    _, after = damaged_state("all")
    assert unpack(after, BrokerState)
