"""A schedule says what happens, one thing after the other, from the end of the prologue on:

    {"scenario": "chain of three", "plant": "",
     "steps": [{"act": "p", "does": "publish price=60"},
               {"deliver": ["p", "a"], "message": "Publish p/0/1 price=60"},
               {"answer": "s", "does": "publish order=1"}]}

`act` performs the next action of an actor's script, `answer` the next reply that a client owes, `deliver` hands over
the first message under way from one node to another, `ring` lets a timer of a broker fire. `does` and `message` are for
readers and change nothing. `options` are those of the exploration that found it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.core.messages import Node
from pleach.errors import ScheduleError

SCHEDULE_BYTES_MAX = 16 * 1_048_576


class Act(NamedTuple):
    actor: Node


class Answer(NamedTuple):
    client: Node


class HandOver(NamedTuple):
    sender: Node
    receiver: Node


class FireTimer(NamedTuple):
    node: Node
    timer: str


Move: TypeAlias = Act | Answer | HandOver | FireTimer


class ScheduleStep(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    act: str = ""
    answer: str = ""
    deliver: tuple[str, str] | None = None
    ring: tuple[str, str] | None = None
    does: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.act, self.answer, self.deliver, self.ring))) != 1:
            raise ValueError("a step has exactly one of `act`, `answer`, `deliver` and `ring`")

    @property
    def move(self) -> Move:
        if self.deliver:
            return HandOver(*self.deliver)
        if self.ring:
            return FireTimer(*self.ring)
        return Act(self.act) if self.act else Answer(self.answer)

    def __str__(self) -> str:
        if self.deliver:
            return f"{self.deliver[0]} → {self.deliver[1]}  {self.message}".rstrip()
        if self.ring:
            return f"{self.ring[0]}: timer {self.ring[1]} fires"
        return f"{self.act or self.answer}: {self.does}" + (" (in answer)" if self.answer else "")


class ExploreOptions(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How the search treats clients and timers; a schedule repeats them, since its steps depend on them.

    `instant_clients`: what a client or its broker sends to the other arrives in the same move. `timers`: a timer that
    is set may fire at any later moment; else none ever does.
    """

    instant_clients: bool = False
    timers: bool = False


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`plant`: the planted bug (`planted_bugs.py`) with which it was found; empty for the system as it is."""

    scenario: str
    plant: str = ""
    steps: tuple[ScheduleStep, ...] = ()
    options: ExploreOptions = ExploreOptions()


def load_schedule(path: str | Path) -> Schedule:
    """The schedule in a file; raises ScheduleError where there is none."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ScheduleError(f"{path}: cannot be read: {error.strerror or error}") from None
    if len(data) > SCHEDULE_BYTES_MAX:
        raise ScheduleError(f"{path}: more than {SCHEDULE_BYTES_MAX:,} bytes; is this a schedule?")
    try:
        return msgspec.json.decode(data, type=Schedule)
    except msgspec.DecodeError as error:
        hint = "`pleach explore --out` writes schedules"
        raise ScheduleError(f"{path}: this is not a schedule: {error}; {hint}") from None


def schedule_text(schedule: Schedule) -> str:
    """The schedule as JSON, one step per line."""
    keys = {"scenario": schedule.scenario, "plant": schedule.plant, "options": schedule.options}
    if schedule.options == ExploreOptions():
        del keys["options"]
    head = msgspec.json.encode(keys).decode()
    steps = ",\n".join(f"  {msgspec.json.encode(step).decode()}" for step in schedule.steps)
    return f'{head[:-1]},"steps":[\n{steps}\n]}}\n'
