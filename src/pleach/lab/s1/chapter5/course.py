"""S1 §5.6: the radius of CI's broadcasts and the size of its cache (Experiments 1, 2), how heuristics reduce the cost
of a tree (3, 4, 7), adapt to changes (5, 6), and whether they settle (8), other weights of processing against links
(9), and subscribers near their publishers (10).

All have the same networks, jobs and events, and start from the same random tree. Final costs are of the last 1,000
ticks, against those of the random tree: in the first 1,000 ticks (1, 2), or in the same ones (9, 10).
"""

from __future__ import annotations

from collections.abc import Iterator

from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.improve.course import BOUND, CI, HEURISTICS, bound_at_the_end, course, points, setting_of, sized, total
from pleach.lab.improve.rounds import STATIC, Spent, Tuning, simulate
from pleach.lab.improve.setting import Change, Setting

UNIFORM, HOTSPOTS = "uniform", "hotspots"
LOAD_MIN = {UNIFORM: 1.0, HOTSPOTS: 0.1}
CHANGING_TICKS = {Size.QUICK: 4_000, Size.USUAL: 75_000, Size.FULL: 75_000}


def cases(size: Size) -> list[Case]:
    return [{"placement": placement, **sized(size)} for placement in (UNIFORM, HOTSPOTS)]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    setting = setting_of(case, load_min=LOAD_MIN[str(case["placement"])])
    yield from course(setting, seed)
    yield Sample(BOUND, bound_at_the_end(setting, seed))


def changing_cases(size: Size) -> list[Case]:
    changes = (Change.ABRUPT, Change.SLOW)
    return [{**sized(size), "change": change.value, "ticks": CHANGING_TICKS[size]} for change in changes]


def measure_changing(case: Case, seed: int) -> Iterator[Sample]:
    return course(setting_of(case, change=Change(str(case["change"]))), seed)


# Experiments 9 and 10 -------------------------------------------------------------------------------------------------


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


# Experiments 1 and 2: jobs stay where they are, and clients are at hotspots -------------------------------------------

RADII = {Size.QUICK: (2, 3), Size.USUAL: (2, 3, 4, 6, 8, 12), Size.FULL: (2, 3, 4, 5, 6, 8, 10, 12)}
AMPLE_CACHE = 8_192  # Experiment 1
CACHE_STEP = 256
CACHES = {
    Size.QUICK: (1, 4),
    Size.USUAL: (1, 2, 4, 8, 12, 18, 26, 35),
    Size.FULL: (1, 2, 4, 6, 8, 12, 16, 17, 18, 20, 26, 35),
}
FORWARDING, BROADCASTS, CHANGES, ALL = "forwarding", "broadcasts", "requests and exchanges", "all"
DIFFERENCE = "difference"


def _ends(case: Case, seed: int, tuning: Tuning) -> tuple[Spent, Spent]:
    first, *_, last = points(simulate(setting_of(case, reassignment_interval=0.0), seed, tuning))
    return first, last


def radius_cases(size: Size) -> list[Case]:
    return [{"radius": radius, **sized(size)} for radius in RADII[size]]


def measure_radius(case: Case, seed: int) -> Iterator[Sample]:
    tuning = Tuning(CI, radius=int(case["radius"]), cache_size=AMPLE_CACHE)
    first, last = _ends(case, seed, tuning)
    yield Sample(FORWARDING, last.forwarding / first.forwarding)
    yield Sample(BROADCASTS, last.broadcasts / first.forwarding)
    yield Sample(CHANGES, (last.requests + last.exchanging) / first.forwarding)
    yield Sample(ALL, total(last) / first.forwarding)


def cache_cases(size: Size) -> list[Case]:
    return [{"cache": CACHE_STEP * x, **sized(size)} for x in CACHES[size]]


def measure_cache(case: Case, seed: int) -> Iterator[Sample]:
    sizes = (int(case["cache"]), int(case["cache"]) + CACHE_STEP)
    (first, small), (_, larger) = (_ends(case, seed, Tuning(CI, cache_size=size)) for size in sizes)
    yield Sample(ALL, total(small) / first.forwarding)
    yield Sample(DIFFERENCE, abs(total(larger) - total(small)) / first.forwarding)
