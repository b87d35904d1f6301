"""S1 §5.6.5: what if processing costs more than links, or less (Experiment 9); what if subscribers are near their
publishers (Experiment 10). Improvements are of the last 1,000 ticks, against the random tree in the same ticks.
"""

from __future__ import annotations

from collections.abc import Iterator

from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.improve.course import HEURISTICS, points, setting_of, sized
from pleach.lab.improve.rounds import STATIC, Tuning, simulate
from pleach.lab.improve.setting import Setting

COSTS_TOGETHER = 20.0  # Γ
SHARES = {Size.QUICK: (0.0, 1.0), Size.USUAL: (0.0, 0.5, 1.0), Size.FULL: (0.0, 0.25, 0.5, 0.75, 1.0)}
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
