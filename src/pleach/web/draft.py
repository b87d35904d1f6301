"""What somebody wished for, as it would be carried out: shown first, and begun once that was confirmed (desk.py)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from pleach.core.messages import Node
from pleach.core.overlay.plans import Link, Plan, PlannedOperation, PlanOutcome, TreeDifference, describe
from pleach.core.overlay.plans.steps import spelled
from pleach.operate.apply import StepEnd, Watch
from pleach.operate.operation import OperationState

Tell: TypeAlias = Callable[[int, str, str], None]  # a step by its number, its state (picture.RunStep), and why


class Shown(msgspec.Struct, frozen=True):
    """For people. `lines`: in words, the first one as a title; all else is drawn as well.

    `paths`: that clients would take; `arrivals`: how many clients come to which broker; `stays`: who cannot be moved.
    """

    lines: Sequence[str]
    links_removed: Sequence[Link] = ()
    links_added: Sequence[Link] = ()
    brokers_removed: Sequence[Node] = ()
    brokers_added: Sequence[Node] = ()
    paths: Sequence[Sequence[Node]] = ()
    arrivals: Mapping[Node, int] = {}
    stays: Sequence[Node] = ()


@dataclass(frozen=True)
class Draft:
    """`carry_out`: tells how the steps go, and answers with what was left undone; empty: nothing."""

    shown: Shown
    steps: tuple[str, ...]
    carry_out: Callable[[Tell], Awaitable[str]]


def draft_of_plan(plan: Plan, apply: Callable[[Watch], Awaitable[PlanOutcome]]) -> Draft:
    """`apply`: carries out the plan, while somebody watches."""
    steps = tuple(spelled(step) for step in plan.steps)
    number = {text: i for i, text in enumerate(steps)}

    async def carry_out(tell: Tell) -> str:
        def started(operation: PlannedOperation) -> None:
            tell(number[spelled(operation.step)], "running", "")

        def ended(end: StepEnd) -> None:
            tell(number[spelled(end.operation.step)], word(end.state), end.reason)

        outcome = await apply(Watch(started, ended))
        return "" if outcome.complete else "not all of it was done"

    return Draft(shown_plan(plan), steps, carry_out)


def shown_plan(plan: Plan) -> Shown:
    changed = TreeDifference.of(planned=plan.start, found=plan.result)
    return Shown(
        lines=describe(plan),
        links_removed=changed.links_missing,
        links_added=changed.links_extra,
        brokers_removed=changed.brokers_missing,
        brokers_added=changed.brokers_extra,
    )


def word(state: OperationState) -> str:
    """What nobody has heard the end of is not running: nobody waits for it any more."""
    return "unknown" if state is OperationState.RUNNING else state.value
