"""Clients of a scenario: loads, replies, steps, advertisements derived from events, and names of subscriptions.

The runner gives the seed and publishes the events; every load and every client has a random stream of its own, so that
the draws of one client do not depend on another.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from random import Random
from typing import NamedTuple, Protocol, TypeAlias, assert_never

from pleach.core.events.constraint import ANY, KIND_OF, Conjunction, Constraint, TypeConstraint
from pleach.core.events.event import Event, Value
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.events.ranges import Ranges, above, below, intersection, point, union
from pleach.core.messages import Node
from pleach.scenario.model import PublishLoad, Scenario, ScenarioClient
from pleach.scenario.steps import AdvertiseStep, PublishStep, SubscribeStep, UnadvertiseStep, UnsubscribeStep
from pleach.scenario.values import Attribute, Attributes, Choice, Constant, Sequence, Span, Uniform


class PlannedEvent(NamedTuple):
    """An event to be published: `at` seconds after the start, or after the event that it replies to."""

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
    """The replies of a client, counted so that they can carry a sequence."""

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


ClientStep: TypeAlias = SubscribeStep | UnsubscribeStep | AdvertiseStep | UnadvertiseStep | PublishStep


class ClientActions(Protocol):
    """The actions of clients, carried out at once. Filters are texts of the file."""

    def subscribe(self, client: Node, text: str) -> None: ...

    def unsubscribe(self, client: Node, text: str) -> None: ...

    def advertise(self, client: Node, text: str) -> None: ...

    def unadvertise(self, client: Node, text: str) -> None: ...

    def publish(self, client: Node, publication: PlannedEvent) -> object: ...


def perform_client_step(clients: ClientActions, step: ClientStep, *, now: float) -> None:
    match step:
        case SubscribeStep(client=client, filter=text):
            clients.subscribe(client, text)
        case UnsubscribeStep(client=client, filter=text):
            clients.unsubscribe(client, text)
        case AdvertiseStep(client=client, filter=text):
            clients.advertise(client, text)
        case UnadvertiseStep(client=client, filter=text):
            clients.unadvertise(client, text)
        case PublishStep(client=client, attributes=attributes):
            clients.publish(client, PlannedEvent(now, dict(attributes)))
        case _:
            assert_never(step)


def derived_advertisements(client: ScenarioClient) -> tuple[str, ...]:
    """One filter text for each different kind of event that the client publishes or replies with."""
    specifications = [
        *(load.attributes for load in client.publish),
        *(reply.attributes for reply in client.reply),
    ]
    return tuple(dict.fromkeys(_advertisement(attributes).text for attributes in specifications))


def _advertisement(attributes: Attributes) -> Filter:
    return Filter([Conjunction({name: _constraint(attribute) for name, attribute in attributes.items()})])


def _constraint(attribute: Attribute) -> Constraint:
    match attribute:
        case Uniform(low, high):
            return Constraint(
                TypeConstraint.NUMBER, intersection(above(low, inclusive=True), below(high, inclusive=True))
            )
        case Choice(values):
            return _any_of(values)
        case Sequence():
            return Constraint(TypeConstraint.NUMBER, above(1, inclusive=True))
        case _:
            return _any_of((attribute,))


def _any_of(values: tuple[Constant, ...]) -> Constraint:
    """One attribute has one kind in a conjunction; where kinds mix, any value is admitted."""
    kinds = {KIND_OF[type(value)] for value in values}
    if len(kinds) > 1:
        return ANY
    ranges: list[Ranges] = [point(value) for value in values]
    return Constraint(kinds.pop(), reduce(union, ranges))


def subscription_names(scenario: Scenario, client: ScenarioClient) -> dict[Filter, str]:
    """The name of each filter that the client ever subscribes to: `s1`, `s2`, … in order of appearance.

    By filter, not by text: two spellings of one filter are one subscription.
    """
    later = [s.filter for s in scenario.steps if isinstance(s, SubscribeStep) and s.client == client.id]
    distinct = dict.fromkeys(parse_filter(text) for text in [*client.subscribe, *later])
    return {wanted: f"s{number}" for number, wanted in enumerate(distinct, start=1)}


def initial_advertisements(scenario: Scenario, client: ScenarioClient) -> tuple[str, ...]:
    """The advertisements of the client at the start: those of the file, or else those derived from all its events."""
    if not scenario.advertisements:
        return ()
    if client.advertise:
        return client.advertise
    single = [s.attributes for s in scenario.steps if isinstance(s, PublishStep) and s.client == client.id]
    texts = [
        *derived_advertisements(client),
        *(_advertisement(dict(attributes)).text for attributes in single),
    ]
    return tuple(dict.fromkeys(texts))
