"""Table I: its cases, its marks, and what it concludes; from numbers that are made up, but for one run."""

from __future__ import annotations

import pytest

from pleach.core.overlay.registry import EXCHANGES
from pleach.lab.exchanges.table1 import ProtocolRow, cases, measure, rows
from pleach.lab.exchanges.table1_figures import (
    TABLE1,
    Promise,
    judge_broken,
    judge_cost,
    judge_promises,
    page,
    promised,
    said,
)
from pleach.lab.experiment import Size, Summary
from pleach.lab.findings import Status
from pleach.scenario.model import Ordering

METRICS = (
    *("stuck", "lost", "duplicate", "spurious", "fifo", "causal", "broken_afterwards", "refused"),
    *(
        "completion_ms",
        "locked_brokers",
        "locked_broker_ms",
        "extra_ms",
        "extra_ms_max",
        "held_back_ms_max",
        "delayed_share",
    ),
    *("control", "control_bytes", "entries", "confirmations", "protocol_messages"),
    *("dead_ends", "second_copies", "misrouted", "overhead", "outside"),
)
CAUSAL = ProtocolRow("advanced-coordinated", Ordering.CAUSAL)


def summaries(value_of=lambda _row, _metric, _cycle: 0.0):
    """Of every case of the usual size; all zero but the overhead, if nothing else is said."""
    found = []
    for case in cases(Size.USUAL):
        row = ProtocolRow(str(case["protocol"]), Ordering(case["ordering"]))
        for metric in METRICS:
            mean = value_of(row, metric, int(case["cycle"])) or (100.0 if metric == "overhead" else 0.0)
            found.append(Summary(case, metric, 8, 8, mean, mean, mean, mean, mean, mean, mean, mean))
    return found


def line_of(text, name):
    return next(line for line in text.splitlines() if line.startswith(f"| {name} |"))


def test_every_protocol_of_the_registry_is_a_row():
    assert {row.protocol for row in rows()} == {*EXCHANGES}
    assert [row.ordering for row in rows() if row.protocol == CAUSAL.protocol] == list(Ordering)
    assert all(said(row) for row in rows())


def test_one_case_gives_all_metrics_and_the_same_again():
    case = next(case for case in cases(Size.QUICK) if case["protocol"] == "advanced-coordinated")
    first = list(measure(case, 0))
    assert first == list(measure(case, 0))
    assert [sample.metric for sample in first] == list(METRICS)


@pytest.mark.parametrize(
    ("row", "metric", "mark"),
    [
        (CAUSAL, "lost", "✗"),
        (CAUSAL, "causal", "✗"),
        (CAUSAL, "outside", "✗"),
        (ProtocolRow("path", Ordering.CAUSAL), "outside", "✗"),
        (ProtocolRow("advanced-coordinated", Ordering.FIFO), "causal", ""),
        (ProtocolRow("strawman", Ordering.CAUSAL), "lost", ""),
        (CAUSAL, "held_back_ms_max", ""),
        (ProtocolRow("swaplink-published", Ordering.CAUSAL), "held_back_ms_max", "✗"),
    ],
)
def test_only_what_is_promised_is_marked(row, metric, mark):
    def value_of(each, of, _cycle):
        return 7.0 if (each, of) == (row, metric) else 0.0

    before, after = (line_of(page(summaries(f)), row.name) for f in (lambda *_: 0.0, value_of))
    assert before.count("✗") == 0
    assert before.count("✓") == sum(promise in promised(row) for promise in Promise)
    assert after.count("✗") == bool(mark)
    assert "7" in after


def test_nothing_is_said_to_be_kept_where_runs_have_no_end():
    def value_of(row, metric, cycle):
        return float((row, metric, cycle) == (CAUSAL, "stuck", 7))

    line = line_of(page(summaries(value_of)), CAUSAL.name)
    assert "✓" not in line
    assert line.count("?") == sum(promise in promised(CAUSAL) for promise in Promise)


def as_said(row, metric, _cycle):
    """Those that promise nothing break something, and two of them outside the cycle, too."""
    outside = {"strawman": 100.0, "deferred": 20.0}
    breaking = ("strawman", "deferred", "coordinated", "informed", "path")
    return {"outside": outside.get(row.protocol, 0.0), "duplicate": float(row.protocol in breaking)}.get(metric, 0.0)


def but(row, metric, cycle=7):
    """As said, but for one length of the cycle."""
    return lambda *point: 0.5 if point == (row, metric, cycle) else as_said(*point)


def test_all_promises_kept_is_as_said():
    assert judge_promises(summaries(as_said)).status is Status.REPRODUCED


EVERY, WHOLE = "every protocol keeps what it promises", "advanced coordinated keeps all in causal order"
IN_FIFO = "it loses, doubles and reorders nothing in FIFO order"
AS_PRINTED = "the algorithms keep what they promise as printed, too"
KEEPS_FIFO, PATH = ProtocolRow("advanced-coordinated", Ordering.FIFO), ProtocolRow("path", Ordering.CAUSAL)


