"""Reconfigurations that a timeline asks for, on real processes: as sim/operations.py carries them out in virtual time.

A broker that is added is a process that starts; one that is removed is a process that ends, with exit code 0.
"""

from __future__ import annotations

from collections.abc import Callable

from pleach.core.messages import Node
from pleach.core.mobility.resettling import MoveProtocol
from pleach.core.overlay.plans import AddStep, PlannedOperation, PlanOutcome, RemoveStep, Step, Topology, asked
from pleach.core.overlay.plans.steps import spelled
from pleach.errors import PleachError
from pleach.harness.network import LiveNetwork
from pleach.operate.apply import Directory, StepEnd, apply_plan, carry_out
from pleach.operate.moves import ClientMove
from pleach.operate.operation import OperationState
from pleach.operate.survey import settled_survey
from pleach.scenario import steps
from pleach.scenario.overlay_steps import TreeStep, planned, single

STEP_SECONDS_MAX = 60.0


class LiveOperations:
    """`refuse`, `note`: for the trace: why a step was not carried out; what a broker was asked for, and what came."""

    def __init__(
        self, network: LiveNetwork, refuse: Callable[[steps.Step, str], None], note: Callable[[Node, str], None]
    ) -> None:
        self._network = network
        self._refuse = refuse
        self._note = note
        self._count = 0

    async def carry_out(self, step: TreeStep) -> None:
        """To its end; what the network refuses is recorded with its reason, and nothing else happens."""
        self._count += 1
        try:
            reason = await self._carried_out(step, str(self._count))
        except PleachError as error:
            reason = str(error)
        if reason:
            self._refuse(step, reason)

    async def move(self, step: steps.MoveClient) -> None:
        """Have a client go to another broker, to the end of it."""
        self._count += 1
        name = str(self._count)
        if step.protocol != MoveProtocol.TRANSACTION:
            self._refuse(step, f"clients of this world do not move by {step.protocol!r}")
            return
        try:
            found = await settled_survey(list(self._network.directory.admin.values()))
            moving = ClientMove.planned(found, step.client, step.to, name, round(step.delay_max * 1_000))
            self._note(moving.path[0], f"operation {name}: move_client {step.client} to {step.to}")
            state, reason = await moving.carry_out(seconds_max=STEP_SECONDS_MAX)
            self._note(moving.path[0], f"operation {name}: {reason or state}")
        except PleachError as error:
            state, reason = OperationState.REFUSED, str(error)
        if state is not OperationState.DONE:
            self._refuse(step, reason)

    async def _carried_out(self, step: TreeStep, name: str) -> str:
        """Why not; empty if it was."""
        if isinstance(step, steps.AddBroker):
            await self._network.start_broker(step.broker)
        only = single(step, is_leaf=await self._is_leaf(step))
        if only is not None:
            return await self._single(only, name)
        assert isinstance(step, steps.Exchange | steps.RemoveBroker)
        plan = planned(step, await self._topology(), self._network.scenario)
        outcome = await apply_plan(plan, self._network.directory, name=name, seconds_max=STEP_SECONDS_MAX)
        await self._see_off(outcome)
        return "" if outcome.complete else str(outcome.unfinished[0])

    async def _single(self, only: Step, name: str) -> str:
        broker = asked(only)
        self._note(broker, f"operation {name}: {spelled(only)}")
        if broker not in self._network.members:
            return f"there is no broker {broker}"
        if broker not in self._network.running:
            return f"broker {broker} is down"
        neighbours = (await self._network.status(broker))["neighbours"]
        operation = PlannedOperation(name, only, (broker, *neighbours))
        end = await carry_out(operation, self._network.directory, seconds_max=STEP_SECONDS_MAX)
        self._note(broker, f"operation {name}: {end.reason or end.state}")
        await self._settle(end)
        return "it has not come to an end" if end.state is OperationState.RUNNING else end.reason

    async def _settle(self, end: StepEnd) -> None:
        match end.operation.step, end.state:
            case RemoveStep(broker), OperationState.DONE:
                await self._network.see_off(broker)
            case AddStep(broker, _), OperationState.REFUSED:
                await self._network.discard(broker)

    async def _see_off(self, outcome: PlanOutcome) -> None:
        for broker in sorted({*outcome.plan.start.brokers} - {*outcome.reached.brokers}):
            await self._network.see_off(broker)

    async def _is_leaf(self, step: TreeStep) -> bool:
        if not isinstance(step, steps.RemoveBroker) or step.broker not in self._network.running:
            return True  # what is wrong with it shows when it is asked
        return len((await self._network.status(step.broker))["neighbours"]) <= 1

    async def _topology(self) -> Topology:
        directory: Directory = self._network.directory
        return (await settled_survey(list(directory.admin.values()))).topology()
