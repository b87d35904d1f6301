"""S1 §5.6.3, §5.6.4: how heuristics bring the costs of a tree down (Experiments 3, 4, 7), follow changes (5, 6), and
whether they come to rest (8). All meet the same networks, jobs and events, and start from the same random tree.
"""

from __future__ import annotations

from collections.abc import Iterator

from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.improve.course import BOUND, bound_at_the_end, course, setting_of, sized
from pleach.lab.improve.setting import Change

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
