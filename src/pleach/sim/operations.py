"""Reconfigurations of a timeline: requests to brokers in the name of an operator, and their results.

A request is a message to one broker; it ends when that broker reports `Concluded`. Until then the operation is under
way and the network is not quiet, even if no message is in flight: a stuck protocol is not mistaken for a finished one.
An exchange, and the removal of a broker with several neighbours, are plans of several operations (overlay/plans); the
operations of plan 3 are named 3.1, 3.2, …
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Concluded
from pleach.core.messages import Node, OperatorRequest, RequestAdd, RequestMove, RequestRemove
from pleach.core.mobility.resettling import MoveProtocol
from pleach.core.mobility.ways import way
from pleach.core.overlay.plans import Plan, PlannedOperation, PlanRun, Topology, asked, request_of
from pleach.errors import PlanError, ProtocolError, TopologyError
from pleach.scenario import model, steps
from pleach.scenario.overlay_steps import TreeStep, coloured_request, described, planned, single
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.scenario.stabilise_settings import is_coloured
from pleach.sim.simulator import Simulator


@dataclass(frozen=True)
class OperationContext:
    """The parts of a run that operations read and change."""

    sim: Simulator
    brokers: dict[Node, BrokerMachine]  # those of the tree: operations add and remove some
    bring_in: Callable[[Node], None]  # start a broker that is new
    ask: Callable[[Node, OperatorRequest], None]  # raises ProtocolError where it is not accepted
    is_down: Callable[[Node], bool]
    scenario: model.Scenario
    refuse: Callable[[steps.Step, str], None]
    note: Callable[[Node, str], None]  # for the trace: where, and what
    begins: Callable[[str], None]  # what keeps damaged tables from being mended
    ends: Callable[[str], None]


class SimOperation(NamedTuple):
    """`request` goes to `broker`, which reports its end. `step`: the step of the timeline that it is for."""

    step: TreeStep | steps.MoveClient
    broker: Node
    request: OperatorRequest
    plan: PlanRun | None = None  # that it is part of

    @property
    def name(self) -> str:
        return self.request.operation

    @property
    def awaited(self) -> tuple[Node, ...]:
        """Brokers that have to answer before it ends, in the tree or not."""
        match self.request:
            case RequestAdd(to=to):
                return self.broker, to
            case _:
                return (self.broker,)


class SimOperations:
    def __init__(self, surroundings: OperationContext) -> None:
        self._context = surroundings
        self._count = 0
        self._under_way: dict[str, SimOperation] = {}
        self._given_up: dict[str, None] = {}  # names of operations whose broker has left; it may still report an end

    @property
    def under_way(self) -> list[SimOperation]:
        return list(self._under_way.values())

    def start(self, step: TreeStep) -> None:
        name = self._next_name()
        if isinstance(step, steps.AddBroker):
            if step.to not in self._context.brokers:
                self._context.refuse(step, f"there is no broker {step.to}")
                return
            if step.broker in self._context.brokers:  # its removal is not over, or was refused
                self._context.refuse(step, f"broker {step.broker} is still there")
                return
            self._context.bring_in(step.broker)
        if is_coloured(self._context.scenario):
            self._ask(SimOperation(step, *coloured_request(step, name)))
            return
        is_leaf = not isinstance(step, steps.RemoveBroker) or self._is_leaf(step.broker)
        only = single(step, is_leaf=is_leaf)
        if only is not None:
            self._ask(self._operation(step, PlannedOperation(name, only, ())))
        elif isinstance(step, steps.Exchange | steps.RemoveBroker):
            self._start_plan(step, name)

    def move(self, step: steps.MoveClient, client: ClientMachine) -> None:
        """Have a client moved by brokers, or have it move by itself."""
        if step.protocol != MoveProtocol.TRANSACTION:
            self._resettle(step, client)
            return
        broker = client.broker
        path = way(self._neighbours, broker, step.to)
        if not path:
            self._context.refuse(step, f"there is no way from {broker} to {step.to}")
            return
        request = RequestMove(self._next_name(), step.client, path, round(step.delay_max * 1_000))
        self._ask(SimOperation(step, broker, request))

    def _resettle(self, step: steps.MoveClient, client: ClientMachine) -> None:
        request = RequestMove(self._next_name(), step.client, [client.broker, step.to])
        self._context.note(step.client, f"operation {request.operation}: {described(request)} by {step.protocol}")
        self._under_way[request.operation] = SimOperation(step, step.client, request)
        self._context.sim.link(step.client, step.to)
        gently = step.protocol == MoveProtocol.COVERING
        self._context.sim.perform(step.client, client.resettle(request.operation, step.to, gently=gently))

    def _neighbours(self, broker: Node) -> list[Node]:
        known = self._context.brokers.get(broker)
        return [] if known is None else known.router.neighbours

    def _next_name(self) -> str:
        self._count += 1
        return str(self._count)

    def _is_leaf(self, broker: Node) -> bool:
        asked = self._context.brokers.get(broker)
        return asked is None or len(asked.router.neighbours) <= 1

    def _ask(self, operation: SimOperation) -> None:
        context, broker = self._context, operation.broker
        context.note(broker, f"operation {operation.name}: {described(operation.request)}")
        self._under_way[operation.name] = operation
        context.begins(f"operation {operation.name}")
        if broker not in context.brokers:
            self.concluded(broker, Concluded(operation.name, f"there is no broker {broker}"))
            return
        if context.is_down(broker):
            self.concluded(broker, Concluded(operation.name, f"broker {broker} is down"))
            return
        try:
            context.ask(broker, operation.request)
        except ProtocolError as error:
            self.concluded(broker, Concluded(operation.name, str(error)))

    # Plans ---------------------------------------------------------------------------------------------------

    def _start_plan(self, step: steps.Exchange | steps.RemoveBroker, name: str) -> None:
        try:
            plan = self._planned(step)
        except (PlanError, TopologyError) as error:  # the tree may be changing
            self._context.refuse(step, str(error))
            return
        self._go_on(step, PlanRun(plan, name))

    def _planned(self, step: steps.Exchange | steps.RemoveBroker) -> Plan:
        return planned(step, self.topology(), self._context.scenario)

    def topology(self) -> Topology:
        """Of the brokers that are in the tree: one that is joining is not. Raises TopologyError while links change."""
        joining = {each.broker for each in self._under_way.values() if isinstance(each.request, RequestAdd)}
        brokers = {name: broker for name, broker in self._context.brokers.items() if name not in joining}
        links = [(a, b) for a in brokers for b in brokers[a].router.neighbours if a < b and b in brokers]
        return Topology.of(links, brokers)

    def _go_on(self, step: TreeStep | steps.MoveClient, run: PlanRun) -> None:
        """Start all operations that may start now. The protocol itself asks busy brokers again."""
        for startable in run.startable():
            run.started(startable.name)
            self._ask(self._operation(step, startable, run))
        if run.is_over and not run.outcome().complete:
            self._context.refuse(step, str(run.outcome().unfinished[0]))

    def _operation(
        self, step: TreeStep | steps.MoveClient, operation: PlannedOperation, run: PlanRun | None = None
    ) -> SimOperation:
        request = request_of(operation, self._context.scenario.exchange)
        return SimOperation(step, asked(operation.step), request, run)

    # Ends ----------------------------------------------------------------------------------------------------

    def concluded(self, node: Node, end: Concluded) -> None:
        """A broker reports the end of an operation."""
        context = self._context
        if end.operation in self._given_up:
            return
        context.note(node, f"operation {end.operation}: {end.refusal or 'done'}")
        context.ends(f"operation {end.operation}")
        operation = self._under_way.pop(end.operation, None)
        if operation is None:
            return
        match operation.request:
            case RequestRemove(_, broker) if not end.refusal:
                del context.brokers[broker]
                self._left(broker)
            case RequestAdd() if end.refusal:
                context.brokers.pop(operation.broker, None)  # it may have left meanwhile
        if operation.plan is not None:
            self._go_on(operation.step, _updated(operation.plan, end))
        elif end.refusal:
            context.refuse(operation.step, end.refusal)

    def _left(self, broker: Node) -> None:
        """Conclude what was put off at a broker that is gone: nobody asks again."""
        for operation in self.under_way:
            if operation.broker == broker:
                self.concluded(broker, Concluded(operation.name, f"broker {broker} has left"))
                self._given_up[operation.name] = None


def _updated(run: PlanRun, end: Concluded) -> PlanRun:
    if end.refusal:
        run.refused(end.operation, end.refusal)
    else:
        run.done(end.operation)
    return run
