"""Plans: the steps from one tree of brokers to another, which can be shown before anything is done.

    topology ──▶ exchange, remove_broker, add_broker, insert_broker, transform ──▶ Plan ──▶ describe, encode_plan
                                                                                    └──▶ PlanRun ──▶ PlanOutcome

`topology.py` and `steps.py` define trees and steps; `compose.py` and `transform.py` (with `search.py`) make plans;
`run.py` says what may start when, and turns steps into requests to brokers.

Imports registry.py and messages/.
"""

from __future__ import annotations

from pleach.core.overlay.plans.compose import add_broker, exchange, insert_broker, remove_broker
from pleach.core.overlay.plans.describe import describe
from pleach.core.overlay.plans.difference import TreeDifference
from pleach.core.overlay.plans.outcome import PlanOutcome, PlanPhase, Unfinished
from pleach.core.overlay.plans.plan import Plan
from pleach.core.overlay.plans.planfile import decode_plan, encode_plan
from pleach.core.overlay.plans.run import PlannedOperation, PlanRun, asked, request_of
from pleach.core.overlay.plans.steps import AddStep, ExchangeStep, RemoveStep, Step, SwapStep
from pleach.core.overlay.plans.topology import Link, Topology
from pleach.core.overlay.plans.transform import transform

__all__ = [
    "AddStep",
    "ExchangeStep",
    "Link",
    "Plan",
    "PlanOutcome",
    "PlanPhase",
    "PlanRun",
    "PlannedOperation",
    "RemoveStep",
    "Step",
    "SwapStep",
    "Topology",
    "TreeDifference",
    "Unfinished",
    "add_broker",
    "asked",
    "decode_plan",
    "describe",
    "encode_plan",
    "exchange",
    "insert_broker",
    "remove_broker",
    "request_of",
    "transform",
]
