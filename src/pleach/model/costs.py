"""The costs of a network in messages per second, the result of both forms of the model, and the break-even point: the
number of subscriptions up to which filtering saves messages compared with flooding.
"""

from collections.abc import Callable
from typing import NamedTuple

from pleach.errors import InvalidInputError


class Costs(NamedTuple):
    """Names as in S1 §3.5.3. Messages between a client and its broker are local and not counted."""

    entries: float  # x: occupied remote routing entries
    flooding: float  # b_f: notifications with flooding, each over every link
    filtering: float  # b_n: notifications with filtering, as if all were published at the root
    detour: float  # b_p: additional notifications on the way to the root
    leases: float  # b_l: refreshes
    toggles: float  # b_o: (un)subscriptions between brokers

    @property
    def notifications(self) -> float:
        return self.filtering + self.detour

    @property
    def control(self) -> float:
        """b_c (3.33)."""
        return self.leases + self.toggles

    @property
    def saved(self) -> float:
        """b (3.34): messages per second that filtering saves; below zero, flooding is the better choice.

        S1 (3.49) and (3.57) add the detour; as in (3.34), it must be subtracted.
        """
        return self.flooding - self.notifications - self.control


SUBSCRIPTIONS_MAX = 1e15  # beyond, filtering is taken to save always
STRIDE = 1.05
STEPS = 200  # of a bisection; a double has 53 bits


def break_even(saved: Callable[[float], float]) -> float | None:
    """The number of subscriptions from which on `saved` is below zero; None if filtering always saves.

    The curve need not be monotonic (toggles peak in the middle), so it is scanned in small steps for the first such
    number.
    """
    low, high = 0.0, 1.0
    if saved(low) < 0:
        raise InvalidInputError("filtering costs more than flooding even without subscriptions: is anything published?")
    while saved(high) >= 0:
        low, high = high, high * STRIDE
        if high > SUBSCRIPTIONS_MAX:
            return None
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if saved(middle) >= 0 else (low, middle)
    return low
