"""Carrying a plan out: which steps may start now, and what came of it. A pure machine; a driver talks to the brokers.

    WAITING ──started──▶ RUNNING ──done──▶ DONE
       ▲                    │ ├──refused, for good, or once too often──▶ REFUSED
       └──refused, for now──┘ └──unanswered──▶ UNKNOWN ──a late answer──▶ as if it had come in time

Rule 1: a step starts only when all that it depends on are done. Steps that share a broker depend on each other, so that
        no two of them ever run at the same time.
Rule 2: after a step that is refused or unknown, what depends on it is not started; all else goes on.
Rule 3: a step that was refused for now waits before it starts again, longer each time, and not as long as another one
        that met the same obstacle (S1 §4.4.2: else both meet again). The delay follows from its name and the attempt.

The driver starts everything in `startable(now)` and says `started`, reports each answer, waits for an answer or until
`next_start`, whichever is first, and ends when the run `is_over`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple, assert_never
from zlib import crc32

from pleach.core.messages import Node, OperatorRequest, RequestAdd, RequestExchange, RequestRemove
from pleach.core.overlay.plans.cycle import cut_at
from pleach.core.overlay.plans.outcome import PlanOutcome, PlanPhase, Unfinished
from pleach.core.overlay.plans.plan import Plan
from pleach.core.overlay.plans.steps import AddStep, ExchangeStep, RemoveStep, Step, SwapStep, apply
from pleach.core.overlay.registry import swap_request
from pleach.errors import PlanError, PlanRunError

NAME_CHARACTERS_MAX = 32  # it travels in every message of every operation
ATTEMPTS_MAX = 10
DELAY_SECONDS_MIN = 0.05
DELAY_SECONDS_MAX = 5.0


class StepAnswer(StrEnum):
    STARTED = "started"
    DONE = "done"
    RETRY = "refused for now"
    REFUSED = "refused for good"
    UNANSWERED = "unanswered"


TRANSITIONS = {
    (PlanPhase.WAITING, StepAnswer.STARTED): PlanPhase.RUNNING,
    (PlanPhase.RUNNING, StepAnswer.DONE): PlanPhase.DONE,
    (PlanPhase.RUNNING, StepAnswer.RETRY): PlanPhase.WAITING,
    (PlanPhase.RUNNING, StepAnswer.REFUSED): PlanPhase.REFUSED,
    (PlanPhase.RUNNING, StepAnswer.UNANSWERED): PlanPhase.UNKNOWN,
    (PlanPhase.UNKNOWN, StepAnswer.DONE): PlanPhase.DONE,
    (PlanPhase.UNKNOWN, StepAnswer.RETRY): PlanPhase.WAITING,
    (PlanPhase.UNKNOWN, StepAnswer.REFUSED): PlanPhase.REFUSED,
}


class PlannedOperation(NamedTuple):
    """A step that may start, under the name that its messages carry."""

    name: str
    step: Step
    brokers: tuple[Node, ...]


def delay_seconds(operation: str, attempt: int) -> float:
    """How long to wait after this many attempts: doubled each time, spread over half to all of it by name."""
    longest = min(DELAY_SECONDS_MAX, DELAY_SECONDS_MIN * 2.0**attempt)
    return longest * (0.5 + crc32(f"{operation}/{attempt}".encode()) / 2.0**33)


class PlanRun:
    def __init__(self, plan: Plan, name: str, *, attempts_max: int = ATTEMPTS_MAX) -> None:
        if not 0 < len(name) <= NAME_CHARACTERS_MAX or not name.isprintable() or " " in name:
            wanted = f"1 to {NAME_CHARACTERS_MAX} printable characters without blanks"
            raise PlanError(f"{name[:40]!r} is no name for a run of a plan; {wanted}")
        if attempts_max < 1:
            raise PlanError(f"{attempts_max} attempts are none at all; allow at least one")
        self.plan = plan
        self.name = name
        self._attempts_max = attempts_max
        self._phases = [PlanPhase.WAITING] * len(plan.steps)
        self._attempts = [0] * len(plan.steps)
        self._not_before = [0.0] * len(plan.steps)
        self._reasons = [""] * len(plan.steps)
        self._stopped = ""
        self._index = {self.operation(index): index for index in range(len(plan.steps))}

    def operation(self, index: int) -> str:
        return f"{self.name}.{index + 1}"

    # What to do ------------------------------------------------------------------------------------------------

    def startable(self, now: float) -> list[PlannedOperation]:
        """What may start at this moment, all of it at once."""
        return [
            PlannedOperation(self.operation(index), self.plan.steps[index], self.plan.touched[index])
            for index in self._free()
            if self._not_before[index] <= now
        ]

    def next_start(self) -> float | None:
        """When the next step may start; None where that depends on answers, or nothing is left to start."""
        return min((self._not_before[index] for index in self._free()), default=None)

    @property
    def is_over(self) -> bool:
        """Nothing runs, and nothing can start any more."""
        return PlanPhase.RUNNING not in self._phases and next(self._free(), None) is None

    def _free(self) -> Iterator[int]:
        """Steps that wait for nothing but their time."""
        if self._stopped:
            return
        for index, phase in enumerate(self._phases):
            if phase is PlanPhase.WAITING and not self._waits_for(index):
                yield index

    def _waits_for(self, index: int) -> list[int]:
        return [other for other in self.plan.dependencies[index] if self._phases[other] is not PlanPhase.DONE]

    # What has happened -----------------------------------------------------------------------------------------

    def started(self, operation: str) -> None:
        index = self._known(operation, StepAnswer.STARTED)
        if waits := self._waits_for(index):
            raise PlanRunError(operation, StepAnswer.STARTED, f"it waits for {self._named(waits)}")
        self._tell(index, StepAnswer.STARTED)
        self._attempts[index] += 1

    def done(self, operation: str) -> None:
        self._tell(self._known(operation, StepAnswer.DONE), StepAnswer.DONE)

    def refused(self, operation: str, reason: str, *, retry: bool, now: float) -> None:
        """Nothing has changed by it. `retry`: the obstacle may pass, such as a broker that was busy."""
        index = self._known(operation, StepAnswer.REFUSED)
        attempts = self._attempts[index]
        again = retry and attempts < self._attempts_max and not self._stopped
        self._tell(index, StepAnswer.RETRY if again else StepAnswer.REFUSED)
        self._reasons[index] = f"{reason} ({attempts} attempts)" if attempts > 1 else reason
        self._not_before[index] = now + delay_seconds(operation, attempts)

    def unanswered(self, operation: str, reason: str) -> None:
        """Nobody knows whether it has happened. An answer that comes later is still welcome."""
        index = self._known(operation, StepAnswer.UNANSWERED)
        self._tell(index, StepAnswer.UNANSWERED)
        self._reasons[index] = reason

    def stop(self, reason: str) -> None:
        """Start nothing more; what runs comes to its end."""
        self._stopped = reason

    def _known(self, operation: str, told: StepAnswer) -> int:
        if operation not in self._index:
            raise PlanRunError(operation, told, f"operations of this run are {self.name}.1 to .{len(self._index)}")
        return self._index[operation]

    def _tell(self, index: int, told: StepAnswer) -> None:
        phase = self._phases[index]
        if (phase, told) not in TRANSITIONS:
            raise PlanRunError(self.operation(index), told, f"it is {phase}")
        self._phases[index] = TRANSITIONS[phase, told]

    # What came of it -------------------------------------------------------------------------------------------

    def outcome(self) -> PlanOutcome:
        """How things stand; for good once the run is over."""
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
        if self._phases[index] is not PlanPhase.WAITING:
            return self._reasons[index]
        if waits := self._waits_for(index):
            return f"waits for {self._named(waits)}"
        return self._stopped or self._reasons[index]

    def _named(self, indexes: list[int]) -> str:
        return ", ".join(map(self.operation, indexes))


# Whom to ask for a step, and for what ---------------------------------------------------------------------------------


def asked(step: Step) -> Node:
    """The broker that a step begins at, and that says how it ended."""
    match step:
        case SwapStep(a):
            return a
        case ExchangeStep(add=(u, _)):
            return u
        case AddStep(broker) | RemoveStep(broker):
            return broker
        case _:
            assert_never(step)


def request_of(operation: PlannedOperation, exchange: str) -> OperatorRequest:
    """`exchange`: the protocol of steps that name none; empty: that of the broker that is asked."""
    name, step, brokers = operation
    match step:
        case SwapStep(a, b, c, protocol):
            return swap_request(protocol or exchange, name, a, b, c)
        case ExchangeStep(removed, _, protocol):
            return RequestExchange(name, list(brokers), cut_at(brokers, removed), protocol)
        case AddStep(_, to):
            return RequestAdd(name, to)
        case RemoveStep(broker):
            return RequestRemove(name, broker)
        case _:
            assert_never(step)
