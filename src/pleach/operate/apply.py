"""Carry out a plan on running brokers: each step is a request to one of them, and what may run at once does.

A broker that does not answer may be starting again, so it is asked again, under the same name, until the time of the
step is up: a broker carries out an operation of one name once. If it has forgotten how the operation ended, its links
tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pleach.core.messages import Node
from pleach.core.overlay.plans import (
    AddStep,
    ExchangeStep,
    Plan,
    PlannedOperation,
    PlanOutcome,
    PlanRun,
    RemoveStep,
    SwapStep,
    asked,
)
from pleach.core.overlay.plans.cycle import cut_at
from pleach.errors import InvalidInputError, SurveyError, UnreachableError
from pleach.net.http_client import Answer, ask
from pleach.operate.operation import OperationState, fresh_name
from pleach.operate.survey import Survey

STEP_SECONDS_MAX = 120.0
ASK_SECONDS = 10.0  # that a broker has to end an operation before it is asked about it
PAUSE_SECONDS = 0.2


class StepEnd(NamedTuple):
    """How a step ended, for whoever watches."""

    operation: PlannedOperation
    state: OperationState  # RUNNING: nobody knows
    reason: str
    seconds: float


class Watch(NamedTuple):
    """Called as steps start and end."""

    started: Callable[[PlannedOperation], None] = lambda _: None
    ended: Callable[[StepEnd], None] = lambda _: None


@dataclass
class Directory:
    """Where brokers are: for operators, and for each other."""

    admin: dict[Node, str]
    peer: dict[Node, str]

    @classmethod
    def of(cls, survey: Survey) -> Directory:
        return cls(dict(survey.admin), {name: status.addresses.peer for name, status in survey.found.items()})


def check_newcomers(plan: Plan, found: Survey) -> None:
    """Brokers that a plan adds must run, in no tree."""
    for name in sorted({*plan.result.brokers} - {*plan.start.brokers}):
        if name not in found.found:
            raise InvalidInputError(f"no broker {name!r} answers; start it, and give its admin address (`--at`)")
        if found.found[name].neighbours:
            raise SurveyError(f"{name} is in another tree", f"linked to {', '.join(found.found[name].neighbours)}")


async def carry_out(
    operation: PlannedOperation,
    directory: Directory,
    *,
    detach_absent: bool = False,
    seconds_max: float = STEP_SECONDS_MAX,
) -> StepEnd:
    """One step, whatever comes of it."""
    deadline = asyncio.get_running_loop().time() + seconds_max
    return await _CarriedStep(operation, directory, deadline, detach_absent=detach_absent).run()


async def apply_plan(
    plan: Plan,
    directory: Directory,
    *,
    name: str = "",
    detach_absent: bool = False,
    seconds_max: float = STEP_SECONDS_MAX,
    watch: Watch | None = None,
) -> PlanOutcome:
    """`name`: of the run, else a fresh one. `seconds_max`: for each step."""
    watch = watch or Watch()
    run = PlanRun(plan, name or fresh_name())
    tasks: set[asyncio.Task[StepEnd]] = set()
    while not run.is_over:
        for operation in run.startable():
            run.started(operation.name)
            watch.started(operation)
            carried = carry_out(operation, directory, detach_absent=detach_absent, seconds_max=seconds_max)
            tasks.add(asyncio.create_task(carried))
        ended, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            _tell(run, task.result())
            watch.ended(task.result())
    return run.outcome()


def _tell(run: PlanRun, end: StepEnd) -> None:
    name = end.operation.name
    match end.state:
        case OperationState.DONE:
            run.done(name)
        case OperationState.REFUSED:
            run.refused(name, end.reason)
        case OperationState.RUNNING:
            run.unanswered(name, end.reason)


class _CarriedStep:
    def __init__(
        self, operation: PlannedOperation, directory: Directory, deadline: float, *, detach_absent: bool
    ) -> None:
        self._operation = operation
        self._directory = directory
        self._deadline = deadline
        self._detach_absent = detach_absent
        self._is_in_doubt = False  # an answer may have got lost

    async def run(self) -> StepEnd:
        clock = asyncio.get_running_loop().time
        started = clock()
        state, reason = OperationState.RUNNING, ""
        while state is OperationState.RUNNING and clock() < self._deadline:
            try:
                answer = await self._ask()
                state, reason = read_end(answer)
            except UnreachableError as error:
                self._is_in_doubt, reason = True, str(error)
            if state is not OperationState.DONE and self._is_in_doubt and await self._is_in_effect():
                state, reason = OperationState.DONE, ""
            if state is OperationState.RUNNING:
                await asyncio.sleep(PAUSE_SECONDS)
        return StepEnd(self._operation, state, reason, clock() - started)

    async def _ask(self) -> Answer:
        """Always the same request: who knows it already only says how it stands."""
        step = self._operation.step
        if isinstance(step, AddStep):  # each time: who is expected is forgotten in a restart
            await ask(self._directory.admin[step.to], "/overlay/expect", {"broker": step.broker})
        path, body = self._request()
        named = {**body, "operation": self._operation.name, "timeout": ASK_SECONDS}
        return await ask(self._directory.admin[asked(step)], path, named, seconds_max=2 * ASK_SECONDS)

    def _request(self) -> tuple[str, dict[str, Any]]:
        brokers = self._operation.brokers
        match self._operation.step:
            case SwapStep(a, b, c, protocol):
                return "/overlay/swap", {"a": a, "b": b, "c": c, "protocol": protocol}
            case ExchangeStep(removed, _, protocol):
                return "/overlay/exchange", {"path": brokers, "cut": cut_at(brokers, removed), "protocol": protocol}
            case AddStep(_, to):
                return "/overlay/add", {"to": to, "address": self._directory.peer[to]}
            case RemoveStep(broker):
                return "/overlay/remove", {"broker": broker, "detach_absent": self._detach_absent}

    async def _is_in_effect(self) -> bool:
        """Whether the links are as the step makes them, as the broker says that keeps its place."""
        match self._operation.step:
            case SwapStep(a, b, c):
                there = await self._neighbours(a)
                return there is not None and c in there and b not in there
            case ExchangeStep(add=(u, v)):  # u is free again only when all of it is done
                return v in (await self._neighbours(u) or ())
            case AddStep(broker, to):
                return to in (await self._neighbours(broker) or ())
            case RemoveStep(broker):
                others = [name for name in self._operation.brokers if name != broker]
                there = await self._neighbours(others[0]) if others else None
                return there is not None and broker not in there
        return False

    async def _neighbours(self, broker: Node) -> list[Node] | None:
        """Where nothing is under way; else it is not known yet."""
        try:
            status = (await ask(self._directory.admin[broker], "/status")).value
        except UnreachableError:
            return None
        return None if status["operation"] else list(status["neighbours"])


def read_end(answer: Answer) -> tuple[OperationState, str]:
    """How an operation stands, and why."""
    reason = f"{answer.value.get('error', '')}; {answer.value.get('remedy', '')}" if not answer.is_ok else ""
    match answer.code:
        case 200:
            return OperationState.DONE, ""
        case 504 | 503:
            return OperationState.RUNNING, reason
        case 409 if answer.value.get("operation"):
            return OperationState.REFUSED, answer.value["error"]
        case _:
            return OperationState.REFUSED, reason
