"""The entries for one side of a link, with and without covering (an extension: S1 leaves covering open in §3.5.5).

Each class is covered by each other class with probability c, independently. A class has an entry if it has subscribers
and no class that covers it has; its events are forwarded if it or a class that covers it has subscribers. With c = 0
this is identity-based routing. Real covers are transitive, independent ones only in part: the model is accurate for
small c, as comparisons with simulations show.
"""

from collections.abc import Sequence
from math import exp, log1p
from typing import NamedTuple


class Side(NamedTuple):
    """All brokers behind one end of a link, for one class (or several equal ones)."""

    alike: int  # number of equal classes
    subscriptions: float  # of each of them
    arrivals: float  # λ_a (3.51)
    publications: float

    @property
    def nobody(self) -> float:
        """P_0 (3.35, 3.37): the product over brokers is the exponential of a sum."""
        return exp(-self.subscriptions)


class ClassDemand(NamedTuple):
    """Of one class, for one side of a link."""

    told: float  # probability that the other side has an entry for it
    wanted: float  # probability that its events go there
    toggles: float  # (un)subscriptions per second


def class_demands(behind: Sequence[Side], cover: float) -> list[ClassDemand]:
    if cover == 0:
        return [ClassDemand(1 - side.nobody, 1 - side.nobody, 2 * side.arrivals * side.nobody) for side in behind]
    # per class of each kind: log probability that it covers nothing here, and the rate at which it begins to
    free = [log1p(-cover * (1 - side.nobody)) for side in behind]
    begins = [cover * side.arrivals * side.nobody / (1 - cover * (1 - side.nobody)) for side in behind]
    all_free = sum(side.alike * each for side, each in zip(behind, free, strict=True))
    all_begin = sum(side.alike * each for side, each in zip(behind, begins, strict=True))
    return [
        _class_demand(side, exp(all_free - free[place]), all_begin - begins[place])  # a class does not cover itself
        for place, side in enumerate(behind)
    ]


def _class_demand(side: Side, uncovered: float, begins: float) -> ClassDemand:
    """An entry is added by a first subscription that is not covered, or removed by a first cover.

    In equilibrium the reverse is equally frequent.
    """
    changes = side.arrivals * side.nobody * uncovered + (1 - side.nobody) * uncovered * begins
    return ClassDemand((1 - side.nobody) * uncovered, 1 - side.nobody * uncovered, 2 * changes)
