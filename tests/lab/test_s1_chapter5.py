"""S1 Experiments 1 to 10: judges with two sides, samples that add up, figures that can be drawn."""

from math import nan

import pytest

from pleach.lab import figure_style
from pleach.lab.beyond import settling
from pleach.lab.beyond import settling_figures as resting
from pleach.lab.experiment import Size
from pleach.lab.findings import Status
from pleach.lab.improve.course import HEURISTICS
from pleach.lab.s1.chapter5 import course_figures
from pleach.lab.s1.chapter5 import tuning_figures as tuning
from pleach.lab.s1.chapter5 import tuning_figures as variations
from support.lab.made_up_summaries import summarised, summary

LEVELS = {"lmit": 0.8, "lmst": 0.6, "ci": 0.5, "settling": 0.3}


def over_time(what, levels, ticks):
    return {f"{what} {h} {t}": levels[h] for h in HEURISTICS for t in ticks}


def performance(uniform, hotspots, degrees=None):
    def means(case):
        levels = uniform if case["placement"] == "uniform" else hotspots
        return over_time("cost", levels, (1_000, 30_000)) | {"bound": 0.2}

    found = summarised(course_figures.PERFORMANCE, Size.USUAL, means)
    cases = course_figures.PERFORMANCE.cases(Size.USUAL)
    many = [(case, h, count) for case in cases for h, count in (degrees or {}).items()]
    return found + [summary(case, f"degree {h}", 2.0)._replace(maximum=float(count)) for case, h, count in many]


HOT = {"lmit": 0.7, "lmst": 0.6, "ci": 0.45, "settling": 0.3}


def test_experiments_3_and_4_as_published():
    summaries = performance(LEVELS, HOT)
    assert course_figures.judge_uniform(summaries).status is Status.REPRODUCED
    assert course_figures.judge_hotspots(summaries).status is Status.REPRODUCED


def test_a_ci_that_is_worse_than_lmst_is_refuted_and_one_that_is_dear_differs():
    assert course_figures.judge_uniform(performance({**LEVELS, "ci": 0.7}, HOT)).status is Status.REFUTED
    dear = {"lmit": 0.8, "lmst": 0.7, "ci": 0.6, "settling": 0.3}
    assert course_figures.judge_uniform(performance(dear, HOT)).status is Status.DIFFERS
    assert course_figures.judge_hotspots(performance(LEVELS, dear)).status is Status.DIFFERS


def test_experiment_7():
    as_printed = {"lmit": 18, "lmst": 19, "ci": 21, "settling": 50}
    assert course_figures.judge_degrees(performance(LEVELS, HOT, as_printed)).status is Status.REPRODUCED
    assert course_figures.judge_degrees(performance(LEVELS, HOT, {**as_printed, "lmit": 20})).status is Status.DIFFERS
    fewer = {"lmit": 8, "lmst": 10, "ci": 12, "settling": 50}
    assert course_figures.judge_degrees(performance(LEVELS, HOT, fewer)).status is Status.DIFFERS


LOWER_LMIT = {**LEVELS, "lmit": 0.75}


def changing(spikes, rates, slow_end=LOWER_LMIT):
    def means(case):
        found = {}
        for h in HEURISTICS:
            for t in (*range(1_000, 75_001, 1_000),):
                level = LEVELS[h] + (spikes[h] if t in {26_000, 51_000} and case["change"] == "abrupt" else 0.0)
                if case["change"] == "slow" and t > 55_000:
                    level = slow_end[h]
                found[f"cost {h} {t}"], found[f"exchanges {h} {t}"] = level, rates[h]
        return found

    return summarised(course_figures.ADAPTIVITY, Size.USUAL, means)


SPIKES = {"lmit": 0.01, "lmst": 0.2, "ci": 0.2, "settling": 0.1}
RATES = {"lmit": 42.0, "lmst": 0.0, "ci": 83.0, "settling": 0.5}


def test_experiments_5_6_and_8_as_published():
    summaries = changing(SPIKES, RATES)
    for judge in (course_figures.judge_abrupt, course_figures.judge_slow, course_figures.judge_exchanges):
        assert judge(summaries).status is Status.REPRODUCED


