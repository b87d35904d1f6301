"""Radius, interval and cache that tune themselves (open in S1 §5.8), beside those that S1 found for one setting.

Costs are those of whole runs, with broadcasts, requests and exchanges. Both meet the same traffic and begin with the
same tree, so that their difference has an interval of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pleach.lab.experiment import Case, Experiment, Finding, Sample, Size, Status, Summary, Table, select
from pleach.lab.improve.course import SETTLING, TICKS, setting_of, total
from pleach.lab.improve.policies import SELF_TUNING
from pleach.lab.improve.rounds import STATIC, Run, Tuning, simulate
from pleach.lab.improve.setting import TICKS_PER_SLOT, Setting

PAIR = (SETTLING, SELF_TUNING)
AT_REST = 1.0  # exchanges per 1,000 ticks and 100 brokers
PER_TICKS, PER_BROKERS = 1_000, 100
DIFFERENCE, ALL, TALK, LATE, TOLD = "difference", "all", "talk", "late exchanges", "told"

RATES = (0.2, 1.0, 5.0)  # how many times as many events as in Table 5.1
MOVES = (0.0, 2_500.0)
SIZES = {Size.QUICK: (20,), Size.USUAL: (30, 100), Size.FULL: (30, 100)}


def cases(size: Size) -> list[Case]:
    return [
        {"brokers": brokers, "rate": rate, "reassignment": moves, "ticks": TICKS[size]}
        for brokers in SIZES[size]
        for moves in MOVES
        for rate in RATES
    ]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    setting = setting_of(
        case,
        publication_interval=Setting.publication_interval / float(case["rate"]),
        reassignment_interval=float(case["reassignment"]),
    )
    random_tree = _spent(simulate(setting, seed, Tuning(STATIC)))
    shares = {}
    for heuristic in PAIR:
        run = simulate(setting, seed, Tuning(heuristic))
        shares[heuristic] = _spent(run) / random_tree
        forwarding = sum(slot.forwarding for slot in run.slots)
        yield Sample(f"{ALL} {heuristic}", shares[heuristic])
        yield Sample(f"{TALK} {heuristic}", shares[heuristic] - forwarding / random_tree)
        yield Sample(f"{LATE} {heuristic}", _late_exchanges(run, setting))
        yield Sample(f"{TOLD} {heuristic}", sum(slot.told for slot in run.slots))
    yield Sample(DIFFERENCE, shares[SELF_TUNING] - shares[SETTLING])


def _spent(run: Run) -> float:
    return sum(map(total, run.slots))


def _late_exchanges(run: Run, setting: Setting) -> float:
    """In the second half of the run, per 1,000 ticks and 100 brokers."""
    late = run.slots[len(run.slots) // 2 :]
    exchanges = sum(slot.exchanges for slot in late)
    return exchanges * PER_TICKS / (len(late) * TICKS_PER_SLOT) * PER_BROKERS / setting.brokers


# The table --------------------------------------------------------------------------------------------------------


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


class Row(NamedTuple):
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


def rows_of(summaries: Sequence[Summary]) -> list[Row]:
    found = []
    for difference in select(summaries, DIFFERENCE):
        means = [_means(summaries, metric, difference.case) for metric in (ALL, TALK, LATE, TOLD)]
        found.append(Row(difference.case, difference, *means))
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
    if worse or restless:
        return Finding(Status.REFUTED, measured)
    return Finding(Status.REPRODUCED if better else Status.OPEN, measured)


SELF_TUNED = Experiment(
    name="self-tuning",
    about="radius, interval and cache that tune themselves, beside those of S1: open in S1 §5.8",
    cases=cases,
    seeds={Size.QUICK: 2, Size.USUAL: 4, Size.FULL: 20},
    measure=measure,
    cost=lambda case: float(case["brokers"]),
    figures=(),
    tables=(
        Table(
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
