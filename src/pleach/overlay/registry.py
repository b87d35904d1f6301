"""Which protocols there are: one line each. A network uses one of them to carry out its reconfigurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from pleach.messages import Node, RequestExchange, RequestSwap
from pleach.overlay.exchange.advanced_coordinated import AdvancedCoordinated
from pleach.overlay.exchange.advanced_coordinated_printed import AdvancedCoordinatedPrinted, Misprint
from pleach.overlay.exchange.coordinated import Coordinated
from pleach.overlay.exchange.deferred import Deferred
from pleach.overlay.exchange.informed import Informed
from pleach.overlay.exchange.machine import ExchangeMachine
from pleach.overlay.exchange.path import Path
from pleach.overlay.exchange.path_printed import PathPrinted
from pleach.overlay.exchange.strawman import Strawman
from pleach.overlay.layers import Layers
from pleach.overlay.membership import Membership
from pleach.overlay.seam import Machine
from pleach.overlay.swaplink import SwapLink

Maker: TypeAlias = Callable[..., Machine]

# As S1 prints it: with all of its errors, and with each alone.
PRINTED = "advanced-coordinated-printed"
MISPRINTS = {PRINTED: frozenset(Misprint)} | {f"{PRINTED}-{e.name.lower()}": frozenset((e,)) for e in Misprint}

# Those that move one end of a link by one hop, and exchange links by plans of such swaps …
SWAPS: Mapping[str, Maker] = MappingProxyType(
    {
        "swaplink": partial(SwapLink, is_corrected=True),
        "swaplink-published": partial(SwapLink, is_corrected=False),
    }
)
# … and those that exchange any link for any other, all along the cycle.
CYCLES: Mapping[str, Maker] = MappingProxyType(
    {
        "strawman": partial(ExchangeMachine, part=Strawman),
        "deferred": partial(ExchangeMachine, part=Deferred),
        "coordinated": partial(ExchangeMachine, part=Coordinated),
        "informed": partial(ExchangeMachine, part=Informed),
        "path": partial(ExchangeMachine, part=Path),
        "path-printed": partial(ExchangeMachine, part=PathPrinted),
        "advanced-coordinated": partial(ExchangeMachine, part=AdvancedCoordinated),
        **{
            name: partial(ExchangeMachine, part=partial(AdvancedCoordinatedPrinted, errors=errors))
            for name, errors in MISPRINTS.items()
        },
    }
)
# Those of which a timer is one of the steps.
WAITING = frozenset(("strawman", "deferred", "informed", *MISPRINTS))
EXCHANGES: Mapping[str, Maker] = MappingProxyType({**SWAPS, **CYCLES})


def machines(exchange: str, ordering: str) -> Sequence[Callable[[Layers], Machine]]:
    """Makers of the machines that a broker needs in a network with this protocol and this guarantee of order."""
    return [partial(EXCHANGES[exchange], ordering=ordering), Membership]


def swap_request(exchange: str, operation: str, a: Node, b: Node, c: Node) -> RequestSwap | RequestExchange:
    """Turn a–b–c into a–c–b, in the words of the protocol: for some it is the exchange on the smallest cycle."""
    if exchange in CYCLES:
        return RequestExchange(operation, [a, b, c], 0)
    return RequestSwap(operation, a, b, c)
