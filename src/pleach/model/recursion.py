"""The recursion for any tree with rates per broker and class (S1 §3.5.4, equations 3.35–3.57).

Everything follows from one probability per direction of a link: that the side behind it has subscribers of a class.
With hierarchical routing this concerns children only, and every event goes to the root; with peer-to-peer routing (an
extension of S1) both directions of a link.

Two corrections of S1: (3.42) sums over children where it must sum over all descendants, as (3.45) does; (3.53) counts
the toggles of the root, which has no parent to send them to.

Covering (an extension: S1 leaves it open in §3.5.5): each class is covered by each other class with probability c,
independently. A class has an entry if it has subscribers and no class that covers it has; its events are forwarded if
it or a class that covers it has subscribers. With c = 0 this is identity-based routing. Real covers are transitive,
independent ones only in part: the model is accurate for small c, as comparisons with simulations show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log1p
from typing import NamedTuple

from pleach.errors import InvalidInputError
from pleach.model.costs import Costs
from pleach.model.network import Broker, FilterClass, Network, Rates

NOBODY = Rates()


class Crossing(NamedTuple):
    """One direction of a link: the side behind it, and the events published on this side, by class."""

    behind: Sequence[Side]
    published: Sequence[float]  # of each class, per second
    must_pass: Sequence[float]  # published behind it and sent to the root over this link in any case


def costs(network: Network, *, hierarchical: bool = True, cover: float = 0.0) -> Costs:
    """`cover`: the probability that one class covers another; 0 is identity-based routing."""
    if not 0 <= cover < 1:
        raise InvalidInputError(f"the probability of cover is {cover}; it must be at least 0 and below 1")
    entries = filtering = detour = toggles = 0.0
    for crossing in _crossings(network, hierarchical=hierarchical):
        told = class_demands(crossing.behind, cover)
        for side, demand, published, passing in zip(
            crossing.behind, told, crossing.published, crossing.must_pass, strict=True
        ):
            entries += side.alike * demand.told
            toggles += side.alike * demand.toggles
            filtering += side.alike * published * demand.wanted
            detour += side.alike * passing * (1 - demand.wanted)
    published = sum(each.count * each.publications for each in network.classes)
    return Costs(entries, published * network.links, filtering, detour, entries / network.refresh, toggles)


def _crossings(network: Network, *, hierarchical: bool) -> Iterator[Crossing]:
    below = _subtrees(network)
    whole = below.pop(network.root)
    for subtree in below.values():
        inside = [side.publications for side in subtree]
        if hierarchical:
            yield Crossing(subtree, [side.publications for side in whole], inside)
            continue
        rest = [_without(all_, part) for all_, part in zip(whole, subtree, strict=True)]
        nothing = [0.0] * len(whole)
        yield Crossing(subtree, [side.publications for side in rest], nothing)
        yield Crossing(rest, inside, nothing)


def _subtrees(network: Network) -> dict[Broker, list[Side]]:
    """Sums over the subtree of each broker, children first (3.37, 3.51)."""
    found: dict[Broker, list[Side]] = {}
    for broker in reversed(list(network.top_down())):
        below = [found[child] for child in network.children.get(broker, ())]
        found[broker] = [
            _joined(each, each.at.get(broker, NOBODY), [sides[place] for sides in below])
            for place, each in enumerate(network.classes)
        ]
    return found


def _joined(each: FilterClass, here: Rates, below: Sequence[Side]) -> Side:
    return Side(
        each.count,
        here.subscriptions + sum(side.subscriptions for side in below),
        here.arrivals + sum(side.arrivals for side in below),
        here.publications + sum(side.publications for side in below),
    )


def _without(whole: Side, part: Side) -> Side:
    """The other side of the link, without negative rates from rounding."""
    return Side(
        whole.alike,
        max(whole.subscriptions - part.subscriptions, 0.0),
        max(whole.arrivals - part.arrivals, 0.0),
        max(whole.publications - part.publications, 0.0),
    )


# The entries for one side of a link -----------------------------------------------------------------------------------


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
