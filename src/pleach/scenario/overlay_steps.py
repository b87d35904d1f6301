"""Steps of a timeline that change the tree, as the overlay knows them: one operation each, or a plan of several."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from pleach.core.messages import Node, OperatorRequest, RequestAdd, RequestExchange, RequestRemove, RequestSwap
from pleach.core.overlay.choice import Circumstances, planned_exchange
from pleach.core.overlay.plans import AddStep, Plan, RemoveStep, Step, SwapStep, Topology, remove_broker
from pleach.scenario import model, steps

TreeStep: TypeAlias = steps.Swap | steps.Exchange | steps.AddBroker | steps.RemoveBroker


def single(step: TreeStep, *, is_leaf: bool) -> Step | None:
    """The one operation that does it; None where it takes a plan. `is_leaf`: whether a broker to be removed is one."""
    match step:
        case steps.Swap(brokers=(a, b, c)):
            return SwapStep(a, b, c)
        case steps.AddBroker(broker=broker, to=to):
            return AddStep(broker, to)
        case steps.RemoveBroker(broker=broker):
            return RemoveStep(broker) if is_leaf else None
        case steps.Exchange():
            return None
        case _:
            assert_never(step)


def in_colours(step: TreeStep, operation: str) -> tuple[Node, OperatorRequest]:
    """Whom to ask in a coloured network, and for what: one request for anything. Its root knows the tree, and plans."""
    match step:
        case steps.Swap(brokers=(a, b, c)):
            return a, RequestSwap(operation, a, b, c)
        case steps.Exchange(remove=(x, y), add=(u, v)):
            return u, RequestExchange(operation, [u, x, y, v], 1, "coloured")
        case steps.AddBroker(broker=broker, to=to):
            return broker, RequestAdd(operation, to)
        case steps.RemoveBroker(broker=broker):
            return broker, RequestRemove(operation, broker)
        case _:
            assert_never(step)


def circumstances_of(scenario: model.Scenario) -> Circumstances:
    return Circumstances(scenario.ordering.value, scenario.hierarchical, heals=scenario.heal is not None)


def planned(step: steps.Exchange | steps.RemoveBroker, topology: Topology, scenario: model.Scenario) -> Plan:
    """Raises PlanError where the tree does not allow it."""
    match step:
        case steps.Exchange(remove=removed, add=added, protocol=protocol):
            return planned_exchange(
                topology,
                remove=removed,
                add=added,
                protocol=protocol or scenario.exchange,
                circumstances=circumstances_of(scenario),
            )
        case steps.RemoveBroker(broker=broker):
            return remove_broker(topology, broker)
        case _:
            assert_never(step)
