"""S4 Fig. 8 to 14: who covers whom, movements that are counted as they should be, and judges with two sides."""

from __future__ import annotations

from collections import Counter
from math import nan

import pytest

from pleach.core.events.algebra import covers
from pleach.core.events.language import parse_filter
from pleach.core.mobility.resettling import MoveProtocol
from pleach.core.overlay.plans import Topology
from pleach.lab.experiment import Size
from pleach.lab.figure_style import save
from pleach.lab.findings import Status
from pleach.lab.s4.figures import FIGURES, judge_workloads, spread
from pleach.lab.s4.movement import MOVEMENT, cases
from pleach.lab.s4.movers import MESSAGES, Course, CoveringWorkload, Movers, measure, movers_scenario, order, shapes_of
from support.lab.made_up_summaries import summarised

FIGURE = {figure.name: figure for figure in FIGURES}


def movers(workload, protocol=MoveProtocol.COVERING, *, clients=10, family=10, **more):
    return Movers(workload, protocol, clients=clients, family=family, **{"moving": clients, **more})


def wanted(setting):
    return [parse_filter(client.subscribe[0]) for client in movers_scenario(setting, 1, 20.0).clients]


# The setting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "covered"),
    [
        (CoveringWorkload.DISTINCT, [0] * 10),
        (CoveringWorkload.CHAINED, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        (CoveringWorkload.TREE, [9, 5, 2, 2, 1, 0, 0, 0, 0, 0]),
        (CoveringWorkload.COVERED, [9, *[0] * 9]),
    ],
)
def test_fig_7_who_covers_how_many_of_the_others(workload, covered):
    filters = wanted(movers(workload))
    assert [sum(covers(one, other) for other in filters if other is not one) for one in filters] == covered


def test_families_have_nothing_in_common():
    filters = wanted(movers(CoveringWorkload.COVERED, clients=30))
    assert Counter(sum(covers(one, other) for other in filters) for one in filters) == {10: 3, 1: 27}


@pytest.mark.parametrize("brokers", [14, 26])
def test_fig_6_and_13_ways_are_of_five_links_in_any_tree(brokers):
    scenario = movers_scenario(movers(CoveringWorkload.COVERED, brokers=brokers), 1, 20.0)
    tree = Topology.of(scenario.links)
    assert len(tree.brokers) == brokers
    assert tree.path("1", "13") == ("1", "3", "4", "8", "12", "13")
    assert tree.path("2", "14") == ("2", "3", "4", "8", "12", "14")


