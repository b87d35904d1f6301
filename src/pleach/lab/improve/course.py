"""Time courses of runs as in S1 §5.6: costs per 1,000 ticks, relative to the random tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

from pleach.lab.experiment import Case, Sample, Size, Summary, select
from pleach.lab.figure_style import curve, percent
from pleach.lab.improve.rounds import STATIC, Run, Spent, Tuning, simulate
from pleach.lab.improve.setting import TICKS_PER_SLOT, Setting
from pleach.lab.improve.traffic import traffic_of
from pleach.lab.improve.trees import spanning_tree
from pleach.lab.waxman import TABLE_A1, Waxman

LMIT, LMST, CI, SETTLING = "lmit", "lmst", "ci", "settling"
PUBLISHED_ONES = (LMIT, LMST, CI)
HEURISTICS = (*PUBLISHED_ONES, SETTLING)
BOUND = "bound"
NAMES = {
    STATIC: "random tree",
    LMIT: "ℓMIT",
    LMST: "ℓMST",
    CI: "CI",
    SETTLING: "CI that settles (ours)",
    BOUND: "own tree for each event",
}
TICKS_PER_POINT = 1_000
SLOTS_PER_POINT = TICKS_PER_POINT // TICKS_PER_SLOT

BROKERS = {Size.QUICK: 20, Size.USUAL: 100, Size.FULL: 100}
TICKS = {Size.QUICK: 4_000, Size.USUAL: 30_000, Size.FULL: 30_000}
SMALL_NETWORK = Waxman(domains=6, nodes_per_domain=20)
SEEDS = {Size.QUICK: 2, Size.USUAL: 5, Size.FULL: 50}


def sized(size: Size) -> dict[str, int]:
    """The parameters of all cases of a size."""
    return {"brokers": BROKERS[size], "ticks": TICKS[size]}


def setting_of(case: Case, **changes: Any) -> Setting:
    """The setting of Table 5.1, or a smaller one."""
    brokers = int(case["brokers"])
    network = TABLE_A1 if brokers >= BROKERS[Size.FULL] else SMALL_NETWORK
    jobs, subscribers = max(1, brokers // 2), min(9, brokers // 4)
    return Setting(brokers, jobs, subscribers, ticks=int(case["ticks"]), network=network, **changes)


def points(run: Run) -> list[Spent]:
    """Costs of each 1,000 ticks."""
    starts = range(0, len(run.slots), SLOTS_PER_POINT)
    return [reduce(Spent.plus, run.slots[start : start + SLOTS_PER_POINT]) for start in starts]


def total(spent: Spent) -> float:
    return spent.forwarding + spent.broadcasts + spent.requests + spent.exchanging


def course(setting: Setting, seed: int, heuristics: Iterable[str] = HEURISTICS) -> Iterator[Sample]:
    """Per heuristic and point in time: its costs relative to the random tree, and its exchanges."""
    still = points(simulate(setting, seed, Tuning(STATIC)))
    for heuristic in heuristics:
        run = simulate(setting, seed, Tuning(heuristic))
        for number, (spent, before) in enumerate(zip(points(run), still, strict=True)):
            ticks = (number + 1) * TICKS_PER_POINT
            yield Sample(f"cost {heuristic} {ticks}", spent.forwarding / before.forwarding)
            yield Sample(f"all costs {heuristic} {ticks}", total(spent) / before.forwarding)
            yield Sample(f"exchanges {heuristic} {ticks}", spent.exchanges)
        for degree in (len(around) for around in run.tree.around):
            yield Sample(f"degree {heuristic}", degree)


def bound_at_the_end(setting: Setting, seed: int) -> float:
    """§5.6: the cost of every event on its own tree in the last 1,000 ticks, relative to the random tree."""
    traffic = traffic_of(setting, seed)
    flows = traffic.between(setting.slots - SLOTS_PER_POINT, setting.slots)
    processing, communication = traffic.era(setting.slots - 1).costs
    alone = [
        processing[members].sum() + sum(communication[a, b] for a, b in spanning_tree(communication, members))
        for members in flows.members.tolist()
    ]
    still = points(simulate(setting, seed, Tuning(STATIC)))[-1]
    return float(flows.events @ alone) / still.forwarding


# Results --------------------------------------------------------------------------------------------------------


def over_time(summaries: Sequence[Summary], metric: str, *, axis: str = "ticks passed", **wanted: str) -> list[Summary]:
    """The points of a curve over time, or over another number at the end of the metric's name."""
    found = []
    for each in summaries:
        name, _, count = each.metric.rpartition(" ")
        if name == metric and select([each], each.metric, **wanted):
            found.append(each._replace(case={**each.case, axis: int(count)}))
    return sorted(found, key=lambda point: int(point.case[axis]))


def at_the_end(summaries: Sequence[Summary], metric: str, **wanted: str) -> Summary:
    return over_time(summaries, metric, **wanted)[-1]


def draw_over_time(axes: Any, summaries: Sequence[Summary], what: str, **wanted: str) -> None:
    for heuristic in HEURISTICS:
        curve(axes, over_time(summaries, f"{what} {heuristic}", **wanted), "ticks passed", NAMES[heuristic])
    axes.set_xlabel("ticks")
    axes.set_ylim(bottom=0)


def draw_shares(axes: Any, summaries: Sequence[Summary], **wanted: str) -> None:
    draw_over_time(axes, summaries, "cost", **wanted)
    axes.axhline(1.0, color="#444444", linewidth=0.8, marker="", linestyle="-")
    axes.yaxis.set_major_formatter(percent)
    axes.set_ylabel("cost of the random tree = 100%")
