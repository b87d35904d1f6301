"""The outcome of a plan: the resulting tree, unfinished steps, and reasons."""

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
    """The phase of a step. UNKNOWN: started without an answer."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


UNCERTAIN = frozenset({PlanPhase.RUNNING, PlanPhase.UNKNOWN})


@dataclass(frozen=True)
class Unfinished:
    """A step that is not known to be done."""

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
    reached: Topology  # without steps that are unknown or running
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
        """The unfinished steps as a plan from the reached tree, including unknown ones."""
        return Plan.of(self.reached, (left.step for left in self.unfinished))

    def lines(self) -> list[str]:
        """For operators: unfinished steps with reasons, and differences of the tree."""
        if self.complete:
            return ["done: the tree is as planned"]
        total = len(self.plan.steps)
        head = f"{total - len(self.unfinished)} of {total} steps done; {self.difference}"
        return [head, *(f"  {left}" for left in self.unfinished)]
