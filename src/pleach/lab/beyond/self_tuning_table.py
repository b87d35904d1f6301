"""The table of what tunes itself, from what `self_tuning.py` measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pleach.lab.beyond.self_tuning import ALL, DIFFERENCE, LATE, PAIR, TALK, TOLD, cases, measure
from pleach.lab.experiment import Case, Experiment, ResultTable, Size, Summary, select
from pleach.lab.findings import Condition, Finding, aimed
from pleach.lab.trends import as_told

AT_REST = 1.0  # exchanges per 1,000 ticks and 100 brokers
TITLES = (
    "brokers",
    "jobs",
    "rate",
    "all costs, by hand",
    "self-tuned",
    "difference",
    "talk",
    "late exchanges",
    "MB of filters",
)
LEGEND = (
    "All costs of a run, those of the random tree are 100%; differences in points, with 95% confidence intervals; talk:"
    " broadcasts, requests and exchanges; late exchanges: in the second half, per 1,000 ticks and 100 brokers; of two"
    " figures the first is by hand."
)


class TuningRow(NamedTuple):
    """What was measured in one case."""

    case: Case
    difference: Summary
    all: tuple[float, float]  # of settling, of self-tuning; so are the others
    talk: tuple[float, float]
    late: tuple[float, float]
    told: tuple[float, float]

    @property
    def is_worse(self) -> bool:
        """Beyond chance, as far as seeds can tell."""
        return self.difference.low > 0

    @property
    def is_better(self) -> bool:
        return self.difference.high < 0

    @property
    def is_restless(self) -> bool:
        return not self.case["reassignment"] and self.late[1] > AT_REST


def rows_of(summaries: Sequence[Summary]) -> list[TuningRow]:
    found = []
    for difference in select(summaries, DIFFERENCE):
        means = [_means(summaries, metric, difference.case) for metric in (ALL, TALK, LATE, TOLD)]
        found.append(TuningRow(difference.case, difference, *means))
    return sorted(found, key=lambda row: [float(row.case[key]) for key in ("brokers", "reassignment", "rate")])


def _means(summaries: Sequence[Summary], metric: str, case: Case) -> tuple[float, float]:
    (settling,), (ours,) = (select(summaries, f"{metric} {each}", **case) for each in PAIR)
    return settling.mean, ours.mean


def write_table(summaries: Sequence[Summary]) -> str:
    lines = [f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|"]
    for row in rows_of(summaries):
        jobs = "move" if row.case["reassignment"] else "stay"
        low, high = row.difference.low, row.difference.high
        lines.append(
            f"| {row.case['brokers']} | {jobs} | × {row.case['rate']:g} | {row.all[0]:.1%} | {row.all[1]:.1%}"
            f" | {100 * row.difference.mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
            f" | {row.talk[0]:.1%}, {row.talk[1]:.1%} | {row.late[0]:.1f}, {row.late[1]:.1f}"
            f" | {row.told[0] / 1_000:.0f}, {row.told[1] / 1_000:.0f} |"
        )
    return "\n".join([*lines, "", LEGEND])


def judge_table(summaries: Sequence[Summary]) -> Finding:
    rows = rows_of(summaries)
    differences = [row.difference.mean for row in rows]
    better, worse = sum(row.is_better for row in rows), sum(row.is_worse for row in rows)
    restless = sum(row.is_restless for row in rows)
    measured = (
        f"Self-tuned, all costs differ by {100 * min(differences):+.1f} to {100 * max(differences):+.1f} points of the"
        f" random tree's; of {len(rows)} settings {better} are better and {worse} worse beyond chance. With jobs that"
        f" stay, {restless} have more than one late exchange per 1,000 ticks and 100 brokers."
    )
    told = [row.difference for row in rows]
    return aimed(
        measured,
        as_told("no setting is dearer", not worse, *told),
        as_told("some setting is cheaper", bool(better) or None, *told),
        Condition("rest while jobs stay", not restless),
    )


SELF_TUNED = Experiment(
    name="self-tuning",
    about="radius, interval and cache that tune themselves, beside those of S1: open in S1 §5.8",
    cases=cases,
    seeds={Size.QUICK: 2, Size.USUAL: 4, Size.FULL: 20},
    measure=measure,
    cost=lambda case: float(case["brokers"]),
    figures=(),
    tables=(
        ResultTable(
            "s1-self-tuning",
            "S1 §5.8",
            "Parameters that tune themselves",
            "Open in S1: 3 hops and 4,608 events were found for one setting, and are not optimal in general. Wanted:"
            " no higher cost in any setting, lower where they are wrong, and rest when nothing changes.",
            write_table,
            judge_table,
        ),
    ),
)
