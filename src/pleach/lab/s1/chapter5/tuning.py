"""S1 §5.6.2: how far CI's broadcasts should travel (Experiment 1), and how much a cache should hold (Experiment 2).

Jobs stay where they are, and clients are at hotspots. Costs are those of the last 1,000 ticks, beside what the random
tree costs in the first 1,000.
"""

from __future__ import annotations

from collections.abc import Iterator

from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.improve.course import CI, points, setting_of, sized, total
from pleach.lab.improve.rounds import Spent, Tuning, simulate

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
