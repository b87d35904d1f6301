"""Steps of a timeline that change the overlay, as operations, plans and requests to brokers.

A step is one operation or a plan of several. Without a clock (`requests_by_step`) the tree that a request will find is
unknown: each is planned for the tree after all steps of earlier times, and brokers refuse it if the tree differs. A
link is exchanged by one request where the protocol works along the cycle, otherwise by a plan of swaps, each of which
waits for those that it depends on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias, assert_never

from pleach.core.messages import (
    Node,
    OperatorRequest,
    RequestAdd,
    RequestExchange,
    RequestMove,
    RequestRemove,
    RequestSwap,
)
from pleach.core.mobility.resettling import MoveProtocol
from pleach.core.overlay.choice import Circumstances, planned_exchange
from pleach.core.overlay.plans import (
    AddStep,
    Link,
    Plan,
    PlannedOperation,
    PlanRun,
    RemoveStep,
    Step,
    SwapStep,
    Topology,
    asked,
    remove_broker,
    request_of,
)
from pleach.errors import PlanError, ScenarioError, StepError, TopologyError
from pleach.scenario import model, steps
from pleach.scenario.model import Scenario

TreeStep: TypeAlias = steps.Swap | steps.Exchange | steps.AddBroker | steps.RemoveBroker


def single(step: TreeStep, *, is_leaf: bool) -> Step | None:
    """The one operation for a step; None where it needs a plan. `is_leaf`: whether a broker to be removed is one."""
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


def coloured_request(step: TreeStep, operation: str) -> tuple[Node, OperatorRequest]:
    """The broker to ask in a coloured network, and the request: always one, since the root knows the tree and plans."""
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
    return Circumstances(scenario.ordering.value, scenario.hierarchical)


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


class StepRequest(NamedTuple):
    """`after`: operations of the same plan that must be done before."""

    broker: Node
    request: OperatorRequest
    after: tuple[str, ...] = ()


def requests_by_step(scenario: Scenario) -> dict[int, list[StepRequest]]:
    """By the index of the step. Raises ScenarioError for an exchange that would leave no tree."""
    found: dict[int, list[StepRequest]] = {}
    at, before = 0.0, Topology.of(scenario.links, scenario.brokers)
    after = before
    places = {client.id: client.broker for client in scenario.clients}
    for index, step in enumerate(scenario.steps):
        if not isinstance(step, TreeStep | steps.MoveClient):
            continue
        if step.at > at:
            at, before = step.at, after
        name = str(len(found) + 1)
        if isinstance(step, steps.MoveClient):
            found[index] = [_moved(step, name, before, places)]
        elif isinstance(step, steps.Exchange):
            plan = _plan(step, before, scenario)
            found[index] = list(_by_plan(name, plan, scenario.exchange))
            after = _then(after, plan.steps)
        else:
            only = single(step, is_leaf=True)
            assert only is not None, step
            found[index] = [StepRequest(asked(only), request_of(PlannedOperation(name, only, ()), scenario.exchange))]
            after = _then(after, [only])
    return found


def _moved(step: steps.MoveClient, name: str, topology: Topology, places: dict[Node, Node]) -> StepRequest:
    """The request to the broker that the client is at if all earlier steps succeed. `places`: of clients, updated."""
    if step.protocol != MoveProtocol.TRANSACTION:
        raise ScenarioError(f"step `move_client` at {step.at:g} s by {step.protocol!r} has no guarantee; leave it out")
    source, places[step.client] = places[step.client], step.to
    try:
        path = topology.path(source, step.to)
    except TopologyError as error:
        raise ScenarioError(f"step `move_client` at {step.at:g} s is not possible: {error}") from None
    return StepRequest(source, RequestMove(name, step.client, list(path), round(step.delay_max * 1_000)))


def _plan(step: steps.Exchange, topology: Topology, scenario: Scenario) -> Plan:
    try:
        return planned(step, topology, scenario)
    except (PlanError, TopologyError) as error:
        raise ScenarioError(f"step `exchange` at {step.at:g} s is not possible: {error}") from None


def _by_plan(name: str, plan: Plan, protocol: str) -> Iterator[StepRequest]:
    """The requests of a plan, each with the operations that it waits for."""
    run = PlanRun(plan, name)
    for index, step in enumerate(plan.steps):
        request = request_of(PlannedOperation(run.operation(index), step, plan.touched[index]), protocol)
        yield StepRequest(asked(step), request, tuple(map(run.operation, plan.dependencies[index])))


def _then(topology: Topology, following: Sequence[Step]) -> Topology:
    """The tree after these operations; those that do not fit are refused by brokers and change nothing."""
    try:
        return Plan.of(topology, following).result
    except StepError:
        return topology


def described(request: OperatorRequest) -> str:
    match request:
        case RequestSwap(_, a, b, c):
            return f"swap {a} {b} {c}"
        case RequestExchange(_, path, cut):
            return f"exchange {path[cut]}-{path[cut + 1]} for {path[0]}-{path[-1]}"
        case RequestAdd(_, to):
            return f"add_broker to {to}"
        case RequestRemove(_, broker):
            return f"remove_broker {broker}"
        case RequestMove(_, client, path):
            return f"move_client {client} to {path[-1]}"
        case _:
            assert_never(request)


# Back from the description in a trace --------------------------------------------------

ASKED = re.compile(r"operation (\S+): (.*)")  # its name, and what it is or how it ended


def added(broker: Node, what: str) -> Link | None:
    """The link that an operation of `broker` adds, by its description."""
    match what.split(" "):
        case ["swap", a, _, c]:
            return a, c
        case ["exchange", _, "for", new] if new.count("-") == 1:
            u, v = new.split("-")
            return u, v
        case ["add_broker", "to", to]:
            return broker, to
        case _:
            return None


def removed(what: str) -> Link | None:
    """The link that an operation removes; None for a broker, which loses all its links."""
    match what.split(" "):
        case ["swap", a, b, _]:
            return a, b
        case ["exchange", old, "for", _] if old.count("-") == 1:
            x, y = old.split("-")
            return x, y
        case _:
            return None