def test_experiments_5_6_and_8_otherwise():
    assert course_figures.judge_abrupt(changing({**SPIKES, "lmit": 0.5}, RATES)).status is Status.DIFFERS
    assert course_figures.judge_slow(changing(SPIKES, RATES, dict.fromkeys(HEURISTICS, 1.2))).status is Status.REFUTED
    assert course_figures.judge_exchanges(changing(SPIKES, {**RATES, "ci": 30.0})).status is Status.DIFFERS
    assert course_figures.judge_exchanges(changing(SPIKES, {**RATES, "lmst": 30.0})).status is Status.REFUTED


def vague(summaries, spread=0.5):
    """The same means, of seeds that do not agree."""
    return [s._replace(low=s.mean - spread, high=s.mean + spread) for s in summaries]


def single(summaries):
    return [s._replace(low=nan, high=nan, seeds=1) for s in summaries]


def test_a_spike_within_the_intervals_is_none():
    found = course_figures.judge_abrupt(vague(changing(SPIKES, RATES)))
    assert found.names == ("ℓMST has a spike at each change", "CI has a spike at each change")
    assert found.status is Status.DIFFERS


def test_lmit_that_ends_as_high_as_after_abrupt_changes_differs_and_what_is_not_told_is_open():
    assert course_figures.judge_slow(vague(changing(SPIKES, RATES))).status is Status.OPEN
    higher = course_figures.judge_slow(changing(SPIKES, RATES, {**LEVELS, "lmit": 0.85}))
    assert higher.names == ("ℓMIT ends lower than after abrupt changes",)


@pytest.mark.parametrize(
    ("judge", "summaries"),
    [
        (course_figures.judge_uniform, lambda: performance(LEVELS, HOT)),
        (course_figures.judge_hotspots, lambda: performance(LEVELS, HOT)),
        (course_figures.judge_abrupt, lambda: changing(SPIKES, RATES)),
        (course_figures.judge_slow, lambda: changing(SPIKES, RATES)),
        (variations.judge_weights, lambda: varied(variations.WEIGHTS, "processing", WEIGHED)),
        (resting.judge, lambda: still(RATES, LEVELS)),
    ],
)
def test_one_seed_tells_nothing_apart(judge, summaries):
    found = judge(single(summaries()))
    assert (found.status, "one seed" in found.measured) == (Status.OPEN, True)


def test_what_praises_the_settling_ci_says_what_its_tree_is_like():
    many = performance(LEVELS, HOT, {**dict.fromkeys(HEURISTICS, 9), "settling": 93})
    hub = "a hub of up to 93 neighbours, which S1's cost does not charge for"
    for judge in (course_figures.judge_uniform, course_figures.judge_hotspots):
        assert hub in judge(many).measured
        assert "hub" not in judge(performance(LEVELS, HOT)).measured, "no degrees were measured"
    for judge, x in ((course_figures.judge_abrupt, "abrupt"), (course_figures.judge_slow, "slow")):
        degree = summary({"change": x}, "degree settling", 2.0)._replace(maximum=93.0)
        assert hub in judge([*changing(SPIKES, RATES), degree]).measured


def test_runs_without_a_change_leave_it_open():
    short = summarised(course_figures.ADAPTIVITY, Size.QUICK, lambda case: over_time("cost", LEVELS, (1_000, 4_000)))
    assert course_figures.judge_abrupt(short).status is Status.OPEN
    assert course_figures.judge_slow(short).status is Status.OPEN


def radius(best, changes=0.01):
    def means(case):
        told = 0.01 * case["radius"]
        forwarding = 0.5 + 0.05 * abs(case["radius"] - best)
        return {"forwarding": forwarding, "broadcasts": told, "requests and exchanges": changes, "all": forwarding}

    return summarised(tuning.RADIUS, Size.USUAL, means)


def test_experiment_1():
    assert tuning.judge_radius(radius(3)).status is Status.REPRODUCED
    assert tuning.judge_radius(radius(6)).status is Status.DIFFERS
    assert tuning.judge_radius(radius(3, changes=0.2)).status is Status.DIFFERS


def cache(first_equal):
    def means(case):
        return {"all": 0.5, "difference": 0.0 if case["cache"] >= first_equal else 0.1}

    return summarised(tuning.CACHE, Size.USUAL, means)


def test_experiment_2():
    assert tuning.judge_cache(cache(4_608)).status is Status.REPRODUCED
    assert tuning.judge_cache(cache(1_024)).status is Status.DIFFERS
    assert "never equal" in tuning.judge_cache(cache(1_000_000)).measured


