"""Bounds of a coloured network (S1 (4.1) to (4.3), corrected): periods, and the time to recover from a fault.

h: links from the root to the farthest broker, in any tree. Every message takes δmin to δmax on a link, including a
client's own link (S1 omits that one). g: brokers in the root group.

                     here                                              S1
    period ξ >       max(ρ + 2h·δmax + (δmax − δmin), 3h·δmax)         ρ + 2h·δmax                     (4.2)
    timeout ξ' =     ξ + (h + 1)·δmax                                  ξ + h(δmax − δmin)              (4.1)
    correct after    4ξ + (5h + 9)·δmax + 2g(h + 3)·δmax               4ξ + h(2·δmax − δmin)           (4.3)

Decision 15 and tests/core/overlay/coloured/test_printed.py show why the printed bounds do not hold.
"""

from __future__ import annotations

import msgspec

from pleach.core.messages import Node
from pleach.errors import ColouringError


class ColouredConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that are the same at all brokers, out of reach of faults.

    `period` is the paper's ξ, `refresh` its ρ: seconds between recolourings, and between renewals of a client.
    `low`, `high`: δmin and δmax, seconds per link. `group`: the root, and its successors in order.
    `degree`: a broker with this many children forwards brokers that look for a parent.
    """

    period: float
    refresh: float
    low: float
    high: float
    height: int
    group: tuple[Node, ...]
    degree: int = 4

    @property
    def timeout(self) -> float:
        """Seconds without a recolouring after which a broker has lost the tree."""
        return self.period + (self.height + 1) * self.high

    @property
    def answer(self) -> float:
        """Seconds within which a request for a parent is answered, if the asked broker is alive."""
        return (self.height + 3) * self.high


def period_min(colouring: ColouredConfig) -> float:
    """The period must be longer than this, or tables are used incomplete, or emptied too early."""
    through = colouring.height * colouring.high
    return max(colouring.refresh + 2 * through + colouring.high - colouring.low, 3 * through)


def stabilisation(colouring: ColouredConfig) -> float:
    """Seconds after a fault until everything is correct again (the paper's Δr)."""
    asking = 2 * len(colouring.group) * colouring.answer
    return 4 * colouring.period + (5 * colouring.height + 9) * colouring.high + asking


def flight(colouring: ColouredConfig) -> float:
    """Seconds that a confirmed event may take: a wait for a recolouring, up and down the tree, to a client."""
    return colouring.period + (3 * colouring.height + 1) * colouring.high


def check(colouring: ColouredConfig) -> None:
    """Raises ColouringError where events could be lost without any fault."""
    least = period_min(colouring)
    if colouring.period <= least:
        high, low, height = colouring.high, colouring.low, colouring.height
        raise ColouringError(
            f"`period` is {colouring.period:g} s; more than {least:g} s is wanted, the greater of"
            f" refresh {colouring.refresh:g} + 2 × {height} links × {high:g} + ({high:g} - {low:g}) and"
            f" 3 × {height} links × {high:g}, or events are lost while the colours change"
        )
