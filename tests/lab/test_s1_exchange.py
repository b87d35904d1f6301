"""S1 Fig. 4.14–4.16: samples that make sense, and judges with two sides."""

from __future__ import annotations

import pytest

from pleach.lab.experiment import Size
from pleach.lab.findings import Status
from pleach.lab.s1.chapter4.exchange import (
    ADVANCED,
    CONTROL,
    DUPLICATE,
    LOST,
    MESSAGES,
    QUEUED,
    QUEUED_MS,
    SCALE,
    STRAWMAN,
    EventQueues,
    measure,
    scenario_of,
)
from pleach.lab.s1.chapter4.figures import EXCHANGE_ON_A_CYCLE, judge_broken, judge_control, judge_delay
from pleach.sim.run import ScenarioRun
from support.lab.made_up_summaries import summarised

SEEDS = range(6)


def case(protocol, ordering, cycle):
    return {"protocol": protocol, "ordering": ordering, "cycle": cycle, **SCALE[Size.QUICK]}


def totals(protocol, ordering, cycle):
    found = {}
    for seed in SEEDS:
        for metric, value in measure(case(protocol, ordering, cycle), seed):
            found.setdefault(metric, []).append(value)
    return {metric: sum(values) for metric, values in found.items()}


def test_the_strawman_loses_and_the_other_one_does_not():
    assert totals(STRAWMAN, "none", 6)[LOST] > 0
    advanced = totals(ADVANCED, "causal", 6)
    assert advanced[LOST] == advanced[DUPLICATE] == 0


def test_events_wait_for_their_order_only_and_longer_for_causal_order():
    none, fifo, causal = (totals(ADVANCED, ordering, 6) for ordering in ("none", "fifo", "causal"))
    assert none[QUEUED] == 0
    assert QUEUED_MS not in none
    assert 0 < fifo[QUEUED] <= causal[QUEUED]
    assert fifo[QUEUED_MS] < causal[QUEUED_MS]


def test_tables_travel_in_one_message_which_s1_counts_by_entries():
    advanced, strawman = totals(ADVANCED, "fifo", 6), totals(STRAWMAN, "none", 6)
    assert advanced[MESSAGES] != advanced[CONTROL]
    assert strawman[MESSAGES] == strawman[CONTROL] > 0


def test_all_protocols_meet_the_same_network_and_clients():
    scenarios = [scenario_of(case(protocol, "none", 4), 3) for protocol in (STRAWMAN, ADVANCED)]
    assert scenarios[0].clients == scenarios[1].clients
    assert scenarios[0].latency == scenarios[1].latency
    assert len(scenarios[0].clients) == 5 * 10


def test_a_queue_that_never_holds_anything_has_nothing_to_tell():
    run = ScenarioRun(scenario_of(case(STRAWMAN, "none", 3), 0), 0, frozenset())
    queues = EventQueues(run)
    run.finish()
    assert queues.waited == []


# Judges -------------------------------------------------------------------------------------------------------


def as_published(case):
    """Everything as S1 says it is; in what it does not say, like our own runs."""
    cycle, causal = case["cycle"], case["ordering"] == "causal"
    if case["protocol"] == STRAWMAN:
        return {CONTROL: 400 + 10 * cycle, MESSAGES: 400 + 10 * cycle, LOST: 20 * cycle, DUPLICATE: 5 * cycle}
    waits = {QUEUED: 5 * cycle, QUEUED_MS: (30 if causal else 20) * cycle}
    return {CONTROL: 25 * cycle, MESSAGES: 20 * cycle, LOST: 0, DUPLICATE: 0, **waits}


def but(protocol, **changes):
    def means(case):
        found = as_published(case)
        if case["protocol"] == protocol:
            found |= {metric.replace("_", " "): change(case) for metric, change in changes.items()}
        return found

    return summarised(EXCHANGE_ON_A_CYCLE, Size.USUAL, means)


@pytest.mark.parametrize("judge", [judge_control, judge_broken, judge_delay])
def test_what_is_as_published_is_reproduced(judge):
    assert judge(but("nobody")).status is Status.REPRODUCED


def test_a_coordination_that_costs_more_than_the_strawman_is_no_reproduction():
    assert judge_control(but(ADVANCED, control=lambda case: 100 * case["cycle"])).status is Status.REFUTED
    assert judge_control(but(ADVANCED, control=lambda case: 1000)).status is Status.REFUTED
    constant = judge_control(but(ADVANCED, control=lambda case: 50))
    assert "those of advanced coordinated grow" in constant.names
    falling = judge_control(but(STRAWMAN, control=lambda case: 900 - 10 * case["cycle"]))
    assert falling.names == ("the strawman's grow",)
    costly_if_short = judge_control(but(ADVANCED, control=lambda case: 300 + case["cycle"]))
    assert costly_if_short.names == ("above all on short ones",)


def test_losses_that_fall_refute_and_those_that_jump_differ():
    assert judge_broken(but(STRAWMAN, lost=lambda case: 100 - case["cycle"])).status is Status.REFUTED
    rare = but(STRAWMAN, lost=lambda case: case["cycle"] / 2)
    assert judge_broken(rare).names == ("losses are far from negligible",)
    jumping = but(STRAWMAN, lost=lambda case: 40 if case["cycle"] == 12 else case["cycle"] / 2)
    assert judge_broken(jumping).status is Status.DIFFERS


def test_what_too_few_runs_leave_open_is_open():
    vague = [s._replace(low=s.mean - 90, high=s.mean + 90) for s in but(STRAWMAN, lost=lambda case: 9 - case["cycle"])]
    assert judge_broken(vague).status is Status.OPEN
    assert "more seeds" in judge_broken(vague).measured


def test_one_lost_event_of_the_coordinated_protocol_refutes_it():
    found = judge_broken(but(ADVANCED, lost=lambda case: int(case["cycle"] == 8)))
    assert found.status is Status.REFUTED
    assert "at most 1" in found.measured


def test_delays_that_do_not_grow_refute_and_fifo_that_waits_longer_differs():
    assert judge_delay(but(ADVANCED, queued_ms=lambda case: 100 - case["cycle"])).status is Status.REFUTED
    alike = judge_delay(but(ADVANCED, queued_ms=lambda case: 20 * case["cycle"]))
    assert alike.names == ("causal order delays more than FIFO order",)
    longer_fifo = but(ADVANCED, queued_ms=lambda case: (9 if case["ordering"] == "fifo" else 5) * case["cycle"])
    assert judge_delay(longer_fifo).status is Status.DIFFERS
    assert "20.0 ms per broker" in judge_delay(but("nobody")).measured
