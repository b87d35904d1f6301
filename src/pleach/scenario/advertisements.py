"""Advertisements derived from the events of a client, and names of its subscriptions."""

from __future__ import annotations

from functools import reduce

from pleach.core.events.constraint import ANY, KIND_OF, Conjunction, Constraint, TypeConstraint
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.events.ranges import Ranges, above, below, intersection, point, union
from pleach.scenario.model import Scenario, ScenarioClient
from pleach.scenario.steps import PublishStep, SubscribeStep
from pleach.scenario.values import Attribute, Attributes, Choice, Constant, Sequence, Uniform


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
