"""What came of a plan: the tree that is there, what is left of the plan, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from pleach.core.messages import Node
from pleach.core.overlay.plans.difference import TreeDifference
from pleach.core.overlay.plans.plan import Plan
from pleach.core.overlay.plans.steps import Step, spelled
from pleach.core.overlay.plans.topology import Topology


class PlanPhase(StrEnum):
    """How a step stands. Unknown: it was started and never answered."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


UNCERTAIN = frozenset({PlanPhase.RUNNING, PlanPhase.UNKNOWN})


@dataclass(frozen=True)
class Unfinished:
    """A step that has not been carried out, as far as is known."""

    operation: str
    step: Step
    brokers: tuple[Node, ...]
    phase: PlanPhase
    reason: str

    def __str__(self) -> str:
        return f"{self.operation} ({spelled(self.step)}) is {self.phase}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class PlanOutcome:
    plan: Plan
    reached: Topology  # where a step is unknown or still runs: the tree without it
    unfinished: tuple[Unfinished, ...]

    @property
    def complete(self) -> bool:
        return not self.unfinished

    @cached_property
    def difference(self) -> TreeDifference:
        """Links and brokers that are not as planned."""
        return TreeDifference.of(planned=self.plan.result, found=self.reached)

    @cached_property
    def brokers_not_as_planned(self) -> tuple[Node, ...]:
        """Brokers whose links are not those of the plan's result, or not known to be."""
        planned, found = self.plan.result.around, self.reached.around
        uncertain = {broker for left in self.unfinished if left.phase in UNCERTAIN for broker in left.brokers}
        return tuple(b for b in sorted({*planned, *found}) if planned.get(b) != found.get(b) or b in uncertain)

    @property
    def brokers_as_planned(self) -> tuple[Node, ...]:
        return tuple(broker for broker in self.reached.brokers if broker not in self.brokers_not_as_planned)

    @cached_property
    def rest(self) -> Plan:
        """What is left, as a plan from the tree that was reached; unknown steps are in it."""
        return Plan.of(self.reached, (left.step for left in self.unfinished))

    def lines(self) -> list[str]:
        """For people: what was not carried out and why, and what the tree lacks."""
        if self.complete:
            return ["done: the tree is as planned"]
        total = len(self.plan.steps)
        head = f"{total - len(self.unfinished)} of {total} steps done; {self.difference}"
        return [head, *(f"  {left}" for left in self.unfinished)]
