"""S1 Fig. 3.2–3.18: runs that agree with the model, and judges with two sides."""

from __future__ import annotations

from math import nan, sqrt
from statistics import mean, stdev

import pytest

from pleach.lab.experiment import Size, select
from pleach.lab.figure_style import load_matplotlib
from pleach.lab.findings import Status
from pleach.lab.s1.chapter3.break_even import break_evens, crossing, write_evens
from pleach.lab.s1.chapter3.figures import FILTERING
from pleach.lab.s1.chapter3.filtering_runs import (
    CROWD_MAX,
    RATES,
    REFRESHES,
    cases,
    control,
    crowd,
    detour,
    leases,
    leases_as_printed,
    measure,
    saved,
    saved_from_root,
)
from pleach.lab.s1.chapter3.model_agreement import ANSWERS, Agreement, agreement, expected, peak
from support.lab.made_up_summaries import summary

SEEDS = 6
STUDENT = 2.571  # 97.5%, five degrees of freedom
PAPER = {"subscriptions": 0, "lifetime": 600, "fanout": 3, "levels": 5, "classes": 1000}
PRINTED = {leases_as_printed(refresh) for refresh in REFRESHES}
SWAPPED = {"s1-fig3-12", "s1-fig3-16"}  # S1's text gives the numbers to the wrong cases


def interval(case, metric, values):
    if len(values) < 2:
        return summary(case, metric, values[0], nan)
    return summary(case, metric, mean(values), STUDENT * stdev(values) / sqrt(len(values)))


@pytest.fixture(scope="module")
def summaries():
    """All cases of the quick size."""
    found = []
    for case in cases(Size.QUICK):
        by_metric = {}
        for seed in range(SEEDS):
            for metric, value in measure(case, seed):
                by_metric.setdefault(metric, []).append(value)
        found += [interval(case, metric, values) for metric, values in by_metric.items()]
    return found


def curves(summaries, metric):
    return [select(summaries, metric, lifetime=lifetime) for lifetime in (600, 60)]


# Simulation and model -------------------------------------------------------------------------------------------


def test_every_metric_has_an_answer_of_the_model(summaries):
    assert {s.metric for s in summaries} == set(ANSWERS)


def test_the_runs_agree_with_the_model(summaries):
    """In a network of 9 leaves and 50 classes, where intervals are wide."""
    metrics = sorted(set(ANSWERS) - PRINTED - {crowd(count) for count in range(CROWD_MAX + 1)})
    found = agreement(curve for metric in metrics for curve in curves(summaries, metric))
    assert found.points > 90
    assert found.is_about_right, found
    assert found.apart < 0.05


@pytest.mark.parametrize(
    ("metric", "other"),
    [
        (leases(60), leases(600)),
        (control(60), leases(60)),
        (saved(1.0), saved_from_root(1.0)),
        (saved(1.0), saved(0.1)),
        ("toggle messages", "toggles"),
        (detour(1.0), saved(1.0)),
    ],
)
def test_the_runs_do_not_agree_with_another_answer(summaries, metric, other):
    """The comparison is sharp enough to tell these apart."""
    renamed = [[s._replace(metric=other) for s in curve] for curve in curves(summaries, metric)]
    assert not agreement(renamed).is_about_right


def test_renewals_as_printed_are_not_what_the_model_says(summaries):
    assert not agreement(curve for metric in sorted(PRINTED) for curve in curves(summaries, metric)).is_about_right


def test_all_figures_can_be_drawn_and_judged(summaries):
    matplotlib = load_matplotlib()
    for figure in FILTERING.figures:
        axes = matplotlib.figure.Figure().subplots()
        figure.draw(axes, summaries)
        assert axes.lines
        assert "points" in figure.judge(summaries).measured
    assert write_evens(summaries).count("\n| ") == 9


# Agreement ------------------------------------------------------------------------------------------------------


