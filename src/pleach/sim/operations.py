"""Reconfigurations that a timeline asks for: requests to brokers, in an operator's name, and what became of them.

A request is a message to one broker; it ends when that broker says `Concluded`. Until then the operation is under way,
and the network is not quiet, even if nothing moves: a protocol that is stuck is not mistaken for one that is done.
An exchange, and the removal of a broker that is no leaf, are plans of several operations (overlay/plans): those of
plan 3 are called 3.1, 3.2, …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Concluded
from pleach.core.messages import OPERATOR, Node, OperatorRequest, RequestAdd, RequestMove, RequestRemove
from pleach.core.mobility.resettling import MoveProtocol
from pleach.core.mobility.ways import way
from pleach.core.overlay.plans import Plan, PlannedOperation, PlanRun, Topology, asked, request_of
from pleach.errors import PlanError, ProtocolError, TopologyError
from pleach.scenario import model, steps
from pleach.scenario.coloured_settings import is_coloured
from pleach.scenario.overlay_steps import TreeStep, in_colours, planned, single
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.scenario.step_requests import described
from pleach.sim.service_time import service_of
from pleach.sim.simulator import Machine, Simulator


@dataclass(frozen=True)
class OperationContext:
    """What operations work on, and whom they tell."""

    sim: Simulator
    brokers: dict[Node, BrokerMachine]  # those of the tree: operations add and remove some
    make_broker: Callable[[Node], BrokerMachine]
    wrapped: Callable[[BrokerMachine], Machine]  # as the simulator shall have it
    is_down: Callable[[Node], bool]
    scenario: model.Scenario
    refuse: Callable[[steps.Step, str], None]
    note: Callable[[Node, str], None]  # for the trace: where, and what


class SimOperation(NamedTuple):
    """`request` was, or will be, put to `broker`, who says how it ends. `step`: what the timeline wants by it."""

    step: TreeStep | steps.MoveClient
    broker: Node
    request: OperatorRequest
    plan: PlanRun | None = None  # that it is part of

    @property
    def name(self) -> str:
        return self.request.operation


class SimOperations:
    def __init__(self, surroundings: OperationContext) -> None:
        self._around = surroundings
        self._count = 0
        self._under_way: dict[str, SimOperation] = {}

    @property
    def under_way(self) -> list[SimOperation]:
        return list(self._under_way.values())

    def start(self, step: TreeStep) -> None:
        name = self._next_name()
        if isinstance(step, steps.AddBroker):
            if step.to not in self._around.brokers:
                self._around.refuse(step, f"there is no broker {step.to}")
                return
            self._bring_in(step.broker)
        if is_coloured(self._around.scenario):
            self._ask(SimOperation(step, *in_colours(step, name)))
            return
        is_leaf = not isinstance(step, steps.RemoveBroker) or self._is_leaf(step.broker)
        only = single(step, is_leaf=is_leaf)
        if only is not None:
            self._ask(self._operation(step, PlannedOperation(name, only, ())))
        elif isinstance(step, steps.Exchange | steps.RemoveBroker):
            self._start_plan(step, name)

    def move(self, step: steps.MoveClient, client: ClientMachine) -> None:
        """Have a client moved, or have it move by itself."""
        if step.protocol != MoveProtocol.TRANSACTION:
            self._resettle(step, client)
            return
        broker = client.broker
        path = way(self._neighbours, broker, step.to)
        if not path:
            self._around.refuse(step, f"there is no way from {broker} to {step.to}")
            return
        request = RequestMove(self._next_name(), step.client, path, round(step.delay_max * 1_000))
        self._ask(SimOperation(step, broker, request))

    def _resettle(self, step: steps.MoveClient, client: ClientMachine) -> None:
        request = RequestMove(self._next_name(), step.client, [client.broker, step.to])
        self._around.note(step.client, f"operation {request.operation}: {described(request)} by {step.protocol}")
        self._under_way[request.operation] = SimOperation(step, step.client, request)
        self._around.sim.link(step.client, step.to)
        gently = step.protocol == MoveProtocol.COVERING
        self._around.sim.perform(step.client, client.resettle(request.operation, step.to, gently=gently))

    def _neighbours(self, broker: Node) -> list[Node]:
        known = self._around.brokers.get(broker)
        return [] if known is None else known.router.neighbours

    def _next_name(self) -> str:
        self._count += 1
        return str(self._count)

    def _is_leaf(self, broker: Node) -> bool:
        asked = self._around.brokers.get(broker)
        return asked is None or len(asked.router.neighbours) <= 1

    def _bring_in(self, broker: Node) -> None:
        fresh = self._around.brokers[broker] = self._around.make_broker(broker)
        service = service_of(self._around.scenario, broker, self._around.brokers)
        self._around.sim.add(broker, self._around.wrapped(fresh), service=service)
        self._around.sim.perform(broker, fresh.resume(now=self._around.sim.now))

    def _ask(self, operation: SimOperation) -> None:
        around, broker = self._around, operation.broker
        around.note(broker, f"operation {operation.name}: {described(operation.request)}")
        self._under_way[operation.name] = operation
        if broker not in around.brokers:
            self.concluded(broker, Concluded(operation.name, f"there is no broker {broker}"))
            return
        if around.is_down(broker):
            self.concluded(broker, Concluded(operation.name, f"broker {broker} is down"))
            return
        try:
            effects = around.brokers[broker].handle(OPERATOR, operation.request, now=around.sim.now)
        except ProtocolError as error:
            self.concluded(broker, Concluded(operation.name, str(error)))
            return
        around.sim.perform(broker, effects)

    # Plans ---------------------------------------------------------------------------------------------------

    def _start_plan(self, step: steps.Exchange | steps.RemoveBroker, name: str) -> None:
        try:
            plan = self._planned(step)
        except (PlanError, TopologyError) as error:  # while the tree changes, it may be none
            self._around.refuse(step, str(error))
            return
        self._go_on(step, PlanRun(plan, name))

    def _planned(self, step: steps.Exchange | steps.RemoveBroker) -> Plan:
        brokers = self._around.brokers
        links = [(name, to) for name in brokers for to in brokers[name].router.neighbours if name < to]
        topology = Topology.of(links, brokers)
        return planned(step, topology, self._around.scenario)

    def _go_on(self, step: TreeStep | steps.MoveClient, run: PlanRun) -> None:
        """Start what may start now. Brokers that are busy are asked again by the protocol itself, so nothing waits."""
        for startable in run.startable():
            run.started(startable.name)
            self._ask(self._operation(step, startable, run))
        if run.is_over and not run.outcome().complete:
            self._around.refuse(step, str(run.outcome().unfinished[0]))

    def _operation(
        self, step: TreeStep | steps.MoveClient, operation: PlannedOperation, run: PlanRun | None = None
    ) -> SimOperation:
        request = request_of(operation, self._around.scenario.exchange)
        return SimOperation(step, asked(operation.step), request, run)

    # Ends ----------------------------------------------------------------------------------------------------

    def died(self, broker: Node) -> None:
        """What this broker was asked for, nobody will conclude."""
        for operation in self.under_way:
            if operation.broker == broker and not isinstance(operation.request, RequestAdd):
                self.concluded(broker, Concluded(operation.name, f"broker {broker} has died"))

    def replaced(self, broker: Node, *, is_linked: bool) -> bool:
        """A dead broker gets a stand-in; False if none is wanted: it was to join, and nobody has taken it on."""
        joining = [each for each in self.under_way if each.broker == broker and isinstance(each.request, RequestAdd)]
        for operation in joining:
            self.concluded(broker, Concluded(operation.name, "" if is_linked else f"broker {broker} has died"))
        return is_linked or not joining

    def concluded(self, node: Node, end: Concluded) -> None:
        """A broker says how an operation ended."""
        around = self._around
        around.note(node, f"operation {end.operation}: {end.refusal or 'done'}")
        operation = self._under_way.pop(end.operation, None)
        if operation is None:
            return
        match operation.request:
            case RequestRemove(_, broker) if not end.refusal:
                del around.brokers[broker]
            case RequestAdd() if end.refusal:
                del around.brokers[operation.broker]
        if operation.plan is not None:
            self._go_on(operation.step, _told(operation.plan, end))
        elif end.refusal:
            around.refuse(operation.step, end.refusal)


def _told(run: PlanRun, end: Concluded) -> PlanRun:
    if end.refusal:
        run.refused(end.operation, end.refusal)
    else:
        run.done(end.operation)
    return run
