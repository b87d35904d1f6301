"""S1 Experiments 1 to 10: judges with two sides, samples that add up, figures that can be drawn."""

import pytest
from made_up import summarised, summary

from pleach.lab import look, s1_course, s1_tuning, s1_variations, settling
from pleach.lab.experiment import Size
from pleach.lab.findings import Status
from pleach.lab.improve.course import HEURISTICS

LEVELS = {"lmit": 0.8, "lmst": 0.6, "ci": 0.5, "settling": 0.3}


def over_time(what, levels, ticks):
    return {f"{what} {h} {t}": levels[h] for h in HEURISTICS for t in ticks}


def performance(uniform, hotspots, degrees=None):
    def means(case):
        levels = uniform if case["placement"] == "uniform" else hotspots
        return over_time("cost", levels, (1_000, 30_000)) | {"bound": 0.2}

    found = summarised(s1_course.PERFORMANCE, Size.USUAL, means)
    cases = s1_course.PERFORMANCE.cases(Size.USUAL)
    many = [(case, h, count) for case in cases for h, count in (degrees or {}).items()]
    return found + [summary(case, f"degree {h}", 2.0)._replace(maximum=float(count)) for case, h, count in many]


HOT = {"lmit": 0.7, "lmst": 0.6, "ci": 0.45, "settling": 0.3}


def test_experiments_3_and_4_as_published():
    summaries = performance(LEVELS, HOT)
    assert s1_course.judge_uniform(summaries).status is Status.REPRODUCED
    assert s1_course.judge_hotspots(summaries).status is Status.REPRODUCED


def test_a_ci_that_is_worse_than_lmst_is_refuted_and_one_that_is_dear_differs():
    assert s1_course.judge_uniform(performance({**LEVELS, "ci": 0.7}, HOT)).status is Status.REFUTED
    dear = {"lmit": 0.8, "lmst": 0.7, "ci": 0.6, "settling": 0.3}
    assert s1_course.judge_uniform(performance(dear, HOT)).status is Status.DIFFERS
    assert s1_course.judge_hotspots(performance(LEVELS, dear)).status is Status.DIFFERS


def test_experiment_7():
    as_printed = {"lmit": 18, "lmst": 19, "ci": 21, "settling": 50}
    assert s1_course.judge_degrees(performance(LEVELS, HOT, as_printed)).status is Status.REPRODUCED
    assert s1_course.judge_degrees(performance(LEVELS, HOT, {**as_printed, "lmit": 20})).status is Status.DIFFERS
    fewer = {"lmit": 8, "lmst": 10, "ci": 12, "settling": 50}
    assert s1_course.judge_degrees(performance(LEVELS, HOT, fewer)).status is Status.DIFFERS


def changing(spikes, rates, slow_end=None):
    def means(case):
        found = {}
        for h in HEURISTICS:
            for t in (*range(1_000, 75_001, 1_000),):
                level = LEVELS[h] + (spikes[h] if t in {26_000, 51_000} and case["change"] == "abrupt" else 0.0)
                if slow_end and case["change"] == "slow" and t > 55_000:
                    level = slow_end[h]
                found[f"cost {h} {t}"], found[f"exchanges {h} {t}"] = level, rates[h]
        return found

    return summarised(s1_course.ADAPTIVITY, Size.USUAL, means)


SPIKES = {"lmit": 0.01, "lmst": 0.2, "ci": 0.2, "settling": 0.1}
RATES = {"lmit": 42.0, "lmst": 0.0, "ci": 83.0, "settling": 0.5}


def test_experiments_5_6_and_8_as_published():
    summaries = changing(SPIKES, RATES)
    for judge in (s1_course.judge_abrupt, s1_course.judge_slow, s1_course.judge_exchanges):
        assert judge(summaries).status is Status.REPRODUCED


def test_experiments_5_6_and_8_otherwise():
    assert s1_course.judge_abrupt(changing({**SPIKES, "lmit": 0.5}, RATES)).status is Status.DIFFERS
    assert s1_course.judge_slow(changing(SPIKES, RATES, dict.fromkeys(HEURISTICS, 1.2))).status is Status.REFUTED
    assert s1_course.judge_exchanges(changing(SPIKES, {**RATES, "ci": 30.0})).status is Status.DIFFERS
    assert s1_course.judge_exchanges(changing(SPIKES, {**RATES, "lmst": 30.0})).status is Status.REFUTED


def test_runs_without_a_change_leave_it_open():
    short = summarised(s1_course.ADAPTIVITY, Size.QUICK, lambda case: over_time("cost", LEVELS, (1_000, 4_000)))
    assert s1_course.judge_abrupt(short).status is Status.OPEN
    assert s1_course.judge_slow(short).status is Status.OPEN