def test_fig_12_roots_move_first_then_some_that_are_covered_then_distinct_ones():
    setting = movers(CoveringWorkload.MIXED, clients=400)
    shapes = shapes_of(setting, 1)
    numbers = [int(client[1:]) for client in order(setting, 1)]
    assert sorted(numbers) == list(range(400))
    moving = [(shapes[number // 10], number % 10 == 0) for number in numbers[:50]]
    for first, shape in ((0, CoveringWorkload.COVERED), (10, CoveringWorkload.TREE), (20, CoveringWorkload.CHAINED)):
        assert moving[first : first + 10] == [(shape, True)] * 10
    assert all(shape is not CoveringWorkload.DISTINCT and not is_root for shape, is_root in moving[30:40])
    assert all(shape is CoveringWorkload.DISTINCT for shape, _ in moving[40:])


# Measuring ----------------------------------------------------------------------------------------------------


def samples(setting, seconds=20.0):
    found = {}
    for metric, value in Course(setting, 1, seconds).samples():
        found.setdefault(metric, []).append(value)
    return found


@pytest.mark.parametrize("protocol", list(MoveProtocol))
def test_everyone_moves_each_ten_seconds_and_nobody_is_refused(protocol):
    found = samples(movers(CoveringWorkload.RANDOM, protocol, clients=20))
    assert found["refused"] == [0]
    assert 36 <= len(found["latency"]) <= 40
    assert found["moves per second"][0] == pytest.approx(2.0, rel=0.1)
    assert all(0.002 < seconds < 0.5 for seconds in found["latency"])


def test_a_transaction_costs_eight_messages_per_link_whatever_is_covered():
    for workload in (CoveringWorkload.DISTINCT, CoveringWorkload.COVERED):
        found = samples(movers(workload, MoveProtocol.TRANSACTION, moving=1))
        assert found["messages per move"] == [40.0]


def test_a_root_that_moves_floods_the_path_with_what_it_covers():
    few, many = (
        samples(movers(CoveringWorkload.COVERED, clients=count, family=count, moving=1), 40.0) for count in (10, 40)
    )
    assert many["messages per move"][0] > 3 * few["messages per move"][0] > 300
    assert min(many["latency"]) > 2 * max(few["latency"]), "they wait in line"


@pytest.mark.parametrize(("protocol", "is_slower"), [(MoveProtocol.COVERING, True), (MoveProtocol.TRANSACTION, False)])
def test_brokers_that_go_through_their_tables_slow_down_who_needs_covering(protocol, is_slower):
    found = [
        samples(movers(CoveringWorkload.COVERED, protocol, clients=40, family=40, moving=1, scan_us=scan_us), 40.0)
        for scan_us in (0.0, 100.0)
    ]
    assert (min(found[1]["latency"]) > 1.5 * max(found[0]["latency"])) == is_slower


def test_a_measurement_has_all_that_the_figures_show():
    case = next(case for case in cases(Size.QUICK) if case["part"] == "single")
    assert {sample.metric for sample in measure(case, 0)} >= {"latency", "messages per move", "moves per second"}


# Judges -------------------------------------------------------------------------------------------------------


def made_up(ours=0.03, theirs=0.9, growth=0.0):
    """`growth`: of the transaction's latency, from one case to the other."""

    def means(case):
        is_ours = case["protocol"] == "transaction"
        size = (case["clients"] + case["moving"] + case["brokers"]) / 1_000 + (case["workload"] == "covered")
        return {"latency": ours * (1.0 + growth * size) if is_ours else theirs, "messages per move": 40.0}

    return summarised(MOVEMENT, Size.USUAL, means)


@pytest.mark.parametrize("figure", [f for f in FIGURES if f.name != "s4-fig13"], ids=lambda figure: figure.name)
def test_ten_times_as_fast_and_flat_is_what_s4_says(figure):
    assert figure.judge(made_up()).status is Status.REPRODUCED
    assert figure.judge(made_up(theirs=0.1)).status is Status.DIFFERS
    assert figure.judge(made_up(theirs=0.02)).status is Status.REFUTED


def test_fig_14_is_refuted_by_intervals_only():
    judge, slower = FIGURE["s4-fig14"].judge, made_up(theirs=0.02)
    wide = judge([s._replace(low=0.0, high=1.0) for s in slower])
    assert (wide.status, "more seeds" in wide.measured) == (Status.OPEN, True)
    single = judge([s._replace(low=nan, high=nan, seeds=1) for s in slower])
    assert (single.status, "one seed" in single.measured) == (Status.OPEN, True)


def test_fig_14_says_that_the_transaction_sends_less():
    more = [s._replace(mean=80.0) if s.metric == MESSAGES and is_ours(s) else s for s in made_up()]
    assert FIGURE["s4-fig14"].judge(more).names == ("the transaction sends no more",)


def is_ours(point):
    return point.case["protocol"] == "transaction"


@pytest.mark.parametrize("name", ["s4-fig9", "s4-fig10", "s4-fig14"])
def test_a_transaction_that_is_fast_and_not_flat_differs(name):
    assert FIGURE[name].judge(made_up(growth=1.0)).status is Status.DIFFERS


def test_fig_13_only_the_size_of_the_tree_counts():
    assert FIGURE["s4-fig13"].judge(made_up(theirs=0.02)).status is Status.REPRODUCED
    larger = [s._replace(mean=s.mean * s.case["brokers"]) for s in made_up()]
    assert FIGURE["s4-fig13"].judge(larger).status is Status.DIFFERS


def test_ten_times_in_one_workload_is_not_ten_times_in_all():
    some = [s._replace(mean=0.1) if s.case["workload"] == "chained" and s.mean > 0.5 else s for s in made_up()]
    assert FIGURE["s4-fig9"].judge(some).status is Status.DIFFERS
    assert "chained 3.3" in FIGURE["s4-fig9"].judge(some).measured


def test_where_it_is_less_than_ten_times_it_says_why():
    assert "differences" in judge_workloads(made_up(theirs=0.1)).measured
    assert "differences" not in judge_workloads(made_up()).measured


def test_how_flat_a_curve_is():
    points = summarised(MOVEMENT, Size.QUICK, lambda case: {"latency": 2.0 if case["part"] == "wide" else 3.0})
    assert spread(points) == pytest.approx(1.5)


@pytest.mark.parametrize("name", ["s4-fig9", "s4-fig11", "s4-fig12", "s4-scans"])
def test_figures_of_each_kind_are_drawn(name, tmp_path):
    pytest.importorskip("matplotlib")
    assert all(path.stat().st_size > 1_000 for path in save(FIGURE[name], made_up(), tmp_path))
