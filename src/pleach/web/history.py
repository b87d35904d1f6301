"""The history of a network as polls of its brokers show it: operations, and brokers that join, leave or fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from pleach.core.messages import Node
from pleach.operate.operation import OperationStatus as Asked
from pleach.operate.operation import OperationStep
from pleach.web.snapshot import Broker, Notice, Operation, Step

OPERATIONS_MAX = 60  # the oldest are forgotten
NOTICES_MAX = 60


@dataclass
class _OperationHistory:
    """An operation as it was requested, if that is known, and its steps by broker and number."""

    asked: Asked | None = None
    steps: dict[tuple[Node, int], OperationStep] = field(default_factory=dict)

    @property
    def began_at(self) -> float:
        return min([step.at for step in self.steps.values()] + ([self.asked.asked_at] if self.asked else []))


class History:
    def __init__(self) -> None:
        self._operations: dict[str, _OperationHistory] = {}
        self._notices: dict[str, Notice] = {}
        self._known: dict[Node, Broker] | None = None
        self._count = 0

    # Operations ------------------------------------------------------------------------------------------------

    def add_operations(self, broker: Node, asked: list[Asked], steps: list[OperationStep]) -> None:
        """Add the operations that were requested of a broker, and the steps that it has taken."""
        for operation in asked:
            self._operations.setdefault(operation.name, _OperationHistory()).asked = operation
        for step in steps:
            self._operations.setdefault(step.operation, _OperationHistory()).steps[broker, step.number] = step
        while len(self._operations) > OPERATIONS_MAX:
            del self._operations[min(self._operations, key=lambda name: self._operations[name].began_at)]

    @property
    def operations(self) -> dict[str, Operation]:
        return {name: _told(operation) for name, operation in self._operations.items()}

    # Brokers ---------------------------------------------------------------------------------------------------

    def add_brokers(self, brokers: Mapping[Node, Broker], at: float) -> None:
        """Note which brokers have joined, left, failed, or answer again since the last call."""
        before, self._known = self._known, dict(brokers)
        if before is None:
            return
        for name in sorted(brokers.keys() | before.keys()):
            if text := _news(before.get(name), brokers.get(name)):
                is_bad = name in brokers and not brokers[name].answers
                self.note(Notice(at, f"{name} {text}", is_bad))

    def note(self, notice: Notice) -> None:
        self._count += 1
        self._notices[str(self._count)] = notice
        while len(self._notices) > NOTICES_MAX:
            del self._notices[next(iter(self._notices))]

    @property
    def notices(self) -> dict[str, Notice]:
        return dict(self._notices)


def _told(operation: _OperationHistory) -> Operation:
    steps = sorted(operation.steps.items(), key=lambda item: (item[1].at, item[0]))
    told = {str(i): Step(step.at, broker, step.phase) for i, ((broker, _), step) in enumerate(steps)}
    asked = operation.asked
    held, flooded = _counted(operation)
    if asked is None:  # the broker that was asked does not answer, or has forgotten it
        brokers = tuple(sorted({broker for broker, _ in operation.steps}))
        return Operation("change", brokers, "unknown", operation.began_at, held=held, flooded=flooded, steps=told)
    return Operation(
        what=asked.what,
        brokers=asked.brokers,
        state=asked.state.value,
        asked_at=asked.asked_at,
        ended_at=asked.ended_at,
        reason=asked.reason,
        held=held,
        flooded=flooded,
        steps=told,
    )


def _counted(operation: _OperationHistory) -> tuple[int | None, int | None]:
    """Messages held and flooded between each broker's first and last step; None where no step is known."""
    if not operation.steps:
        return None, None
    held = flooded = 0
    for name in sorted({broker for broker, _ in operation.steps}):
        mine = [step for (broker, _), step in operation.steps.items() if broker == name]
        held += max(s.held for s in mine) - min(s.held for s in mine)
        flooded += max(s.flooded for s in mine) - min(s.flooded for s in mine)
    return held, flooded


def _news(before: Broker | None, now: Broker | None) -> str:
    match before, now:
        case None, Broker(answers=True):
            return "has joined the tree"
        case Broker(), None:
            return "has left the tree"
        case Broker(answers=True), Broker(answers=False, trouble=trouble):
            return f"does not answer: {trouble}"
        case Broker(answers=False), Broker(answers=True):
            return "answers again"
        case _:
            return ""


class GlanceReport(msgspec.Struct):
    """The part of a broker's /glance that the history needs."""

    operations: list[Asked] = []
    steps: list[OperationStep] = []
