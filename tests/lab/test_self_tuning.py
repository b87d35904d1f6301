"""The table of what tunes itself: judged by its costs and by its rest."""

from pleach.lab.beyond import self_tuning, self_tuning_table
from pleach.lab.experiment import Size
from pleach.lab.findings import Status
from support.lab.made_up_summaries import summarised

GOOD = {"all": (0.5, 0.4), "talk": (0.1, 0.02), "late exchanges": (0.0, 0.1), "told": (9_000.0, 2_000.0)}


def measured(difference=-0.1, **changes):
    pairs = {**GOOD, **{metric.replace("_", " "): pair for metric, pair in changes.items()}}

    def means(_case):
        both = {f"{m} {h}": v for m, pair in pairs.items() for h, v in zip(self_tuning.PAIR, pair, strict=True)}
        return both | {"difference": difference}

    return summarised(self_tuning_table.SELF_TUNED, Size.USUAL, means)


def status(summaries):
    return self_tuning_table.judge_table(summaries).status


def test_it_has_to_be_better_somewhere_worse_nowhere_and_at_rest():
    assert status(measured()) is Status.MET
    assert status(measured(difference=0.1)) is Status.NOT_MET
    assert status(measured(late_exchanges=(0.0, 2.0))) is Status.NOT_MET


def test_what_seeds_cannot_tell_apart_is_left_open():
    unsure = [s._replace(low=-0.01, high=0.02) if s.metric == "difference" else s for s in measured()]
    assert status(unsure) is Status.OPEN


def test_exchanges_are_allowed_where_jobs_move():
    summaries = measured(late_exchanges=(0.0, 2.0))
    moving = [s for s in summaries if s.case["reassignment"]]
    assert status(moving) is Status.MET


def test_the_table_has_a_line_for_each_setting():
    lines = self_tuning_table.write_table(measured()).splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert len(rows) == len(self_tuning_table.SELF_TUNED.cases(Size.USUAL))
    assert all(row.count("|") == lines[0].count("|") for row in rows)
    assert "| 100 | stay | × 0.2 | 50.0% | 40.0% | -10.0" in "\n".join(rows)
