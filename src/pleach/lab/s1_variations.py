"""S1 §5.6.5: what if processing costs more than links, or less (Experiment 9); what if subscribers are near their
publishers (Experiment 10). Improvements are of the last 1,000 ticks, against the random tree in the same ticks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from pleach.lab.experiment import Case, Experiment, Figure, Finding, Sample, Size, Status, Summary, select
from pleach.lab.improve.course import (
    CI,
    HEURISTICS,
    LMIT,
    LMST,
    NAMES,
    PUBLISHED_ONES,
    SEEDS,
    points,
    setting_of,
    sized,
)
from pleach.lab.improve.rounds import STATIC, Tuning, simulate
from pleach.lab.improve.setting import Setting
from pleach.lab.look import curve
from pleach.lab.scales import percent
from pleach.lab.trends import are_told_apart, ordered, trend

COSTS_TOGETHER = 20.0  # Γ
SHARES = {Size.QUICK: (0.0, 1.0), Size.USUAL: (0.0, 0.5, 1.0), Size.FULL: (0.0, 0.25, 0.5, 0.75, 1.0)}
LITTLE = 0.10  # "only little performance increase"
SAVED = "saved"


def weight_cases(size: Size) -> list[Case]:
    return [{"processing": share, **sized(size)} for share in SHARES[size]]


def measure_weights(case: Case, seed: int) -> Iterator[Sample]:
    alpha = float(case["processing"])
    costs = {"processing_max": alpha * COSTS_TOGETHER, "communication_max": (1.0 - alpha) * COSTS_TOGETHER}
    return _saved(setting_of(case, **costs), seed)


def locality_cases(size: Size) -> list[Case]:
    return [{"locality": share, **sized(size)} for share in SHARES[size]]


def measure_locality(case: Case, seed: int) -> Iterator[Sample]:
    return _saved(setting_of(case, locality=float(case["locality"])), seed)


def _saved(setting: Setting, seed: int) -> Iterator[Sample]:
    still = points(simulate(setting, seed, Tuning(STATIC)))[-1]
    for heuristic in HEURISTICS:
        last = points(simulate(setting, seed, Tuning(heuristic)))[-1]
        yield Sample(f"{SAVED} {heuristic}", 1.0 - last.forwarding / still.forwarding)


# Figures --------------------------------------------------------------------------------------------------------


def curves(summaries: Sequence[Summary], x: str) -> dict[str, list[Summary]]:
    return {each: ordered(select(summaries, f"{SAVED} {each}"), x) for each in HEURISTICS}


def _draw(axes: Any, summaries: Sequence[Summary], x: str) -> None:
    for heuristic, found in curves(summaries, x).items():
        curve(axes, found, x, NAMES[heuristic])
    axes.set_ylabel("saved of the random tree's cost")
    axes.yaxis.set_major_formatter(percent)
    axes.legend()


def draw_weights(axes: Any, summaries: Sequence[Summary]) -> None:
    _draw(axes, summaries, "processing")
    axes.set_xlabel("α: share of processing in the highest costs")


def draw_locality(axes: Any, summaries: Sequence[Summary]) -> None:
    _draw(axes, summaries, "locality")
    axes.set_xlabel("locality")


def _from_to(found: dict[str, list[Summary]]) -> str:
    return ", ".join(f"{NAMES[each]} {line[0].mean:.0%} to {line[-1].mean:.0%}" for each, line in found.items())


def judge_weights(summaries: Sequence[Summary]) -> Finding:
    found = curves(summaries, "processing")
    beaten = [
        float(ci.case["processing"])
        for place, ci in enumerate(found[CI])
        for other in (LMST, LMIT)
        if found[other][place].mean > ci.mean and are_told_apart(found[other][place], ci)
    ]
    where = f" CI is beaten at α = {', '.join(f'{alpha:g}' for alpha in sorted(set(beaten)))}." if beaten else ""
    measured = f"Saved, from α = 0 to 1: {_from_to(found)}.{where}"
    falls = found[LMST][-1].mean < found[LMST][0].mean
    crosses = found[LMIT][-1].mean > found[LMST][-1].mean
    if beaten:
        return Finding(Status.REFUTED, measured)
    return Finding(Status.REPRODUCED if falls and crosses else Status.DIFFERS, measured)


def judge_locality(summaries: Sequence[Summary]) -> Finding:
    found = curves(summaries, "locality")
    average = {each: fmean(point.mean for point in line) for each, line in found.items()}
    measured = f"Saved, from locality 0 to 1: {_from_to(found)}."
    little = all(0 < found[each][-1].mean - found[each][0].mean <= LITTLE for each in PUBLISHED_ONES)
    ahead = average[CI] > max(average[LMST], average[LMIT])
    rising = all(trend(line, "locality").rises for line in found.values())
    if little and ahead:
        return Finding(Status.REPRODUCED, measured)
    return Finding(Status.DIFFERS if ahead or rising else Status.REFUTED, measured)


WEIGHTS = Experiment(
    name="s1-weights",
    about="heuristics by what processing costs beside communication: S1 Experiment 9",
    cases=weight_cases,
    seeds=SEEDS,
    measure=measure_weights,
    figures=(
        Figure(
            "s1-fig5-15",
            "S1 Fig. 5.15",
            "Experiment 9: processing against communication",
            "ℓMST saves less the more processing costs; ℓMIT saves the same throughout, at the end more than ℓMST; CI"
            " is as good as the best or better everywhere.",
            draw_weights,
            judge_weights,
        ),
    ),
)

LOCALITY = Experiment(
    name="s1-locality",
    about="heuristics by how near subscribers are to their publishers: S1 Experiment 10",
    cases=locality_cases,
    seeds=SEEDS,
    measure=measure_locality,
    figures=(
        Figure(
            "s1-fig5-16",
            "S1 Fig. 5.16",
            "Experiment 10: subscribers near their publishers",
            "All gain a little from locality; ℓMST and ℓMIT are about the same, CI about 10% better.",
            draw_locality,
            judge_locality,
        ),
    ),
)
