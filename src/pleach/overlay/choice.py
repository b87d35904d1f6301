"""Which protocol to exchange a link with, where nobody says: the rule behind `auto`.

Only two lose, double and reorder nothing: SwapLinks, and advanced coordinated reconfiguration. What each costs is
measured by `lab/swap_or_cycle.py`, whose report has the table and says whether it bears out the rule;
docs/how-to/reweave.md has what follows. In short, at once is two to three times as fast and sends no event twice. But
where causal order is kept, events wait meanwhile, and wait longer the longer the cycle is; swaps delay hardly any.
Events come first.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pleach.messages import Node
from pleach.overlay.plans import Plan, Topology
from pleach.overlay.plans.compose import exchange
from pleach.overlay.plans.cycle import cycle_of
from pleach.overlay.registry import EXCHANGES

AUTO: Final = "auto"
CHOICES: tuple[str, ...] = (*EXCHANGES, AUTO)

BY_SWAPS: Final = "swaplink"
AT_ONCE: Final = "advanced-coordinated"
ONE_SWAP: Final = 3  # brokers
CAUSAL_BROKERS_MAX: Final = 5  # at once: up to here events wait hardly longer than with swaps (14 ms against 8)


class Circumstances(NamedTuple):
    """What counts for the choice, beside the length of the cycle. `ordering`: what the network keeps."""

    ordering: str = "causal"
    is_hierarchical: bool = False


class Recommendation(NamedTuple):
    protocol: str
    reason: str


def recommended(brokers: int, circumstances: Circumstances) -> Recommendation:
    """`brokers`: on the cycle that both links make."""
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
