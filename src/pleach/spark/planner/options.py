"""What is asked of the planner. Apart from the job, so that whoever asks need not load Spark to know the defaults."""

from __future__ import annotations

from dataclasses import dataclass

DEGREE_MAX = 8
STARTS = 16
STARTS_MAX = 10_000
EXCHANGES_MAX = 10_000


@dataclass(frozen=True)
class PlannerOptions:
    degree_max: int = DEGREE_MAX  # neighbours of a broker
    starts: int = STARTS
    seed: int = 1
    exchanges_max: int = EXCHANGES_MAX
