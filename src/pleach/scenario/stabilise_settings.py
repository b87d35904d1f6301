"""Settings of [stabilise]: bounds on delays, checks of the periods, the time to recover, and coloured networks."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from pleach.core.overlay.coloured import bounds as colours
from pleach.core.stabilise.lease_bounds import Delays, check, flight, period_min, stabilisation
from pleach.core.stabilise.lease_settings import Renewal
from pleach.core.stabilise.rebuild_bounds import RebuildPeriods, check_rounds, rebuilt_within, round_min
from pleach.errors import ColouringError, LeaseError
from pleach.scenario.mending import Mending
from pleach.scenario.model import Ordering, Scenario, Stabilise, Stabiliser
from pleach.scenario.positions import FlawError
from pleach.scenario.read import instead
from pleach.scenario.steps import AddBroker, Exchange, MoveClient, RemoveBroker, Swap
from pleach.scenario.values import Span

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
    """The delays of the file, or else of its latencies and its tree, with the link of a client as one more hop."""
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
    """The exclusive lower bound of the period, in seconds."""
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


def fault_detail(scenario: Scenario, fault: str) -> str:
    """The detail of a fault that damages state where nothing else disturbs the network until it has mended."""
    return Mending(stabilisation_of(scenario), flight_of(scenario)).struck(fault, 0.0)


def mending_of(scenario: Scenario) -> Mending | None:
    """None where nothing mends."""
    return Mending(stabilisation_of(scenario), flight_of(scenario)) if scenario.stabilise else None


def _diameter(scenario: Scenario) -> int:
    """The diameter in links. In a tree, the node farthest from any node is one end of a longest path."""
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


DEGREE: Final = 4  # children up to which a broker accepts orphans, by default


def is_coloured(scenario: Scenario) -> bool:
    return scenario.stabilise is not None and scenario.stabilise.kind is Stabiliser.COLOURED


def check_colouring(scenario: Scenario) -> None:
    assert scenario.stabilise
    if scenario.advertisements:
        raise FlawError(("stabilise",), "colours exclude advertisements; leave `advertisements` or [stabilise] out")
    _refuse_keys_of_others(scenario.stabilise)
    group, brokers = scenario.stabilise.group, scenario.brokers
    for i, name in enumerate(group):
        if name not in brokers:
            raise FlawError(("stabilise", "group", i), f"{name!r} is not a broker{instead(name, brokers)}")
    if group and group[0] != scenario.root:
        raise FlawError(("stabilise", "group"), f"the first of the group is the root; `root` is {scenario.root!r}")
    try:
        colours.check(colouring_of(scenario))
    except ColouringError as error:
        raise FlawError(("stabilise", "period"), str(error)) from None


def _refuse_keys_of_others(stabilise: Stabilise) -> None:
    given = {
        "diameter": stabilise.diameter is not None,
        "renewal": stabilise.renewal is not Renewal.HOP_BY_HOP,
        "variant": stabilise.variant != 1,
    }
    for key in (key for key, is_given in given.items() if is_given):
        raise FlawError(("stabilise", key), f"`{key}` does not apply to coloured networks; leave it out")


def colouring_of(scenario: Scenario) -> colours.ColouredConfig:
    """By default the tree may become a chain of all brokers, including those that are added later."""
    assert scenario.stabilise
    given = scenario.stabilise
    span = given.delay or _widest_of_any(scenario)
    brokers = len(scenario.brokers) + sum(isinstance(step, AddBroker) for step in scenario.steps)
    return colours.ColouredConfig(
        period=given.period,
        refresh=given.refresh,
        low=span.low,
        high=span.high,
        height=given.height or max(1, brokers - 1),
        group=given.group or (scenario.root,),
        degree=given.degree or DEGREE,
    )


def _widest_of_any(scenario: Scenario) -> Span:
    """The widest latency of any possible link."""
    return _widest([widest_latency(scenario), scenario.latency.default, *(each[2] for each in scenario.latency.links)])


def widest_latency(scenario: Scenario) -> Span:
    """The lowest and the highest latency of the initial links, including those of clients."""
    links = [*scenario.links, *((client.id, client.broker) for client in scenario.clients)]
    return _widest([scenario.latency.of(a, b) for a, b in links] or [scenario.latency.default])


def _widest(spans: Sequence[Span]) -> Span:
    return Span(min(span.low for span in spans), max(span.high for span in spans))
