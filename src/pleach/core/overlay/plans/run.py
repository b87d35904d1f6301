"""Execution of a plan: which steps may start now, and what came of each. A pure machine; a driver asks the brokers.

    WAITING ──started──▶ RUNNING ──done──▶ DONE
                            ├──refused──▶ REFUSED
                            └──unanswered──▶ UNKNOWN ──a late answer──▶ DONE or REFUSED

Rule 1: a step starts only when all steps that it depends on are done. Steps that share a broker depend on each other,
        so no two of them ever run at the same time.
Rule 2: after a step that is refused or unknown, the steps that depend on it are not started; all others are.
Rule 3: a refused step is final. Brokers retry by themselves while another broker is busy (core/overlay/retries.py).

The driver starts every operation in `startable()`, reports `started` and each answer, and ends when the run `is_over`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from pleach.core.messages import Node
from pleach.core.overlay.plans.outcome import PlanOutcome, PlanPhase, Unfinished
from pleach.core.overlay.plans.plan import Plan
from pleach.core.overlay.plans.steps import Step, apply
from pleach.errors import PlanError, PlanRunError

NAME_CHARACTERS_MAX = 32  # every message of every operation carries the name


class StepAnswer(StrEnum):
    STARTED = "started"
    DONE = "done"
    REFUSED = "refused"
    UNANSWERED = "unanswered"


TRANSITIONS = {
    (PlanPhase.WAITING, StepAnswer.STARTED): PlanPhase.RUNNING,
    (PlanPhase.RUNNING, StepAnswer.DONE): PlanPhase.DONE,
    (PlanPhase.RUNNING, StepAnswer.REFUSED): PlanPhase.REFUSED,
    (PlanPhase.RUNNING, StepAnswer.UNANSWERED): PlanPhase.UNKNOWN,
    (PlanPhase.UNKNOWN, StepAnswer.DONE): PlanPhase.DONE,
    (PlanPhase.UNKNOWN, StepAnswer.REFUSED): PlanPhase.REFUSED,
}


class PlannedOperation(NamedTuple):
    """A step that may start, under the name that its messages carry."""

    name: str
    step: Step
    brokers: tuple[Node, ...]


class PlanRun:
    def __init__(self, plan: Plan, name: str) -> None:
        if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or " " in name:
            wanted = f"1 to {NAME_CHARACTERS_MAX} printable characters without blanks"
            raise PlanError(f"{name[:40]!r} is no name for a run of a plan; {wanted}")
        self.plan = plan
        self.name = name
        self._phases = [PlanPhase.WAITING] * len(plan.steps)
        self._reasons = [""] * len(plan.steps)
        self._index = {self.operation(index): index for index in range(len(plan.steps))}

    def operation(self, index: int) -> str:
        return f"{self.name}.{index + 1}"

    # Steps that may start --------------------------------------------------------------------------------------

    def startable(self) -> list[PlannedOperation]:
        """The steps that may start now, all at once."""
        return [
            PlannedOperation(self.operation(index), self.plan.steps[index], self.plan.touched[index])
            for index in self._free()
        ]

    @property
    def is_over(self) -> bool:
        """No step runs, and none can start any more."""
        return PlanPhase.RUNNING not in self._phases and next(self._free(), None) is None

    def _free(self) -> Iterator[int]:
        for index, phase in enumerate(self._phases):
            if phase is PlanPhase.WAITING and not self._waits_for(index):
                yield index

    def _waits_for(self, index: int) -> list[int]:
        return [other for other in self.plan.dependencies[index] if self._phases[other] is not PlanPhase.DONE]

    # Answers ---------------------------------------------------------------------------------------------------

    def started(self, operation: str) -> None:
        index = self._known(operation, StepAnswer.STARTED)
        if waits := self._waits_for(index):
            raise PlanRunError(operation, StepAnswer.STARTED, f"it waits for {self._named(waits)}")
        self._tell(operation, StepAnswer.STARTED)

    def done(self, operation: str) -> None:
        self._tell(operation, StepAnswer.DONE)

    def refused(self, operation: str, reason: str) -> None:
        """The step has changed nothing, and will not be tried again."""
        self._tell(operation, StepAnswer.REFUSED, reason)

    def unanswered(self, operation: str, reason: str) -> None:
        """Nobody knows whether the step has happened. A later answer is still accepted."""
        self._tell(operation, StepAnswer.UNANSWERED, reason)

    def _known(self, operation: str, answer: StepAnswer) -> int:
        if operation not in self._index:
            raise PlanRunError(operation, answer, f"operations of this run are {self.name}.1 to .{len(self._index)}")
        return self._index[operation]

    def _tell(self, operation: str, answer: StepAnswer, reason: str = "") -> None:
        index = self._known(operation, answer)
        phase = self._phases[index]
        if (phase, answer) not in TRANSITIONS:
            raise PlanRunError(operation, answer, f"it is {phase}")
        self._phases[index] = TRANSITIONS[phase, answer]
        self._reasons[index] = reason

    # Outcome ---------------------------------------------------------------------------------------------------

    def outcome(self) -> PlanOutcome:
        """The present state of the plan; final once the run is over."""
        reached = self.plan.start
        unfinished = []
        for index, step in enumerate(self.plan.steps):
            if self._phases[index] is PlanPhase.DONE:
                reached = apply(reached, step)  # what it depends on is done, so that it fits here too
            else:
                brokers, phase = self.plan.touched[index], self._phases[index]
                unfinished.append(Unfinished(self.operation(index), step, brokers, phase, self._why(index)))
        return PlanOutcome(self.plan, reached, tuple(unfinished))

    def _why(self, index: int) -> str:
        if self._phases[index] is PlanPhase.WAITING and (waits := self._waits_for(index)):
            return f"waits for {self._named(waits)}"
        return self._reasons[index]

    def _named(self, indexes: list[int]) -> str:
        return ", ".join(map(self.operation, indexes))
