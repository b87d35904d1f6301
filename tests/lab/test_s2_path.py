"""S2 Fig. 4 and 5: samples that make sense, and judges with two sides."""

from __future__ import annotations

import pytest
from made_up import summarised

from pleach.lab.experiment import Size, Status
from pleach.lab.s2_path import COUNTED, RECONFIGURATION_PATH, judge_improvement, judge_load, measure

SMALL = {"dispatchers": 30, "density": 0.2, "load": 5, "exchanges": 3}


@pytest.fixture(scope="module")
def samples():
    return dict(measure(SMALL, 1))


def test_the_overhead_is_the_sum_of_its_parts_but_for_what_comes_twice(samples):
    for protocol in ("strawman", "deferred", "path"):
        parts = [samples[f"{metric} {protocol}"] for metric in COUNTED if metric != "second_copies"]
        assert samples[f"overhead {protocol}"] == pytest.approx(sum(parts))


def test_what_is_saved_is_a_share_of_the_strawmans_overhead(samples):
    share = samples["overhead path"] / samples["overhead strawman"]
    assert samples["saved path"] == pytest.approx(1 - share)
    assert 0.2 < samples["saved path"] < 1.0


def test_only_who_keeps_both_links_for_a_while_sends_much_twice(samples):
    assert samples["second_copies deferred"] > samples["second_copies path"]
    assert samples["saved with copies deferred"] < samples["saved deferred"]


# Judges -------------------------------------------------------------------------------------------------------


def judged(judge, **means):
    """`means`: of one case, by names such as path_sparse_low."""

    def of_case(case):
        key = f"{'sparse' if case['density'] < 0.5 else 'dense'}_{'low' if case['load'] == 1 else 'high'}"
        found = {f"saved {who}": means[f"{who}_{key}"] for who in ("path", "deferred")}
        astray = {"dead_ends strawman": 10, "dead_ends deferred": 100, "dead_ends path": means.get("astray", 20)}
        return {**found, "overhead strawman": 5300, "saved with copies path": 0.5, **astray}

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
    assert judged(judge_load, **{**AS_PUBLISHED, "path_sparse_high": 0.4}).status is Status.REFUTED
    assert judged(judge_load, **AS_PUBLISHED, astray=1000).status is Status.REFUTED


def test_deferred_ones_that_save_nothing_differ_and_it_says_why():
    found = judged(judge_improvement, **{**AS_PUBLISHED, "deferred_sparse_low": -0.4})
    assert found.status is Status.DIFFERS
    assert "keep the old link alive" in found.measured
    assert judged(judge_load, **{**AS_PUBLISHED, "deferred_sparse_high": -3.0}).status is Status.DIFFERS
