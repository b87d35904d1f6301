"""What is told about one side of a link, with and without covering (beyond S1, which leaves it open in §3.5.5).

Each class is covered by each other one with probability c, independently. A class is told if somebody wants
it and nobody a class that covers it; an event of a class is wanted if anybody wants it or what covers it.
With c = 0 this is identity-based routing. (Real covers are transitive; independent ones are so only in part:
the model is good for small c, and says so by being compared with simulations.)
"""

from collections.abc import Sequence
from math import exp, log1p
from typing import NamedTuple


class Side(NamedTuple):
    """All brokers behind one end of a link, and one class (or several that are alike)."""

    alike: int  # classes that this stands for
    subscriptions: float  # of each of them
    arrivals: float  # λ_a (3.51)
    publications: float

    @property
    def nobody(self) -> float:
        """P_0 (3.35, 3.37): the product over brokers is the exponential of a sum."""
        return exp(-self.subscriptions)


class Wish(NamedTuple):
    """Of one class."""

    told: float  # probability that the other side has an entry for it
    wanted: float  # probability that its events go there
    toggles: float  # (un)subscriptions per second


def wishes(behind: Sequence[Side], cover: float) -> list[Wish]:
    if cover == 0:
        return [Wish(1 - side.nobody, 1 - side.nobody, 2 * side.arrivals * side.nobody) for side in behind]
    # per class of each kind: the chance that it covers nothing of ours (log), and how often it begins to
    free = [log1p(-cover * (1 - side.nobody)) for side in behind]
    begins = [cover * side.arrivals * side.nobody / (1 - cover * (1 - side.nobody)) for side in behind]
    all_free = sum(side.alike * each for side, each in zip(behind, free, strict=True))
    all_begin = sum(side.alike * each for side, each in zip(behind, begins, strict=True))
    return [
        _wish(side, exp(all_free - free[place]), all_begin - begins[place])  # no class covers itself
        for place, side in enumerate(behind)
    ]


def _wish(side: Side, uncovered: float, begins: float) -> Wish:
    """An entry begins with a first subscription that nothing covers, or ends with a first cover.

    In equilibrium the reverse is as frequent.
    """
    changes = side.arrivals * side.nobody * uncovered + (1 - side.nobody) * uncovered * begins
    return Wish((1 - side.nobody) * uncovered, 1 - side.nobody * uncovered, 2 * changes)
