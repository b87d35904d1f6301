"""The description of a plan for operators."""

from __future__ import annotations

from typing import assert_never

from pleach.core.messages import Node
from pleach.core.overlay.plans.plan import Plan
from pleach.core.overlay.plans.steps import AddStep, ExchangeStep, RemoveStep, Step, SwapStep, spelled


def describe(plan: Plan) -> list[str]:
    """A summary, then per wave a line per step: the step, its change, its brokers, and its dependencies."""
    if not plan.steps:
        return ["nothing to do: the tree is as wanted"]
    width = max(len(spelled(step)) for step in plan.steps)
    lines = [_summary(plan)]
    for number, wave in enumerate(plan.waves, start=1):
        lines.append(f"wave {number}")
        lines += [_line(plan, index, width) for index in wave]
    return lines


def _summary(plan: Plan) -> str:
    added = len({*plan.result.brokers} - {*plan.start.brokers})
    removed = len({*plan.start.brokers} - {*plan.result.brokers})
    parts = [_count(plan.exchanges, "exchange")] if plan.exchanges else []
    if plan.swaps or not plan.exchanges:
        parts.append(_count(plan.swaps, "swap"))
    if added:
        parts.append(f"{_count(added, 'broker')} added")
    if removed:
        parts.append(f"{_count(removed, 'broker')} removed")
    waves, size = _count(len(plan.waves), "wave"), _count(len(plan.result), "broker")
    return f"{', '.join(parts)}, in {waves}; the tree has {size} then"


def _line(plan: Plan, index: int, width: int) -> str:
    step, brokers = plan.steps[index], plan.touched[index]
    waits = ", ".join(str(other + 1) for other in plan.dependencies[index])
    after = f"; after {waits}" if waits else ""
    number = str(index + 1).rjust(len(str(len(plan.steps))))
    change = f"{_change(step, brokers)}; touches {', '.join(brokers)}{after}"
    return f"  {number}  {spelled(step):<{width}}  {change}"


def _change(step: Step, brokers: tuple[Node, ...]) -> str:
    match step:
        case SwapStep(a, b, c):
            return f"link {a}–{b} becomes {a}–{c}"
        case ExchangeStep((x, y), (u, v)):
            return f"link {x}–{y} goes, link {u}–{v} comes"
        case AddStep(broker, to):
            return f"new link {broker}–{to}"
        case RemoveStep(broker):
            return f"link {broker}–{brokers[1]} goes, clients of {broker} go to {brokers[1]}"
        case _:
            assert_never(step)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