@pytest.mark.parametrize(
    ("row", "metric", "names"),
    [
        (CAUSAL, "fifo", (EVERY, WHOLE)),
        (CAUSAL, "causal", (EVERY, WHOLE)),
        (CAUSAL, "spurious", (EVERY, WHOLE)),
        (CAUSAL, "stuck", (EVERY,)),
        (CAUSAL, "broken_afterwards", (EVERY,)),
        (KEEPS_FIFO, "fifo", (EVERY, IN_FIFO)),
        (KEEPS_FIFO, "lost", (EVERY, IN_FIFO)),
        (PATH, "outside", (EVERY,)),
        (ProtocolRow("swaplink", Ordering.CAUSAL), "causal", (EVERY,)),
    ],
)
def test_a_promise_broken_on_one_length_is_found(row, metric, names):
    finding = judge_promises(summaries(but(row, metric)))
    assert finding.status is Status.REFUTED
    assert finding.names == names
    assert row.name in finding.measured


@pytest.mark.parametrize("metric", ["lost", "stuck"])
def test_what_only_the_printed_form_breaks_does_not_refute_the_mended_one(metric):
    printed = ProtocolRow("advanced-coordinated-printed", Ordering.CAUSAL)
    finding = judge_promises(summaries(but(printed, metric)))
    assert (finding.status, finding.names) == (Status.DIFFERS, (AS_PRINTED,))
    assert printed.name in finding.measured


def test_nothing_is_promised_of_order_where_none_is_kept():
    assert judge_promises(summaries(but(KEEPS_FIFO, "causal"))).status is Status.REPRODUCED


def test_that_the_others_break_nothing_is_not_told_by_runs_in_which_nothing_broke():
    harmless = [s._replace(maximum=0.0) if s.case["protocol"] == "informed" else s for s in summaries(as_said)]
    assert judge_promises(harmless).names == ("the other protocols lose, double or reorder events",)


def test_deferred_unsubscriptions_stay_on_the_cycle_more_often_than_the_strawmans():
    def value_of(row, metric, cycle):
        return 300.0 if (row.protocol, metric) == ("deferred", "outside") else as_said(row, metric, cycle)

    assert judge_promises(summaries(value_of)).status is Status.DIFFERS


def test_losses_that_grow_are_as_published_and_others_are_not():
    def growing(row, metric, cycle):
        return float(cycle) if row.protocol == "strawman" and metric in ("lost", "duplicate") else 0.0

    assert judge_broken(summaries(growing)).status is Status.REPRODUCED
    assert judge_broken(summaries(lambda *_: 0.0)).names == ("losses grow", "duplicates grow")
    falling = judge_broken(summaries(lambda row, metric, cycle: growing(row, metric, 15 - cycle)))
    assert falling.status is Status.REFUTED


def test_noise_is_no_growth():
    """The longer half is above the shorter one, as in every other case of noise."""

    def noisy(row, metric, cycle):
        return 5.0 + cycle % 2 + cycle / 100 if row.protocol == "strawman" and metric == "duplicate" else float(cycle)

    def unsure(summaries):
        return [s._replace(low=s.mean - 2.0, high=s.mean + 2.0) for s in summaries]

    found = judge_broken(
        unsure(summaries(lambda row, *point: noisy(row, *point) if row.protocol == "strawman" else 0.0))
    )
    assert found.status is Status.OPEN
    assert [name.partition(" (")[0] for name in found.names] == ["duplicates grow"]


def test_what_no_two_lengths_tell_apart_all_of_them_may():
    """Losses that rise by less than the interval of a point, and not in a line."""

    def value_of(row, metric, cycle):
        if row.protocol != "strawman" or metric not in ("lost", "duplicate"):
            return 0.0
        return cycle + 4.0 * (cycle % 2)

    wide = [s._replace(low=s.mean - 4.5, high=s.mean + 4.5) for s in summaries(value_of)]
    names = [name.partition(" (")[0] for name in judge_broken(wide).names]
    assert names == ["losses grow in a line", "duplicates grow in a line"], "that they grow is told"


def test_a_swap_that_loses_something_is_named():
    def value_of(row, metric, cycle):
        if metric in ("lost", "duplicate"):
            return float(cycle) if row.protocol in ("strawman", "swaplink") else 0.0
        return 0.0

    found = judge_broken(summaries(value_of))
    assert (found.status, found.names) == (Status.REFUTED, ("swaps lose and double nothing",))


def test_the_strawman_must_cost_more_at_every_length():
    def value_of(row, metric, cycle, worst=50.0):
        if metric == "overhead":
            return 100.0 if row.protocol == "strawman" else worst if cycle == 9 else 20.0
        slope = {Ordering.FIFO: 1.0, Ordering.CAUSAL: 2.0}.get(row.ordering, 0.0)
        return slope * cycle if metric == "extra_ms" else 0.0

    assert judge_cost(summaries(value_of)).status is Status.REPRODUCED
    dearer = judge_cost(summaries(lambda row, metric, cycle: value_of(row, metric, cycle, worst=120.0)))
    assert dearer.status is Status.REFUTED
    assert "120%, at 9" in dearer.measured
    alike = judge_cost(
        summaries(lambda row, metric, cycle: value_of(ProtocolRow(row.protocol, CAUSAL.ordering), metric, cycle))
    )
    assert alike.names == ("delays of causal order grow faster",)


def test_the_smallest_size_has_its_report_too():
    quick = [s for s in summaries() if s.case["cycle"] in (3, 6) and s.case["load"] == "low"]
    text = page(quick)
    assert "At high load" not in text
    assert all(shown.judge(quick).measured for shown in (*TABLE1.figures, *TABLE1.tables))


def test_what_is_missing_is_said_and_breaks_nothing():
    some = [s for s in summaries() if s.case["protocol"] == "path"]
    assert "| path |" in page(some)
    assert judge_promises(some).status is judge_broken(some).status is judge_cost(some).status is Status.OPEN