def varied(experiment, x, lines):
    """`lines`: what each saves at 0 and at 1."""

    def means(case):
        return {f"saved {h}": a + (b - a) * case[x] for h, (a, b) in lines.items()}

    return summarised(experiment, Size.USUAL, means)


WEIGHED = {"lmst": (0.6, 0.2), "lmit": (0.4, 0.4), "ci": (0.6, 0.5), "settling": (0.7, 0.7)}


def test_experiment_9():
    lines = WEIGHED
    assert variations.judge_weights(varied(variations.WEIGHTS, "processing", lines)).status is Status.REPRODUCED
    beaten = varied(variations.WEIGHTS, "processing", {**lines, "ci": (0.5, 0.5)})
    assert variations.judge_weights(beaten).status is Status.REFUTED
    assert "α = 0." in variations.judge_weights(beaten).measured
    flat = varied(variations.WEIGHTS, "processing", {**lines, "lmst": (0.4, 0.4)})
    assert variations.judge_weights(flat).status is Status.DIFFERS


def test_experiment_10():
    lines = {"lmst": (0.4, 0.45), "lmit": (0.4, 0.45), "ci": (0.5, 0.55), "settling": (0.7, 0.7)}
    assert variations.judge_locality(varied(variations.LOCALITY, "locality", lines)).status is Status.REPRODUCED
    much = varied(variations.LOCALITY, "locality", {**lines, "lmst": (0.2, 0.5)})
    assert variations.judge_locality(much).status is Status.DIFFERS
    behind = varied(variations.LOCALITY, "locality", {**lines, "ci": (0.3, 0.2)})
    assert variations.judge_locality(behind).status is Status.REFUTED


def test_lmst_and_lmit_have_to_be_about_the_same():
    lines = {"lmst": (0.5, 0.55), "lmit": (0.4, 0.45), "ci": (0.6, 0.65), "settling": (0.7, 0.7)}
    apart = variations.judge_locality(varied(variations.LOCALITY, "locality", lines))
    assert apart.names == ("ℓMST and ℓMIT are about the same (10 points apart)",)


def still(rates, levels):
    def means(_case):
        ticks = (1_000, 15_000, 30_000)
        return (
            over_time("exchanges", rates, ticks)
            | over_time("cost", levels, ticks)
            | over_time("all costs", levels, ticks)
        )

    return summarised(resting.SETTLES, Size.USUAL, means)


def test_settling_is_judged_by_its_exchanges_and_its_cost():
    assert resting.judge(still(RATES, LEVELS)).status is Status.MET
    assert resting.judge(still({**RATES, "settling": 5.0}, LEVELS)).status is Status.NOT_MET
    assert resting.judge(still(RATES, {**LEVELS, "settling": 0.6})).status is Status.NOT_MET
    assert resting.judge(vague(still(RATES, {**LEVELS, "settling": 0.6}))).status is Status.OPEN


def test_the_table_of_the_optimum_has_a_line_for_each_tree():
    def means(_case):
        return {f"{what} {name}": 1.0 for name in settling.ROWS for what in ("ratio", "optimal")}

    summaries = summarised(resting.OPTIMUM, Size.USUAL, means)
    assert len(resting.write_table(summaries).splitlines()) == 2 + len(settling.ROWS)
    assert resting.judge_table(summaries).status is Status.DIFFERS


def test_no_tree_of_eight_brokers_is_cheaper_than_the_optimum():
    samples = dict(settling.measure_small({"brokers": 8, "ticks": 3_000}, 3))
    assert all(samples[f"ratio {name}"] >= 1.0 - 1e-9 for name in settling.ROWS)
    assert samples["ratio settling"] <= samples["ratio static"]


@pytest.mark.parametrize(
    ("figure", "summaries"),
    [
        *(
            (figure, performance(LEVELS, HOT, dict.fromkeys(HEURISTICS, 9)))
            for figure in course_figures.PERFORMANCE.figures[1:]
        ),
        (course_figures.ADAPTIVITY.figures[-1], changing(SPIKES, RATES)),
        (tuning.RADIUS.figures[0], radius(3)),
        (resting.SETTLES.figures[0], still(RATES, LEVELS)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_figures_can_be_drawn(figure, summaries, tmp_path):
    assert all(path.stat().st_size > 1_000 for path in figure_style.save(figure, summaries, tmp_path))
