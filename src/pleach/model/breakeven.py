"""The break-even point: the number of subscriptions up to which filtering saves messages compared with flooding."""

from collections.abc import Callable

from pleach.errors import InvalidInputError

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
