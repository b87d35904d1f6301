"""The periods of a coloured network and the time it takes to find back: S1 (4.1) to (4.3), as far as they hold.

h: links from the root to the farthest broker, in any tree that may come to be. Every message takes δmin to δmax on a
link, a client's own link included (S1 leaves that one out). g: brokers in the root group.

                     here                                              S1
    period ξ >       max(ρ + 2h·δmax + (δmax − δmin), 3h·δmax)         ρ + 2h·δmax                     (4.2)
    timeout ξ' =     ξ + (h + 1)·δmax                                  ξ + h(δmax − δmin)              (4.1)
    correct after    4ξ + (5h + 9)·δmax + 2g(h + 3)·δmax               4ξ + h(2·δmax − δmin)           (4.3)

Why not as printed: decision 15, tests/core/overlay/coloured/test_printed.py.
"""

from __future__ import annotations

import msgspec

from pleach.core.messages import Node
from pleach.errors import ColouringError


class ColouredConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What all brokers of a network agree on, and no fault touches.

    `period` is the paper's ξ, `refresh` its ρ: seconds between recolourings, and between renewals of a client.
    `low`, `high`: seconds that a message takes on one link. `group`: who is root, and who follows, in order.
    `degree`: children up to which a broker takes in who has lost the tree; beyond that it sends them on.
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
        """Without a recolouring for so long a broker has lost the tree."""
        return self.period + (self.height + 1) * self.high

    @property
    def answer(self) -> float:
        """Within so long who asks for a place has one, if whoever it asked is alive."""
        return (self.height + 3) * self.high


def period_min(colouring: ColouredConfig) -> float:
    """The period must be longer than this, or tables are used before they are complete, or emptied before time."""
    through = colouring.height * colouring.high
    return max(colouring.refresh + 2 * through + colouring.high - colouring.low, 3 * through)


def stabilisation(colouring: ColouredConfig) -> float:
    """After a fault everything is correct again by then (the paper's Δr)."""
    asking = 2 * len(colouring.group) * colouring.answer
    return 4 * colouring.period + (5 * colouring.height + 9) * colouring.high + asking


def flight(colouring: ColouredConfig) -> float:
    """How long an event may be under way once it is confirmed.

    It may wait for a recolouring, goes up and down the tree then, and on to a client.
    """
    return colouring.period + (3 * colouring.height + 1) * colouring.high


def check(colouring: ColouredConfig) -> None:
    """Raises ColouringError where events could get lost without any fault."""
    least = period_min(colouring)
    if colouring.period <= least:
        high, low, height = colouring.high, colouring.low, colouring.height
        raise ColouringError(
            f"`period` is {colouring.period:g} s; more than {least:g} s is wanted, the greater of"
            f" refresh {colouring.refresh:g} + 2 × {height} links × {high:g} + ({high:g} - {low:g}) and"
            f" 3 × {height} links × {high:g}, or events get lost while the colours change"
        )
