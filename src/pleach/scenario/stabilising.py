"""[stabilise]: what the periods reckon with, whether they fit, and how long the network takes to find back."""

from __future__ import annotations

from collections import deque

from pleach.errors import LeaseError
from pleach.overlay.coloured import bounds as colours
from pleach.scenario.colouring import check_colouring, colouring_of, is_coloured, widest_latency
from pleach.scenario.locate import FlawError
from pleach.scenario.model import Scenario
from pleach.scenario.steps import AddBroker, Exchange, MoveClient, RemoveBroker, Swap
from pleach.stabilise.bounds import Delays, check, flight, stabilisation
from pleach.stabilise.lease import Renewal


def check_stabilising(scenario: Scenario) -> None:
    stabilise = scenario.stabilise
    if stabilise is None:
        return
    if scenario.advertisements:
        raise FlawError(("stabilise",), "advertisements are not leased; leave `advertisements` or [stabilise] out")
    if is_coloured(scenario):
        check_colouring(scenario)
        return
    if stabilise.renewal is Renewal.RELAYED and _changes_tree(scenario):
        reason = f'relayed renewals need a tree that stays; set renewal = "{Renewal.HOP_BY_HOP}"'
        raise FlawError(("stabilise", "renewal"), reason)
    try:
        check(stabilise.lease, scenario.routing.value, delays_of(scenario))
    except LeaseError as error:
        raise FlawError(("stabilise", "period"), str(error)) from None


def _changes_tree(scenario: Scenario) -> bool:
    return any(isinstance(s, (Swap, Exchange, AddBroker, RemoveBroker, MoveClient)) for s in scenario.steps)


def delays_of(scenario: Scenario) -> Delays:
    """What the file says, or what follows from its latencies and its tree; a client's own link counts as one more."""
    assert scenario.stabilise
    span = scenario.stabilise.delay or widest_latency(scenario)
    return Delays(span.low, span.high, scenario.stabilise.diameter or _diameter(scenario) + 1)


def stabilisation_of(scenario: Scenario) -> float:
    """Seconds after a fault within which everything is correct again."""
    assert scenario.stabilise
    if is_coloured(scenario):
        return colours.stabilisation(colouring_of(scenario))
    return stabilisation(scenario.stabilise.lease, scenario.routing.value, delays_of(scenario))


def flight_of(scenario: Scenario) -> float:
    if is_coloured(scenario):
        return colours.flight(colouring_of(scenario))
    return flight(delays_of(scenario))


def _diameter(scenario: Scenario) -> int:
    """Links on the longest way through the tree: what is farthest from anywhere is one end of it."""
    end, _ = _farthest(scenario, scenario.brokers[0])
    return _farthest(scenario, end)[1]


def _farthest(scenario: Scenario, start: str) -> tuple[str, int]:
    neighbours: dict[str, list[str]] = {broker: [] for broker in scenario.brokers}
    for a, b in scenario.links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    distance = {start: 0}
    queue = deque([start])
    here = start
    while queue:
        here = queue.popleft()
        for there in neighbours[here]:
            if there not in distance:
                distance[there] = distance[here] + 1
                queue.append(there)
    return here, distance[here]