def radius(best, changes=0.01):
    def means(case):
        told = 0.01 * case["radius"]
        forwarding = 0.5 + 0.05 * abs(case["radius"] - best)
        return {"forwarding": forwarding, "broadcasts": told, "requests and exchanges": changes, "all": forwarding}

    return summarised(s1_tuning.RADIUS, Size.USUAL, means)


def test_experiment_1():
    assert s1_tuning.judge_radius(radius(3)).status is Status.REPRODUCED
    assert s1_tuning.judge_radius(radius(6)).status is Status.DIFFERS
    assert s1_tuning.judge_radius(radius(3, changes=0.2)).status is Status.DIFFERS


def cache(first_equal):
    def means(case):
        return {"all": 0.5, "difference": 0.0 if case["cache"] >= first_equal else 0.1}

    return summarised(s1_tuning.CACHE, Size.USUAL, means)


def test_experiment_2():
    assert s1_tuning.judge_cache(cache(4_608)).status is Status.REPRODUCED
    assert s1_tuning.judge_cache(cache(1_024)).status is Status.DIFFERS
    assert "never equal" in s1_tuning.judge_cache(cache(1_000_000)).measured


def varied(experiment, x, lines):
    """`lines`: what each saves at 0 and at 1."""

    def means(case):
        return {f"saved {h}": a + (b - a) * case[x] for h, (a, b) in lines.items()}

    return summarised(experiment, Size.USUAL, means)


def test_experiment_9():
    lines = {"lmst": (0.6, 0.2), "lmit": (0.4, 0.4), "ci": (0.6, 0.5), "settling": (0.7, 0.7)}
    assert s1_variations.judge_weights(varied(s1_variations.WEIGHTS, "processing", lines)).status is Status.REPRODUCED
    beaten = varied(s1_variations.WEIGHTS, "processing", {**lines, "ci": (0.5, 0.5)})
    assert s1_variations.judge_weights(beaten).status is Status.REFUTED
    assert "α = 0." in s1_variations.judge_weights(beaten).measured
    flat = varied(s1_variations.WEIGHTS, "processing", {**lines, "lmst": (0.4, 0.4)})
    assert s1_variations.judge_weights(flat).status is Status.DIFFERS


def test_experiment_10():
    lines = {"lmst": (0.4, 0.45), "lmit": (0.4, 0.45), "ci": (0.5, 0.55), "settling": (0.7, 0.7)}
    assert s1_variations.judge_locality(varied(s1_variations.LOCALITY, "locality", lines)).status is Status.REPRODUCED
    much = varied(s1_variations.LOCALITY, "locality", {**lines, "lmst": (0.2, 0.5)})
    assert s1_variations.judge_locality(much).status is Status.DIFFERS
    behind = varied(s1_variations.LOCALITY, "locality", {**lines, "ci": (0.3, 0.2)})
    assert s1_variations.judge_locality(behind).status is Status.REFUTED


def still(rates, levels):
    def means(_case):
        ticks = (1_000, 15_000, 30_000)
        return (
            over_time("exchanges", rates, ticks)
            | over_time("cost", levels, ticks)
            | over_time("all costs", levels, ticks)
        )

    return summarised(settling.SETTLES, Size.USUAL, means)


def test_settling_is_judged_by_its_exchanges_and_its_cost():
    assert settling.judge(still(RATES, LEVELS)).status is Status.REPRODUCED
    assert settling.judge(still({**RATES, "settling": 5.0}, LEVELS)).status is Status.REFUTED
    assert settling.judge(still(RATES, {**LEVELS, "settling": 0.6})).status is Status.REFUTED


def test_the_table_of_the_optimum_has_a_line_for_each_tree():
    def means(_case):
        return {f"{what} {name}": 1.0 for name in settling.ROWS for what in ("ratio", "optimal")}

    summaries = summarised(settling.OPTIMUM, Size.USUAL, means)
    assert len(settling.write_table(summaries).splitlines()) == 2 + len(settling.ROWS)
    assert settling.judge_table(summaries).status is Status.DIFFERS


def test_no_tree_of_eight_brokers_is_cheaper_than_the_optimum():
    samples = dict(settling.measure_small({"brokers": 8, "ticks": 3_000}, 3))
    assert all(samples[f"ratio {name}"] >= 1.0 - 1e-9 for name in settling.ROWS)
    assert samples["ratio settling"] <= samples["ratio static"]


@pytest.mark.parametrize(
    ("figure", "summaries"),
    [
        *(
            (figure, performance(LEVELS, HOT, dict.fromkeys(HEURISTICS, 9)))
            for figure in s1_course.PERFORMANCE.figures[1:]
        ),
        (s1_course.ADAPTIVITY.figures[-1], changing(SPIKES, RATES)),
        (s1_tuning.RADIUS.figures[0], radius(3)),
        (settling.SETTLES.figures[0], still(RATES, LEVELS)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_figures_can_be_drawn(figure, summaries, tmp_path):
    assert all(path.stat().st_size > 1_000 for path in look.save(figure, summaries, tmp_path))
