"""Findings: a measured figure compared with the paper, by named conditions.

    reproduced, met       all of them hold
    differs               one does not hold, and the paper's claim does not stand on it
    refuted, not met      one does not hold on which the claim, or our goal, stands
    open                  none of the same weight fails, and one cannot be told

A negative finding must name the conditions that fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pleach.errors import ExperimentError


class Status(StrEnum):
    REPRODUCED = "reproduced"
    DIFFERS = "differs"
    REFUTED = "refuted"
    MET = "met"  # a goal of ours, where the paper leaves something open
    NOT_MET = "not met"
    OPEN = "open"


BEFORE_NAMES = {
    Status.DIFFERS: "Differs in",
    Status.REFUTED: "Not so",
    Status.NOT_MET: "Not met",
    Status.OPEN: "Cannot be told",
}
NEGATIVE = frozenset({Status.DIFFERS, Status.REFUTED, Status.NOT_MET})


class Condition(NamedTuple):
    """A claim of the paper, or a goal of ours."""

    name: str  # as a reader should see it after "Differs in:"
    holds: bool | None  # None: the measurements do not decide


@dataclass(frozen=True)
class Finding:
    status: Status
    said: str  # one or two sentences with the figures in them, and why they differ where they do
    names: tuple[str, ...] = ()  # of the conditions that fail, or cannot be told

    def __post_init__(self) -> None:
        if self.status in NEGATIVE and not self.names:
            raise ExperimentError(f"a finding that is {self.status!r} has to name the condition that fails")

    @property
    def measured(self) -> str:
        return f"{self.said} {BEFORE_NAMES[self.status]}: {'; '.join(self.names)}." if self.names else self.said


def judged(said: str, *, core: Sequence[Condition] = (), besides: Sequence[Condition] = ()) -> Finding:
    """`core`: conditions of the paper's claim. `besides`: its other statements on the figure."""
    return (
        _failing(Status.REFUTED, said, core)
        or _untold(said, core)
        or _failing(Status.DIFFERS, said, besides)
        or _untold(said, besides)
        or Finding(Status.REPRODUCED, said)
    )


def aimed(said: str, *wanted: Condition) -> Finding:
    """Of a goal of ours."""
    return _failing(Status.NOT_MET, said, wanted) or _untold(said, wanted) or Finding(Status.MET, said)


def _failing(status: Status, said: str, conditions: Sequence[Condition]) -> Finding | None:
    names = tuple(condition.name for condition in conditions if condition.holds is False)
    return Finding(status, said, names) if names else None


def _untold(said: str, conditions: Sequence[Condition]) -> Finding | None:
    names = tuple(dict.fromkeys(condition.name for condition in conditions if condition.holds is None))
    return Finding(Status.OPEN, said, names) if names else None
