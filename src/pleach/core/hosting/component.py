"""The interface of a component: a part of an application that a broker hosts and that can move to another broker.

Rule 1: its state is what `snapshot` returns; `restore` into a new instance continues from it.
Rule 2: it is deterministic: state and publications follow from the events and their order alone. After a crash the
        broker replays its journal, so a component must not read clocks, random numbers or files.
Rule 3: the broker waits for it: `on_event` and `snapshot`, which is called after each event, must be fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from pleach.core.events.event import Event, Value
from pleach.core.messages import Node

STATE_BYTES_MAX = 1_048_576  # the state is sent in one message
PUBLICATIONS_MAX = 1_000  # per event


class Publication(NamedTuple):
    """An event to publish."""

    attributes: Mapping[str, Value]
    payload: bytes = b""


class Component(Protocol):
    def on_event(self, event: Event) -> Iterable[Publication]:
        """Handle an event that it is subscribed to; called exactly once per event, also across movements."""
        ...

    def snapshot(self) -> bytes:
        """All of its state, at most STATE_BYTES_MAX."""
        ...

    def restore(self, state: bytes) -> None:
        """Take over the state of a snapshot."""
        ...


Factory: TypeAlias = Callable[[Node], Component]  # creates a component of a name, without state
