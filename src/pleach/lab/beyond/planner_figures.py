"""The planner's figure and table, from what `planner.py` measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pleach.lab.beyond.planner import LIMITED, PLANNED, ROWS, cases, measure
from pleach.lab.experiment import Experiment, Figure, ResultTable, Size, Summary, select
from pleach.lab.figure_style import curve
from pleach.lab.findings import Condition, Finding, aimed
from pleach.lab.improve.contenders import MIT, MST
from pleach.lab.improve.course import NAMES, over_time
from pleach.spark.planner.options import DEGREE_MAX

TITLES = {
    **NAMES,
    MST: "MST (global)",
    MIT: "MIT (global)",
    LIMITED: f"planner, at most {DEGREE_MAX} neighbours",
    PLANNED: "planner",
}


def draw(axes: Any, summaries: Sequence[Summary]) -> None:
    bars, starts = axes
    points = [_of(summaries, f"beside the bound {name}") for name in ROWS]
    spread = [[p.mean - p.low for p in points], [p.high - p.mean for p in points]]
    bars.barh([TITLES[name] for name in ROWS], [p.mean for p in points], xerr=spread, ecolor="#444444")
    bars.invert_yaxis()
    bars.axvline(1.0, color="#444444", linewidth=0.8, marker="", linestyle="-")
    bars.grid(visible=False, axis="y")
    bars.set_xlabel("own tree for each event = 1")
    for name in (LIMITED, PLANNED):
        curve(starts, over_time(summaries, f"so far {name}", axis="starts made"), "starts made", TITLES[name])
    starts.set_xlabel("starts of the search")
    starts.set_ylim(bottom=1.0)
    starts.legend()


def write_table(summaries: Sequence[Summary]) -> str:
    lines = [
        "| tree | cost, own tree for each event = 1 | worst seed | random tree = 100% | most neighbours |",
        "|---|---|---|---|---|",
    ]
    for name in ROWS:
        bound, share = (_of(summaries, f"beside the {what} {name}") for what in ("bound", "random tree"))
        most = _of(summaries, f"neighbours {name}").maximum
        lines.append(f"| {TITLES[name]} | {bound.mean:.3f} | {bound.maximum:.3f} | {share.mean:.1%} | {most:.0f} |")
    return "\n".join(lines)


def judge(summaries: Sequence[Summary]) -> Finding:
    bound = _of(summaries, f"beside the bound {PLANNED}")
    measured = (
        f"{_against_the_best(summaries, PLANNED)}. It costs {bound.mean:.2f} times the bound ({bound.minimum:.2f} to"
        f" {bound.maximum:.2f}). With at most {DEGREE_MAX} neighbours {_against_the_best(summaries, LIMITED, 'it is')}"
    )
    is_never_dearer = _of(summaries, f"at most the best {PLANNED}").minimum == 1.0
    return aimed(f"{measured}.", Condition("at most as dear as the best heuristic's on every seed", is_never_dearer))


def _against_the_best(summaries: Sequence[Summary], name: str, begin: str = "The planner's tree is") -> str:
    hits, ratio = _of(summaries, f"at most the best {name}"), _of(summaries, f"beside the best {name}")
    return (
        f"{begin} at most as dear as the best of all others on {hits.mean * hits.seeds:.0f} of {hits.seeds} seeds:"
        f" {ratio.mean:.1%} of its cost on average, {ratio.maximum:.1%} at most"
    )


def _of(summaries: Sequence[Summary], metric: str) -> Summary:
    (found,) = select(summaries, metric)
    return found


PUBLISHED = (
    "S1 compares with the cost of every event on a minimum spanning tree of its own, and leaves open how near one tree"
    " can come. Wanted of a planner that knows all traffic: on every seed a tree at most as dear as the best"
    " heuristic's."
)
PLANNER = Experiment(
    name="planner",
    about="the planner's tree beside the heuristics' and the lower bound, on every seed: S1 §5.6",
    cases=cases,
    seeds={Size.QUICK: 2, Size.USUAL: 10, Size.FULL: 50},
    measure=measure,
    figures=(Figure("s1-planner", "S1 §5.6", "A planner beside heuristics", PUBLISHED, draw, judge, panels=2),),
    tables=(
        ResultTable("s1-planner-table", "S1 §5.6", "A planner beside heuristics: costs", PUBLISHED, write_table, judge),
    ),
)
