"""[stabilise]: what the periods reckon with, whether they fit, and how long the network takes to find back."""

from __future__ import annotations

from collections import deque

from pleach.core.overlay.coloured import bounds as colours
from pleach.core.stabilise.lease_bounds import Delays, check, flight, period_min, stabilisation
from pleach.core.stabilise.lease_settings import Renewal
from pleach.core.stabilise.rebuild_bounds import RebuildPeriods, check_rounds, rebuilt_within, round_min
from pleach.errors import LeaseError
from pleach.scenario.coloured_settings import check_colouring, colouring_of, is_coloured, widest_latency
from pleach.scenario.model import Ordering, Scenario, Stabilise, Stabiliser
from pleach.scenario.positions import FlawError
from pleach.scenario.steps import AddBroker, Exchange, MoveClient, RemoveBroker, Swap

CYCLIC_BROKERS_MAX = 100  # tables grow with the square of it


def check_stabilising(scenario: Scenario) -> None:
    stabilise = scenario.stabilise
    if stabilise is None:
        return
    if is_coloured(scenario):
        check_colouring(scenario)
        return
    rebuilds = stabilise.kind.rebuilds
    flaw = _flaw_of_rebuild(scenario, stabilise) if rebuilds else _flaw_of_leases(scenario, stabilise)
    if flaw:
        raise flaw
    try:
        if rebuilds:
            check_rounds(rounds_of(scenario), delays_of(scenario))
        else:
            check(stabilise.lease, scenario.routing.value, delays_of(scenario))
    except LeaseError as error:
        raise FlawError(("stabilise", "period"), str(error)) from None


def _flaw_of_leases(scenario: Scenario, stabilise: Stabilise) -> FlawError | None:
    if stabilise.renewal is Renewal.RELAYED and scenario.advertisements:
        reason = f'advertisements are not renewed that way; set renewal = "{Renewal.HOP_BY_HOP}"'
        return FlawError(("stabilise", "renewal"), reason)
    if stabilise.renewal is Renewal.RELAYED and _changes_tree(scenario):
        reason = f'relayed renewals need a tree that stays; set renewal = "{Renewal.HOP_BY_HOP}"'
        return FlawError(("stabilise", "renewal"), reason)
    return None


def _flaw_of_rebuild(scenario: Scenario, stabilise: Stabilise) -> FlawError | None:
    if (stabilise.renewal, stabilise.variant) != (Renewal.HOP_BY_HOP, 1):
        reason = f'`renewal` and `variant` are of leases; leave them out, or set kind = "{Stabiliser.LEASES}"'
        return FlawError(("stabilise",), reason)
    if _changes_tree(scenario):
        reason = f'tables are rebuilt over links that stay; leave such steps out, or set kind = "{Stabiliser.LEASES}"'
        return FlawError(("stabilise", "kind"), reason)
    if stabilise.cyclic and stabilise.kind is Stabiliser.REBUILD_PACED:
        reason = f'evidence comes up one tree; leave `cyclic` out, or set kind = "{Stabiliser.REBUILD}"'
        return FlawError(("stabilise", "cyclic"), reason)
    if stabilise.cyclic and len(scenario.brokers) > CYCLIC_BROKERS_MAX:
        reason = (
            f"{len(scenario.brokers)} brokers on cycles, each with tables for all; at most {CYCLIC_BROKERS_MAX} fit"
        )
        return FlawError(("stabilise", "cyclic"), f"{reason}: leave links out until they are a tree, and `cyclic`")
    if stabilise.cyclic and scenario.hierarchical:
        return FlawError(("hierarchical",), "cycles go with peer-to-peer routing; leave `hierarchical` out")
    if stabilise.cyclic and scenario.ordering is Ordering.CAUSAL:
        reason = f'on cycles an answer may overtake what it answers; set ordering = "{Ordering.FIFO}"'
        return FlawError(("stabilise", "cyclic"), reason)
    return None


def _changes_tree(scenario: Scenario) -> bool:
    return scenario.improve is not None or any(
        isinstance(s, (Swap, Exchange, AddBroker, RemoveBroker, MoveClient)) for s in scenario.steps
    )


def delays_of(scenario: Scenario) -> Delays:
    """What the file says, or what follows from its latencies and its tree; a client's own link counts as one more."""
    assert scenario.stabilise
    span = scenario.stabilise.delay or widest_latency(scenario)
    return Delays(span.low, span.high, scenario.stabilise.diameter or _diameter(scenario) + 1)


def rounds_of(scenario: Scenario) -> RebuildPeriods:
    assert scenario.stabilise
    return RebuildPeriods(
        refresh=scenario.stabilise.refresh,
        period=scenario.stabilise.period,
        policy=scenario.routing.value,
        advertisements=scenario.advertisements,
        cyclic=scenario.stabilise.cyclic,
        paced=scenario.stabilise.kind is Stabiliser.REBUILD_PACED,
    )


def period_min_of(scenario: Scenario) -> float:
    """Seconds that the period must be longer than."""
    assert scenario.stabilise
    if scenario.stabilise.kind.rebuilds:
        return round_min(rounds_of(scenario), delays_of(scenario))
    return period_min(scenario.stabilise.lease, scenario.routing.value, delays_of(scenario))


def stabilisation_of(scenario: Scenario) -> float:
    """Seconds after a fault within which everything is correct again."""
    assert scenario.stabilise
    if is_coloured(scenario):
        return colours.stabilisation(colouring_of(scenario))
    if scenario.stabilise.kind.rebuilds:
        return rebuilt_within(rounds_of(scenario), delays_of(scenario))
    lease, delays = scenario.stabilise.lease, delays_of(scenario)
    return stabilisation(lease, scenario.routing.value, delays, advertisements=scenario.advertisements)


def flight_of(scenario: Scenario) -> float:
    if is_coloured(scenario):
        return colours.flight(colouring_of(scenario))
    return flight(delays_of(scenario))


def fault_detail(scenario: Scenario, fault: str, *, lasts: float = 0.0) -> str:
    """What the trace says of a fault that damages state: how long the checks are suspended."""
    return f"{fault} stabilises={lasts + stabilisation_of(scenario):.9g} flight={flight_of(scenario):.9g}"


def _diameter(scenario: Scenario) -> int:
    """Links on the longest shortest way. In a tree, what is farthest from anywhere is one end of it."""
    if scenario.stabilise and scenario.stabilise.cyclic:
        return max(_farthest(scenario, broker)[1] for broker in scenario.brokers)
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
