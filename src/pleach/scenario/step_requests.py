"""What an operator asks for in a timeline, as requests to brokers, planned before anything happens.

Without a clock nobody knows which tree a request will meet. It is planned for the tree that all steps of earlier times
leave behind; where it meets another one, the brokers refuse it. A link is exchanged by one request where the protocol
works along the cycle, else by a plan of swaps, each of which waits for those that it depends on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, assert_never

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
from pleach.core.overlay.plans import Link, Plan, PlannedOperation, PlanRun, Step, Topology, asked, request_of
from pleach.errors import PlanError, ScenarioError, StepError, TopologyError
from pleach.scenario import steps
from pleach.scenario.model import Scenario
from pleach.scenario.overlay_steps import TreeStep, planned, single


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
    """From where the client is if all went well so far. `places`: of clients; this one is at its target then."""
    if step.protocol != MoveProtocol.TRANSACTION:
        raise ScenarioError(f"step `move_client` at {step.at:g} s by {step.protocol!r} promises nothing; leave it out")
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
    """All that a plan will ask for, with what each request waits for."""
    run = PlanRun(plan, name)
    for index, step in enumerate(plan.steps):
        request = request_of(PlannedOperation(run.operation(index), step, plan.touched[index]), protocol)
        yield StepRequest(asked(step), request, tuple(map(run.operation, plan.dependencies[index])))


def _then(topology: Topology, following: Sequence[Step]) -> Topology:
    """The tree after these; what does not fit is for the brokers to refuse, and changes nothing."""
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


# And back: what a trace says of an operation that was asked for --------------------------------------------------

ASKED = re.compile(r"operation (\S+): (.*)")  # its name, and what it is or how it ended


def added(broker: Node, what: str) -> Link | None:
    """The link that comes with an operation that `broker` was asked for, by its description."""
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
    """The link that goes; a broker takes all of its links along."""
    match what.split(" "):
        case ["swap", a, b, _]:
            return a, b
        case ["exchange", old, "for", _] if old.count("-") == 1:
            x, y = old.split("-")
            return x, y
        case _:
            return None
