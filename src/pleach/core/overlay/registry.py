"""The registry of reconfiguration protocols. Brokers take part in all of them; each operation is carried out by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from pleach.core.messages import Node, RequestExchange, RequestSwap
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.advanced_coordinated import AdvancedCoordinated
from pleach.core.overlay.exchange.advanced_coordinated_printed import AdvancedCoordinatedPrinted, Misprint
from pleach.core.overlay.exchange.contract import PartMaker
from pleach.core.overlay.exchange.coordinated import Coordinated
from pleach.core.overlay.exchange.deferred import Deferred
from pleach.core.overlay.exchange.informed import Informed
from pleach.core.overlay.exchange.machine import ExchangeMachine
from pleach.core.overlay.exchange.path import Path
from pleach.core.overlay.exchange.path_printed import PathPrinted
from pleach.core.overlay.exchange.strawman import Strawman
from pleach.core.overlay.membership.machine import Membership
from pleach.core.overlay.seam import ProtocolMachine
from pleach.core.overlay.swaplink.machine import SwapLink

# Advanced coordinated reconfiguration as S1 prints it: with all of its errors, and with each alone.
PRINTED = "advanced-coordinated-printed"
MISPRINTS = {PRINTED: frozenset(Misprint)} | {f"{PRINTED}-{e.name.lower()}": frozenset((e,)) for e in Misprint}

# Protocols that move one end of a link by one hop; other exchanges are plans of such swaps.
SWAPS = ("swaplink", "swaplink-published")
# Protocols that exchange any link for any other, along the whole cycle.
CYCLES: Mapping[str, PartMaker] = MappingProxyType(
    {
        "strawman": Strawman,
        "deferred": Deferred,
        "coordinated": Coordinated,
        "informed": Informed,
        "path": Path,
        "path-printed": PathPrinted,
        "advanced-coordinated": AdvancedCoordinated,
        **{name: partial(AdvancedCoordinatedPrinted, errors=errors) for name, errors in MISPRINTS.items()},
    }
)
# Protocols that have a timer among their steps.
WAITING = frozenset(("strawman", "deferred", "informed", *MISPRINTS))
EXCHANGES: tuple[str, ...] = (*SWAPS, *CYCLES)


def machines(ordering: str) -> Sequence[Callable[[BrokerContext], ProtocolMachine]]:
    """Makers of the machines that a broker needs in a network with this guarantee of order."""
    return [partial(SwapLink, ordering=ordering), partial(ExchangeMachine, ordering=ordering, parts=CYCLES), Membership]


def swap_request(protocol: str, operation: str, a: Node, b: Node, c: Node) -> RequestSwap | RequestExchange:
    """Turn a–b–c into a–c–b, as a request of the protocol: for CYCLES it is the exchange on the smallest cycle."""
    if protocol in CYCLES:
        return RequestExchange(operation, [a, b, c], 0, protocol)
    return RequestSwap(operation, a, b, c, is_published=protocol == "swaplink-published")
