"""Reconfigurations that a timeline asks for: requests to brokers, in an operator's name, and what became of them.

A request is a message to one broker; it ends when that broker says `Concluded`. Until then the operation is under way,
and the network is not quiet, even if nothing moves: a protocol that is stuck is not mistaken for one that is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from pleach.broker import Broker
from pleach.effects import Concluded
from pleach.errors import ProtocolError
from pleach.messages import OPERATOR, Message, Node, RequestAdd, RequestRemove, RequestSwap
from pleach.scenario import steps
from pleach.sim.simulator import Simulator

TreeStep: TypeAlias = steps.Swap | steps.Exchange | steps.AddBroker | steps.RemoveBroker


@dataclass(frozen=True)
class Surroundings:
    """What operations work on, and whom they tell."""

    sim: Simulator
    brokers: dict[Node, Broker]  # those of the tree: operations add and remove some
    make_broker: Callable[[Node], Broker]
    is_down: Callable[[Node], bool]
    refuse: Callable[[steps.Step, str], None]
    note: Callable[[Node, str], None]  # for the trace: where, and what


class Operation(NamedTuple):
    """`broker`: who was asked, and says how it ends."""

    name: str
    step: TreeStep
    broker: Node


class Operations:
    def __init__(self, surroundings: Surroundings) -> None:
        self._around = surroundings
        self._count = 0
        self._under_way: dict[str, Operation] = {}

    @property
    def under_way(self) -> list[Operation]:
        return list(self._under_way.values())

    def start(self, step: TreeStep) -> None:
        name = self._next_name()
        match step:
            case steps.Swap(brokers=(a, b, c)):
                self._ask(Operation(name, step, a), RequestSwap(name, a, b, c))
            case steps.AddBroker(broker=broker, to=to):
                self._bring_in(broker)
                self._ask(Operation(name, step, broker), RequestAdd(name, to))
            case steps.RemoveBroker(broker=broker) if self._is_leaf(broker):
                self._ask(Operation(name, step, broker), RequestRemove(name, broker))
            case steps.RemoveBroker() | steps.Exchange():
                # Here a plan of several steps begins, one after the other: see overlay/plans.py once it is there.
                self._around.refuse(step, "takes a plan of several steps, which is not installed")

    def _next_name(self) -> str:
        self._count += 1
        return str(self._count)

    def _is_leaf(self, broker: Node) -> bool:
        return len(self._around.brokers[broker].router.neighbours) <= 1

    def _bring_in(self, broker: Node) -> None:
        fresh = self._around.brokers[broker] = self._around.make_broker(broker)
        self._around.sim.add(broker, fresh)

    def _ask(self, operation: Operation, request: Message) -> None:
        around, (name, step, broker) = self._around, operation
        if around.is_down(broker):
            around.refuse(step, f"broker {broker} is down")
            return
        around.note(broker, f"operation {name}: {describe(step)}")
        self._under_way[name] = operation
        try:
            effects = around.brokers[broker].handle(OPERATOR, request, now=around.sim.now)
        except ProtocolError as error:
            self.concluded(broker, Concluded(name, str(error)))
            return
        around.sim.perform(broker, effects)

    def concluded(self, node: Node, end: Concluded) -> None:
        """A broker says how an operation ended."""
        self._around.note(node, f"operation {end.operation}: {end.refusal or 'done'}")
        operation = self._under_way.pop(end.operation, None)
        if operation is None:
            return
        if end.refusal:
            self._around.refuse(operation.step, end.refusal)
        match operation.step:
            case steps.RemoveBroker(broker=broker) if not end.refusal:
                del self._around.brokers[broker]
            case steps.AddBroker(broker=broker) if end.refusal:
                del self._around.brokers[broker]


def describe(step: TreeStep) -> str:
    match step:
        case steps.Swap(brokers=(a, b, c)):
            return f"swap {a} {b} {c}"
        case steps.Exchange(remove=removed, add=added):
            return f"exchange {'-'.join(removed)} for {'-'.join(added)}"
        case steps.AddBroker(broker=broker, to=to):
            return f"add_broker {broker} to {to}"
        case steps.RemoveBroker(broker=broker):
            return f"remove_broker {broker}"
