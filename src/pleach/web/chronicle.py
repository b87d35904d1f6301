"""What has happened, as glances at brokers tell it: operations step by step, and brokers that come and go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from pleach.core.messages import Node
from pleach.operate.operation import OperationStatus as Asked
from pleach.operate.operation import OperationStep
from pleach.web.picture import Broker, Notice, Operation, Step

OPERATIONS_MAX = 60  # the oldest are forgotten
NOTICES_MAX = 60


@dataclass
class _Story:
    """An operation: as it was asked for, if that is known, and the steps of each broker by their numbers."""

    asked: Asked | None = None
    steps: dict[tuple[Node, int], OperationStep] = field(default_factory=dict)

    @property
    def began_at(self) -> float:
        return min([step.at for step in self.steps.values()] + ([self.asked.asked_at] if self.asked else []))


class Chronicle:
    def __init__(self) -> None:
        self._stories: dict[str, _Story] = {}
        self._notices: dict[str, Notice] = {}
        self._known: dict[Node, Broker] | None = None
        self._count = 0

    # Operations ------------------------------------------------------------------------------------------------

    def heard(self, broker: Node, asked: list[Asked], steps: list[OperationStep]) -> None:
        """What one broker says that it was asked for, and the steps that it has taken."""
        for operation in asked:
            self._stories.setdefault(operation.name, _Story()).asked = operation
        for step in steps:
            self._stories.setdefault(step.operation, _Story()).steps[broker, step.number] = step
        while len(self._stories) > OPERATIONS_MAX:
            del self._stories[min(self._stories, key=lambda name: self._stories[name].began_at)]

    @property
    def operations(self) -> dict[str, Operation]:
        return {name: _told(story) for name, story in self._stories.items()}

    # Brokers ---------------------------------------------------------------------------------------------------

    def saw(self, brokers: Mapping[Node, Broker], at: float) -> None:
        """Note who has come, gone, fallen silent, or answers again. The first look tells nothing."""
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


def _told(story: _Story) -> Operation:
    steps = sorted(story.steps.items(), key=lambda item: (item[1].at, item[0]))
    told = {str(i): Step(step.at, broker, step.phase) for i, ((broker, _), step) in enumerate(steps)}
    asked = story.asked
    held, flooded = _counted(story)
    if asked is None:  # whoever was asked for it does not answer, or has forgotten it
        brokers = tuple(sorted({broker for broker, _ in story.steps}))
        return Operation("change", brokers, "unknown", story.began_at, held=held, flooded=flooded, steps=told)
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


def _counted(story: _Story) -> tuple[int | None, int | None]:
    """Messages held and flooded between each broker's first and last step; None where no step is known."""
    if not story.steps:
        return None, None
    held = flooded = 0
    for name in sorted({broker for broker, _ in story.steps}):
        mine = [step for (broker, _), step in story.steps.items() if broker == name]
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


class Told(msgspec.Struct):
    """What the chronicle wants of a glance."""

    operations: list[Asked] = []
    steps: list[OperationStep] = []
