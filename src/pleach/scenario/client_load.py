"""What the clients of a scenario do by themselves: publish at intervals, and answer what they see.

The world gives the seed and carries the actions out; every load and every client has a stream of its own, so that one
client's draws do not depend on another's.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from pleach.core.events.event import Event, Value
from pleach.core.events.language import parse_filter
from pleach.scenario.model import PublishLoad, ScenarioClient
from pleach.scenario.values import Attribute, Attributes, Choice, Sequence, Span, Uniform


class PlannedEvent(NamedTuple):
    """An event to be published: `at` seconds after the start, or after what it answers."""

    at: float
    attributes: dict[str, Value]
    payload: bytes = b""


def publications(client: ScenarioClient, index: int, duration: float, seed: str) -> Iterator[PlannedEvent]:
    """The events of the client's load number `index`, in order of time."""
    load = client.publish[index]
    stream = Random(f"{seed}/{client.id}/publish/{index}")
    until = duration if load.until is None else min(load.until, duration)
    at = load.start
    number = 0
    while at < until and (load.count is None or number < load.count):
        number += 1
        yield PlannedEvent(at, draw_attributes(load.attributes, stream, number), _payload(load, stream))
        at += draw_span(load.every, stream)


class Replies:
    """Decides what a client answers. It keeps count, so that answers can carry a sequence."""

    def __init__(self, client: ScenarioClient, seed: str) -> None:
        self._stream = Random(f"{seed}/{client.id}/reply")
        self._rules = [(reply, parse_filter(reply.to)) for reply in client.reply]
        self._counts = [0] * len(self._rules)

    def to(self, event: Event) -> Iterator[PlannedEvent]:
        for index, (reply, wanted) in enumerate(self._rules):
            if wanted.matches(event.attributes) and self._stream.random() < reply.probability:
                self._counts[index] += 1
                attributes = draw_attributes(reply.attributes, self._stream, self._counts[index])
                yield PlannedEvent(draw_span(reply.delay, self._stream), attributes)


def draw_span(span: Span, stream: Random) -> float:
    return span.low if span.low == span.high else stream.uniform(span.low, span.high)


def draw_attributes(attributes: Attributes, stream: Random, number: int) -> dict[str, Value]:
    return {name: _draw(attribute, stream, number) for name, attribute in attributes.items()}


def _draw(attribute: Attribute, stream: Random, number: int) -> Value:
    match attribute:
        case Uniform(int() as low, int() as high):
            return stream.randint(low, high)
        case Uniform(low, high):
            return stream.uniform(low, high)
        case Choice(values):
            return stream.choice(values)
        case Sequence():
            return number
        case _:
            return attribute


def _payload(load: PublishLoad, stream: Random) -> bytes:
    return stream.randbytes(load.payload_bytes) if load.payload_bytes else b""
