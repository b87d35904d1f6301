"""The choice of a protocol for the exchange of a link, where nobody names one: the rule behind `auto`.

Only two protocols lose, double and reorder nothing: SwapLinks, and advanced coordinated reconfiguration (an exchange at
once). `lab/exchanges/swap_or_cycle.py` measures what each costs; docs/how-to/reweave.md has the consequences.

Rule: an exchange at once is two to three times as fast and sends no event twice. But where causal order is kept, events
wait meanwhile, the longer the longer the cycle is; swaps delay hardly any. Delay of events counts more.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from pleach.core.messages import Node
from pleach.core.overlay.plans import ExchangeStep, Link, Plan, Step, Topology, transform
from pleach.core.overlay.plans.compose import exchange
from pleach.core.overlay.plans.cycle import cycle_of
from pleach.core.overlay.plans.transform import exchanges_towards, transform_by
from pleach.core.overlay.registry import EXCHANGES

AUTO: Final = "auto"
CHOICES: tuple[str, ...] = (*EXCHANGES, AUTO)

BY_SWAPS: Final = "swaplink"
AT_ONCE: Final = "advanced-coordinated"
ONE_SWAP: Final = 3  # brokers
CAUSAL_BROKERS_MAX: Final = 5  # at once: up to this length the longest wait is 16 ms, with swaps 3 (docs/results)


class Circumstances(NamedTuple):
    """What the choice depends on besides the length of the cycle. `ordering`: the order that the network keeps."""

    ordering: str = "causal"
    is_hierarchical: bool = False


class Recommendation(NamedTuple):
    protocol: str
    reason: str


def recommended(brokers: int, circumstances: Circumstances) -> Recommendation:
    """`brokers`: how many are on the cycle that both links make."""
    ordering, is_hierarchical = circumstances
    if is_hierarchical:
        return Recommendation(BY_SWAPS, "with hierarchical routing links are exchanged by swaps only")
    if brokers == ONE_SWAP:
        return Recommendation(BY_SWAPS, "one swap does it, in twelve messages however many subscriptions there are")
    if ordering != "causal":
        reason = f"it is quicker than {brokers - 2} swaps, and with {ordering} order few events wait, if any"
        return Recommendation(AT_ONCE, reason)
    if brokers <= CAUSAL_BROKERS_MAX:
        reason = f"on a cycle of {brokers} it is quicker than {brokers - 2} swaps, and events wait hardly longer"
        return Recommendation(AT_ONCE, reason)
    reason = f"at once, causal order would let events wait for a whole cycle of {brokers}; swaps delay hardly any"
    return Recommendation(BY_SWAPS, reason)


# Plans ---------------------------------------------------------------------------------------------------------------


def planned_exchange(
    topology: Topology,
    *,
    remove: tuple[Node, Node],
    add: tuple[Node, Node],
    protocol: str,
    circumstances: Circumstances,
) -> Plan:
    """`protocol`: one of `CHOICES`. Raises PlanError where the exchange would leave no tree."""
    if protocol == AUTO:
        brokers = len(cycle_of(topology, remove=remove, add=add))
        protocol = recommended(brokers, circumstances).protocol
    return exchange(topology, remove=remove, add=add, protocol=protocol)


def planned_transformation(
    topology: Topology, target: Topology, *, protocol: str, circumstances: Circumstances
) -> Plan:
    """Any tree into any other. `protocol`: one of `CHOICES`, of which `auto` chooses for each link; empty: swaps."""
    if protocol != AUTO:
        return transform(topology, target, protocol=protocol)
    plan = transform_by(topology, target, partial(_one_by_one, circumstances=circumstances))
    if any(isinstance(step, ExchangeStep) for step in plan.steps):
        return plan
    return transform(topology, target, protocol=BY_SWAPS)  # fewer of them, as one link need not wait for another


def _one_by_one(tree: Topology, wanted: Iterable[Link], *, circumstances: Circumstances) -> list[Step]:
    """Each missing link by what is recommended for its cycle."""
    steps: list[Step] = []
    for step in exchanges_towards(tree, wanted, AT_ONCE):
        plan = planned_exchange(tree, remove=step.remove, add=step.add, protocol=AUTO, circumstances=circumstances)
        steps += plan.steps
        tree = plan.result
    return steps
