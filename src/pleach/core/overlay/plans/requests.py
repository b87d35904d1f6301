"""The request to a broker for each step of a plan."""

from __future__ import annotations

from typing import assert_never

from pleach.core.messages import Node, OperatorRequest, RequestAdd, RequestExchange, RequestRemove
from pleach.core.overlay.plans.cycle import cut_at
from pleach.core.overlay.plans.run import PlannedOperation
from pleach.core.overlay.plans.steps import AddStep, ExchangeStep, RemoveStep, Step, SwapStep
from pleach.core.overlay.registry import swap_request


def asked(step: Step) -> Node:
    """The broker that a step begins at, and that reports its end."""
    match step:
        case SwapStep(a):
            return a
        case ExchangeStep(add=(u, _)):
            return u
        case AddStep(broker) | RemoveStep(broker):
            return broker
        case _:
            assert_never(step)


def request_of(operation: PlannedOperation, exchange: str) -> OperatorRequest:
    """`exchange`: the protocol of the network, for steps that name none."""
    name, step, brokers = operation
    match step:
        case SwapStep(a, b, c, protocol):
            return swap_request(protocol or exchange, name, a, b, c)
        case ExchangeStep(removed, _, protocol):
            return RequestExchange(name, list(brokers), cut_at(brokers, removed), protocol)
        case AddStep(_, to):
            return RequestAdd(name, to)
        case RemoveStep(broker):
            return RequestRemove(name, broker)
        case _:
            assert_never(step)
