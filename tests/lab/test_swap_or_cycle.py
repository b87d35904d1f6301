"""Swaps beside the whole cycle at once: the quick form of the experiment, and its table."""

from statistics import fmean

import pytest

from pleach.core.overlay import choice
from pleach.lab.exchanges.swap_or_cycle import COORDINATED, PROTOCOLS, SWAPS, cases, measure
from pleach.lab.exchanges.swap_or_cycle_choice import WAITS, judge_choice
from pleach.lab.exchanges.swap_or_cycle_figures import SHOWN, SWAP_OR_CYCLE, judge, page
from pleach.lab.experiment import Size, Summary, case_key, select
from pleach.lab.findings import Status
from support.lab.made_up_summaries import summarised as made_up

SEEDS = range(2)


def summarised(samples_of):
    """Means and extremes, over seeds; intervals are of no interest here."""
    found = []
    for case, runs in samples_of:
        for metric in dict.fromkeys(sample.metric for run in runs for sample in run):
            values = sorted(sample.value for run in runs for sample in run if sample.metric == metric)
            mean, low, high = fmean(values), values[0], values[-1]
            found.append(Summary(case, metric, len(runs), len(values), mean, low, high, low, mean, high, high, high))
    return found


def test_neither_breaks_anything_and_each_has_its_price():
    summaries = summarised([(case, [list(measure(case, seed)) for seed in SEEDS]) for case in cases(Size.QUICK)])
    finding = judge(summaries)
    assert finding.measured.startswith("Neither breaks anything.")
    for metric in ("lost", "duplicate", "spurious", "fifo", "causal", "broken_afterwards", "refused"):
        assert not any(s.maximum for s in select(summaries, metric)), metric
    long = {"cycle": 6, "ordering": "causal"}
    swaps, coordinated = (
        {metric: select(summaries, metric, protocol=protocol, **long)[0].mean for metric in (*SHOWN, "misrouted")}
        for protocol in PROTOCOLS
    )
    assert swaps["completion_ms"] > coordinated["completion_ms"]
    assert swaps["misrouted"] > coordinated["misrouted"]
    rows = [line for line in page(summaries).splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 2
    assert rows[2].startswith("| 3 | 40 | 8 | ")
    assert all(row.count("|") == len(SHOWN) + 4 for row in rows)


def test_a_broken_promise_is_not_a_finding_in_favour():
    (case, *_) = cases(Size.QUICK)
    broken = Summary(case, "lost", 1, 1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    assert judge([broken]).status is Status.REFUTED
    assert judge([broken]).measured.startswith("Broken: lost.")


def test_both_protocols_meet_the_same_cases():
    for size in Size:
        keys = {
            protocol: {
                case_key({k: v for k, v in c.items() if k != "protocol"})
                for c in cases(size)
                if c["protocol"] == protocol
            }
            for protocol in PROTOCOLS
        }
        assert keys[SWAPS] == keys[COORDINATED]
        assert len(cases(size)) == 2 * len(keys[SWAPS])
    assert SWAP_OR_CYCLE.seeds[Size.QUICK] == len(SEEDS)


# The rule -----------------------------------------------------------------------------------------------------


def as_measured(case):
    """Much like our own runs, in round numbers."""
    cycle, is_swaps, is_causal = case["cycle"], case["protocol"] == SWAPS, case["ordering"] == "causal"
    at_once = {"none": 0.0, "fifo": 2.0 * cycle}.get(case["ordering"], 3.0 * cycle if cycle < 6 else 15.0 * cycle)
    return {
        "messages": 15.0 * (cycle - 2) if is_swaps else 10.0 * cycle,
        "kilobytes": 4.0 * cycle if is_swaps else 1.0 * cycle,
        "completion_ms": 100.0 * cycle if is_swaps else 40.0 * cycle,
        "locked_broker_ms": 200.0 * cycle,
        WAITS: 1.5 * cycle if is_swaps else at_once,
        "lost": 0.0,
        "causal": 0.0 if is_causal else 1.0,
    }


def but(metric, value, **wanted):
    """As measured, but for one metric of the cases that are wanted."""

    def means(case):
        chosen = all(case[name] == asked for name, asked in wanted.items())
        return as_measured(case) | ({metric: value} if chosen else {})

    return made_up(SWAP_OR_CYCLE, Size.USUAL, means)


MEASURED = made_up(SWAP_OR_CYCLE, Size.USUAL, as_measured)


def test_the_rule_is_what_was_measured():
    assert judge_choice(MEASURED).status is Status.MET
    assert judge(MEASURED).status is Status.REPRODUCED


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (but("messages", 9.0, protocol=COORDINATED, cycle=3), "one swap sends fewer messages"),
        (but("completion_ms", 5000.0, protocol=COORDINATED, cycle=9), "at once is quicker where it is chosen"),
        (but(WAITS, 99.0, protocol=COORDINATED, ordering="none"), "under none events wait hardly longer at once"),
        (but(WAITS, 99.0, protocol=COORDINATED, ordering="fifo"), "under fifo events wait hardly longer at once"),
        (but(WAITS, 150.0, protocol=COORDINATED, cycle=5), "under causal events wait hardly longer at once"),
        (but(WAITS, 20.0, protocol=COORDINATED, ordering="causal"), "under causal they would wait longer where swaps"),
    ],
)
def test_each_reason_of_the_rule_can_turn_out_wrong(found, name):
    finding = judge_choice(found)
    assert finding.status is Status.NOT_MET
    assert any(each.startswith(name) for each in finding.names), finding.names


def test_another_rule_is_not_what_was_measured(monkeypatch):
    monkeypatch.setattr(choice, "CAUSAL_BROKERS_MAX", 12)
    assert judge_choice(MEASURED).names[0].startswith("under causal events wait hardly longer at once")


def test_what_wide_intervals_leave_open_is_open():
    wide = [s._replace(low=s.mean - 300.0, high=s.mean + 300.0) if s.metric == WAITS else s for s in MEASURED]
    assert judge_choice(wide).status is judge(wide).status is Status.OPEN
    assert "more seeds" in judge(wide).measured


def test_swaps_that_let_events_wait_longer_differ():
    assert judge(but(WAITS, 500.0, protocol=SWAPS)).names == ("events wait less for swaps",)


def test_events_that_wait_for_fifo_stand_beside_those_that_wait_for_causal_order():
    row = next(line for line in page(MEASURED).splitlines() if line.startswith("| 8 | 40 | 8 | "))
    assert "| 12 / 120 (16) |" in row
    varied = next(line for line in page(MEASURED).splitlines() if line.startswith("| 8 | 200 | 64 | "))
    assert "| 12 / 120 |" in varied, "where only causal order was measured"
