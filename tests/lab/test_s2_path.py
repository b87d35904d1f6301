"""S2 Fig. 4 and 5: samples that make sense, and judges with two sides."""

from __future__ import annotations

import pytest

from pleach.lab.experiment import Size
from pleach.lab.findings import Status
from pleach.lab.s2.figures import RECONFIGURATION_PATH, judge_improvement, judge_load, saved
from pleach.lab.s2.path import COUNTED, measure
from support.lab.made_up_summaries import summarised, summary

SMALL = {"dispatchers": 30, "density": 0.2, "load": 5, "exchanges": 3}


@pytest.fixture(scope="module")
def samples():
    return dict(measure(SMALL, 1))


def test_the_overhead_is_the_sum_of_its_parts_and_copies_stand_apart(samples):
    for protocol in ("strawman", "deferred", "path"):
        parts = {metric: samples[f"{metric} {protocol}"] for metric in COUNTED}
        assert samples[f"overhead with copies {protocol}"] == pytest.approx(sum(parts.values()))
        assert samples[f"overhead {protocol}"] == pytest.approx(sum(parts.values()) - parts["second_copies"])


def test_the_path_costs_less_than_the_strawman(samples):
    assert 0.2 < samples["saved path"] < 1.0
    assert samples["overhead path"] == pytest.approx((1 - samples["saved path"]) * samples["overhead strawman"])


def test_only_who_keeps_both_links_for_a_while_sends_much_twice(samples):
    assert samples["second_copies deferred"] > samples["second_copies path"]


# Judges -------------------------------------------------------------------------------------------------------


def test_what_is_saved_is_a_share_of_means_as_uncertain_as_the_shares_of_the_seeds():
    ours, strawmans = summary({}, "overhead", 30.0, 20.0), summary({}, "overhead", 100.0, 50.0)
    found = saved(ours, strawmans, summary({}, "saved", 0.5, 0.1))
    assert (found.low, found.mean, found.high) == pytest.approx((0.6, 0.7, 0.8))


def judged(judge, **means):
    """`means`: what is saved, by names such as path_sparse_low."""

    def of_case(case):
        key = f"{'sparse' if case['density'] < 0.5 else 'dense'}_{'low' if case['load'] == 1 else 'high'}"
        shares = {"strawman": 1.0, **{who: 1.0 - means[f"{who}_{key}"] for who in ("path", "deferred")}}
        strawman = means.get("strawman", 5300) if case["density"] < 0.5 else 3500
        costs = {
            f"overhead{copies} {p}": strawman * share for p, share in shares.items() for copies in ("", " with copies")
        }
        costs |= {f"saved {p}": 1.0 - share for p, share in shares.items()}
        return {**costs, "dead_ends strawman": 10, "dead_ends deferred": 100, "dead_ends path": means.get("astray", 20)}

    return judge(summarised(RECONFIGURATION_PATH, Size.USUAL, of_case))


AS_PUBLISHED = {
    "path_sparse_low": 0.70,
    "path_dense_low": 0.40,
    "path_sparse_high": 0.60,
    "deferred_sparse_low": 0.44,
    "deferred_dense_low": 0.15,
    "deferred_sparse_high": 0.10,
}


@pytest.mark.parametrize("judge", [judge_improvement, judge_load])
def test_the_published_figures_are_reproduced(judge):
    assert judged(judge, **AS_PUBLISHED).status is Status.REPRODUCED


def test_a_path_that_saves_too_little_refutes_the_claim():
    assert judged(judge_improvement, **{**AS_PUBLISHED, "path_sparse_low": 0.5}).status is Status.REFUTED
    assert judged(judge_improvement, **{**AS_PUBLISHED, "path_dense_low": 0.1}).status is Status.REFUTED
    assert judged(judge_load, **{**AS_PUBLISHED, "path_sparse_high": 0.4}).status is Status.REFUTED
    assert judged(judge_load, **AS_PUBLISHED, astray=1000).status is Status.REFUTED


def test_seventy_per_cent_are_wanted_and_69_are_fewer():
    short = judged(judge_improvement, **{**AS_PUBLISHED, "path_sparse_low": 0.69})
    assert short.names == ("the path saves 70% where few subscribe",)
    assert judged(judge_load, **{**AS_PUBLISHED, "path_sparse_high": 0.59}).names == ("the path saves 60%",)


def test_a_strawman_of_another_price_differs():
    few = "the strawman costs more where few subscribe"
    stated = "5,300 and 3,500 messages (within a factor of 2)"
    assert judged(judge_improvement, **AS_PUBLISHED, strawman=3_000).names == (few,)
    assert judged(judge_improvement, **AS_PUBLISHED, strawman=2_000).names == (few, stated)
    assert judged(judge_improvement, **AS_PUBLISHED, strawman=20_000).names == (stated,)


def test_load_has_to_cost_the_path_something():
    assert judged(judge_load, **{**AS_PUBLISHED, "path_sparse_high": 0.75}).names == ("so does the path",)


def test_a_path_that_saves_more_where_many_subscribe_differs():
    assert judged(judge_improvement, **{**AS_PUBLISHED, "path_dense_low": 0.8}).status is Status.DIFFERS


def test_deferred_ones_that_save_nothing_differ_and_it_says_why():
    found = judged(judge_improvement, **{**AS_PUBLISHED, "deferred_sparse_low": -0.4})
    assert found.status is Status.DIFFERS
    assert "keep the old link alive" in found.measured
    assert judged(judge_load, **{**AS_PUBLISHED, "deferred_sparse_high": -3.0}).status is Status.DIFFERS
