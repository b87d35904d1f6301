"""What a component is: a piece of an application that a broker hosts, and that can move to another one.

Rule 1: its state is what `snapshot` gives. `restore` into a fresh one makes it go on as if nothing had been.
Rule 2: it is deterministic: state and publications follow from the events and their order, and from nothing else. After
        a crash the broker has it do again what it has on disk, so a clock, chance, or a file would make it another one.
Rule 3: it works while the broker waits: `on_event` is as short as matching an event, and so is `snapshot`, which is
        asked for after each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from pleach.core.events.event import Event, Value
from pleach.core.messages import Node

STATE_BYTES_MAX = 1_048_576  # of a component: its state travels in one message, as a frame
PUBLICATIONS_MAX = 1_000  # in answer to one event


class Publication(NamedTuple):
    """What a component wants published."""

    attributes: Mapping[str, Value]
    payload: bytes = b""


class Component(Protocol):
    def on_event(self, event: Event) -> Iterable[Publication]:
        """An event has come that it is subscribed to: exactly once, wherever the component is by then."""
        ...

    def snapshot(self) -> bytes:
        """All of its state, at most STATE_BYTES_MAX."""
        ...

    def restore(self, state: bytes) -> None:
        """Become the one that gave this snapshot."""
        ...


Factory: TypeAlias = Callable[[Node], Component]  # given its name; without any state