def as_modelled(size=Size.USUAL, *, off=0.0, width=0.005):
    """Every point where the model has it, or off by a share of the curve's maximum; with an interval of that width."""
    highest = {}
    for case in cases(size):
        for metric in ANSWERS:
            key = (metric, case["lifetime"])
            highest[key] = max(highest.get(key, 0.0), expected(metric, case))
    return [
        summary(case, metric, expected(metric, case) + off * most, width * most)
        for case in cases(size)
        for metric in ANSWERS
        for most in (highest[metric, case["lifetime"]],)
    ]


def statuses(summaries):
    return {figure.name: figure.judge(summaries).status for figure in FILTERING.figures}


def test_what_the_model_says_is_reproduced_but_where_the_text_swaps_its_cases():
    found = statuses(as_modelled())
    assert {name for name, status in found.items() if status is not Status.REPRODUCED} == SWAPPED
    assert {found[name] for name in SWAPPED} == {Status.DIFFERS}


def test_the_smaller_network_is_compared_with_the_model_alone():
    assert set(statuses(as_modelled(Size.QUICK)).values()) == {Status.REPRODUCED}


@pytest.mark.parametrize(
    ("off", "width", "holds"),
    [
        (0.03, 0.001, False),  # too far apart, for sure
        (0.01, 0.001, False),  # near, but hardly any point inside its interval
        (0.03, 0.05, None),  # too far apart, but the intervals are wide
        (0.01, 0.05, True),
    ],
)
def test_both_bars_count(off, width, holds):
    curves_of = [select(as_modelled(Size.QUICK, off=off, width=width), "toggles", lifetime=600)]
    assert agreement(curves_of).condition.holds is holds


def test_one_point_in_twenty_may_lie_outside():
    assert Agreement(100, 95, 0.01, is_apart_for_sure=False).condition.holds
    assert Agreement(100, 89, 0.01, is_apart_for_sure=False).condition.holds
    assert Agreement(100, 88, 0.01, is_apart_for_sure=False).condition.holds is False


def test_one_seed_has_no_interval_and_leaves_it_open():
    found = agreement(
        [[s._replace(low=nan, high=nan) for s in select(as_modelled(Size.QUICK), "toggles", lifetime=60)]]
    )
    assert (found.points, found.condition.holds) == (0, None)


def test_the_worst_point_counts_and_not_the_last():
    curve = select(as_modelled(Size.QUICK), "entries", lifetime=600)
    curve[1] = curve[1]._replace(mean=curve[1].mean * 2)
    assert agreement([curve]).apart > 0.2


# Break-even -----------------------------------------------------------------------------------------------------


def test_curves_cross_where_exponentials_do():
    falling = [summary({"subscriptions": n}, "f", 1000 * 0.5 ** (n / 10)) for n in range(0, 60, 20)]
    other = [summary({"subscriptions": n}, "o", 100.0) for n in range(0, 60, 20)]
    assert crossing(falling, other) == pytest.approx(33.22, abs=0.01)
    assert crossing(falling[:2], other[:2]) is None


def test_break_evens_of_points_on_the_model_are_those_of_the_model():
    found = list(break_evens(as_modelled()))
    assert len(found) == 8
    assert found[0].computed == pytest.approx(299_172, abs=1)
    for even in found:
        assert even.simulated == pytest.approx(even.computed, rel=0.02)


def test_peaks_of_the_thesis():
    assert peak("toggles", PAPER) == pytest.approx(81_000, abs=10)
    assert peak("toggle messages", PAPER) == pytest.approx(57_390, abs=10)


def test_a_break_even_that_is_elsewhere_differs():
    far_off = [
        s._replace(mean=1.5 * s.mean) if s.metric in {saved(rate) for rate in RATES} else s for s in as_modelled()
    ]
    (table,) = FILTERING.tables
    assert table.judge(as_modelled()).status is Status.REPRODUCED
    assert table.judge(far_off).status is Status.DIFFERS
