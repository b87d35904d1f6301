"""[stabilise] with `kind = "coloured"`: what all brokers agree on, and whether the periods fit (overlay/coloured/)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pleach.core.overlay.coloured.bounds import ColouredConfig, check
from pleach.core.stabilise.lease_settings import Renewal
from pleach.errors import ColouringError
from pleach.scenario.model import Scenario, Stabilise, Stabiliser
from pleach.scenario.positions import FlawError
from pleach.scenario.read import instead
from pleach.scenario.steps import AddBroker
from pleach.scenario.values import Span

DEGREE: Final = 4  # children up to which a broker takes in who has lost the tree, by default


def is_coloured(scenario: Scenario) -> bool:
    return scenario.stabilise is not None and scenario.stabilise.kind is Stabiliser.COLOURED


def check_colouring(scenario: Scenario) -> None:
    assert scenario.stabilise
    if scenario.advertisements:
        raise FlawError(("stabilise",), "colours have no advertisements; leave `advertisements` or [stabilise] out")
    _refuse_keys_of_others(scenario.stabilise)
    group, brokers = scenario.stabilise.group, scenario.brokers
    for i, name in enumerate(group):
        if name not in brokers:
            raise FlawError(("stabilise", "group", i), f"{name!r} is not a broker{instead(name, brokers)}")
    if group and group[0] != scenario.root:
        raise FlawError(("stabilise", "group"), f"the first of the group is the root; `root` is {scenario.root!r}")
    try:
        check(colouring_of(scenario))
    except ColouringError as error:
        raise FlawError(("stabilise", "period"), str(error)) from None


def _refuse_keys_of_others(stabilise: Stabilise) -> None:
    given = {
        "diameter": stabilise.diameter is not None,
        "renewal": stabilise.renewal is not Renewal.HOP_BY_HOP,
        "variant": stabilise.variant != 1,
    }
    for key in (key for key, is_given in given.items() if is_given):
        raise FlawError(("stabilise", key), f"`{key}` has no meaning with colours; leave it out")


def colouring_of(scenario: Scenario) -> ColouredConfig:
    """By default the tree may become a chain of all brokers, those included that are added later."""
    assert scenario.stabilise
    given = scenario.stabilise
    span = given.delay or _widest_of_any(scenario)
    brokers = len(scenario.brokers) + sum(isinstance(step, AddBroker) for step in scenario.steps)
    return ColouredConfig(
        period=given.period,
        refresh=given.refresh,
        low=span.low,
        high=span.high,
        height=given.height or max(1, brokers - 1),
        group=given.group or (scenario.root,),
        degree=given.degree or DEGREE,
    )


def _widest_of_any(scenario: Scenario) -> Span:
    """Any two brokers may have a link some day."""
    return _widest([widest_latency(scenario), scenario.latency.default, *(each[2] for each in scenario.latency.links)])


def widest_latency(scenario: Scenario) -> Span:
    """The least and the most that a message takes on any link of the beginning, a client's among them."""
    links = [*scenario.links, *((client.id, client.broker) for client in scenario.clients)]
    return _widest([scenario.latency.of(a, b) for a, b in links] or [scenario.latency.default])


def _widest(spans: Sequence[Span]) -> Span:
    return Span(min(span.low for span in spans), max(span.high for span in spans))
