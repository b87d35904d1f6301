"""Which protocols there are: one line each. A network uses one of them to carry out its reconfigurations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MappingProxyType

from pleach.overlay.layers import Layers
from pleach.overlay.membership import Membership
from pleach.overlay.seam import Machine
from pleach.overlay.swaplink import SwapLink

EXCHANGES = MappingProxyType(
    {
        "swaplink": partial(SwapLink, is_corrected=True),
        "swaplink-published": partial(SwapLink, is_corrected=False),
    }
)


def machines(exchange: str, ordering: str) -> Sequence[Callable[[Layers], Machine]]:
    """Makers of the machines that a broker needs in a network with this protocol and this guarantee of order."""
    return [partial(EXCHANGES[exchange], ordering=ordering), Membership]
