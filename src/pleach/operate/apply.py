"""Apply a plan to running brokers: each step is a request to one of them, and independent steps run at the same time.

A broker that does not answer may be restarting, also on another machine, so the request is repeated under the same
name until the step's time is up, where the broker is by then: it carries out an operation of one name once. If it has
forgotten how the operation ended, its links show it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from pleach.core.messages import Node, RequestAdd, RequestRemove
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
    request_of,
)
from pleach.errors import DeniedError, InvalidInputError, SurveyError, UnreachableError
from pleach.net.http_client import Answer
from pleach.operate.operation import OperationState, ask_broker, fresh_name, send_request
from pleach.operate.survey import Survey, settled_survey, survey

STEP_SECONDS_MAX = 120.0
PAUSE_SECONDS = 0.2  # between requests
TRIES_MAX = 8  # of a plan while others change the tree


class RequestEnd(NamedTuple):
    """How an operation ended. RUNNING: the time was up first."""

    state: OperationState
    reason: str
    seconds: float


class StepEnd(NamedTuple):
    """How a step ended. RUNNING: not known."""

    operation: PlannedOperation
    state: OperationState
    reason: str
    seconds: float


class Watch(NamedTuple):
    """Called as steps start and end."""

    started: Callable[[PlannedOperation], None] = lambda _: None
    ended: Callable[[StepEnd], None] = lambda _: None


@dataclass
class Directory:
    """Addresses of brokers: of their operators' ports, and of their peer ports."""

    admin: dict[Node, str]
    peer: dict[Node, str]

    @classmethod
    def of(cls, survey: Survey) -> Directory:
        return cls(dict(survey.admin), _peers_of(survey))

    async def refresh(self) -> None:
        """Ask all of them where each is now: one may run on another machine."""
        found = await survey(list(self.admin.values()))
        self.admin.update(found.admin)
        self.peer.update(_peers_of(found))


def _peers_of(found: Survey) -> dict[Node, str]:
    return {name: status.addresses.peer for name, status in found.found.items()}


def check_newcomers(plan: Plan, found: Survey) -> None:
    """Raise unless every broker that a plan adds answers and has no neighbours."""
    for name in sorted({*plan.result.brokers} - {*plan.start.brokers}):
        if name not in found.found:
            raise InvalidInputError(f"no broker {name!r} answers; start it, and give its admin address (`--at`)")
        if found.found[name].neighbours:
            linked = f"linked to {', '.join(found.found[name].neighbours)}"
            raise SurveyError(f"{name} is in another tree", linked, "remove it there first, or start another broker")


async def carry_out(
    operation: PlannedOperation,
    directory: Directory,
    *,
    detach_absent: bool = False,
    seconds_max: float = STEP_SECONDS_MAX,
) -> StepEnd:
    """Carry out one step, to its end or until the time is up."""
    step = _StepRequest(operation, directory, detach_absent=detach_absent)
    return StepEnd(operation, *await request_until_ended(step.send, step.is_in_effect, seconds_max))


async def apply_plan(
    plan: Plan,
    directory: Directory,
    *,
    name: str = "",
    detach_absent: bool = False,
    seconds_max: float = STEP_SECONDS_MAX,
    watch: Watch | None = None,
) -> PlanOutcome:
    """`name`: of the run, else a fresh one. `seconds_max`: for each step.

    Raises DeniedError where a broker does not let this process do a step, once the steps under way have ended.
    """
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
        errors = [task.exception() for task in ended]  # of each: else one is taken for a bug that nobody has seen
        if any(isinstance(error, DeniedError) for error in errors):
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in ended:
            _tell(run, task.result())
            watch.ended(task.result())
    return run.outcome()


async def pursue(
    found: Survey,
    planned: Callable[[Survey], Plan],
    apply: Callable[[Plan, Survey], Awaitable[PlanOutcome]],
    *,
    tries: int = TRIES_MAX,
) -> PlanOutcome:
    """Apply a plan; where others have changed the tree meanwhile, make it anew, for the tree as it is then.

    For plans that are made for an end, such as that a broker is gone. `tries`: as often as that, all together.
    """
    outcome = await apply(planned(found), found)
    for _ in range(tries - 1):
        if outcome.complete:
            break
        found = await settled_survey(list(found.admin.values()))
        try:
            if found.topology() == outcome.reached:
                break  # it was refused for another reason
            plan = planned(found)
        except (SurveyError, InvalidInputError):
            break
        outcome = await apply(plan, found)
    return outcome


def _tell(run: PlanRun, end: StepEnd) -> None:
    name = end.operation.name
    match end.state:
        case OperationState.DONE:
            run.done(name)
        case OperationState.REFUSED:
            run.refused(name, end.reason)
        case OperationState.RUNNING:
            run.unanswered(name, end.reason)


class _StepRequest:
    """A step as a request, repeated under its name until its end is known."""

    def __init__(self, operation: PlannedOperation, directory: Directory, *, detach_absent: bool) -> None:
        self._operation = operation
        self._directory = directory
        self._request = request_of(operation, "")
        self._more = {"detach_absent": detach_absent} if isinstance(self._request, RequestRemove) else {}

    async def send(self) -> Answer:
        try:
            return await self._send()
        except UnreachableError:
            await self._directory.refresh()
            raise

    async def _send(self) -> Answer:
        step, request, directory = self._operation.step, self._request, self._directory
        if isinstance(request, RequestAdd):  # each time: a broker forgets in a restart whom it expects
            await ask_broker(directory.admin[request.to], "/overlay/expect", {"broker": asked(step)})
            request = msgspec.structs.replace(request, address=directory.peer[request.to])
        return await send_request(directory.admin[asked(step)], request, **self._more)

    async def is_in_effect(self) -> bool:
        """Whether the links are as the step makes them, according to the broker that keeps its place."""
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
        """None where an operation is under way there, or nobody answers: then it is not known yet."""
        try:
            status = (await ask_broker(self._directory.admin[broker], "/status")).value
        except UnreachableError:
            return None
        return None if status["operation"] else list(status["neighbours"])


async def request_until_ended(
    send: Callable[[], Awaitable[Answer]], is_in_effect: Callable[[], Awaitable[bool]], seconds_max: float
) -> RequestEnd:
    """Repeat a request until its end is known, or the time is up: then the state is RUNNING.

    `is_in_effect`: asked where an answer may have got lost; a broker may forget an operation in a restart.
    """
    clock = asyncio.get_running_loop().time
    started = clock()
    state, reason, is_in_doubt = OperationState.RUNNING, "", False
    while state is OperationState.RUNNING and clock() - started < seconds_max:
        try:
            state, reason = read_end(await send())
        except UnreachableError as error:
            is_in_doubt, reason = True, str(error)
        if state is not OperationState.DONE and is_in_doubt and await is_in_effect():
            state, reason = OperationState.DONE, ""
        if state is OperationState.RUNNING:
            await asyncio.sleep(PAUSE_SECONDS)
    return RequestEnd(state, reason, clock() - started)


def read_end(answer: Answer) -> tuple[OperationState, str]:
    """The state of an operation according to a broker's answer, and the reason."""
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
