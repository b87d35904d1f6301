"""Which protocol to exchange a link with, where nobody says: the rule behind `auto`."""

from __future__ import annotations

from typing import Final, NamedTuple

from pleach.messages import Node
from pleach.overlay.plans import Plan, Topology
from pleach.overlay.plans.compose import exchange
from pleach.overlay.plans.cycle import cycle_of
from pleach.overlay.registry import EXCHANGES

AUTO: Final = "auto"
CHOICES: tuple[str, ...] = (*EXCHANGES, AUTO)


class Circumstances(NamedTuple):
    """What counts for the choice, beside the length of the cycle."""

    is_hierarchical: bool = False


class Recommendation(NamedTuple):
    protocol: str
    reason: str


def recommended(brokers: int, circumstances: Circumstances) -> Recommendation:
    """`brokers`: on the cycle."""
    if circumstances.is_hierarchical:
        return Recommendation("swaplink", "the protocols for whole cycles know no hierarchical routing")
    if brokers == 3:
        return Recommendation("swaplink", "one swap does it")
    reason = f"it locks {brokers} brokers once, not three of them {brokers - 2} times"
    return Recommendation("advanced-coordinated", reason)


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
