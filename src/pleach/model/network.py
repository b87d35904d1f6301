"""A network of the model: any tree, with the rates of subscriptions and publications per class and broker."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pleach.errors import InvalidInputError

Broker = str


class Rates(NamedTuple):
    """Of one class at one broker (S1 §3.5.4): λ, µ and ω, per second."""

    arrivals: float = 0.0
    departures: float = 1.0  # of one subscription: 1 / lifetime
    publications: float = 0.0

    @property
    def subscriptions(self) -> float:
        """Active on average (3.16)."""
        return self.arrivals / self.departures


@dataclass(frozen=True)
class FilterClass:
    """Clients with the same subscriptions and publications."""

    at: Mapping[Broker, Rates]
    count: int = 1  # number of equal classes

    @property
    def publications(self) -> float:
        """ω_f (3.36)."""
        return sum(rates.publications for rates in self.at.values())


@dataclass(frozen=True)
class Network:
    root: Broker
    children: Mapping[Broker, Sequence[Broker]]
    classes: Sequence[FilterClass]
    refresh: float  # ρ, seconds

    def __post_init__(self) -> None:
        if self.refresh <= 0:
            raise InvalidInputError(f"refresh is {self.refresh} s; it must be above 0")
        brokers = list(self.top_down())
        known = set(brokers)
        if len(known) != len(brokers):
            raise InvalidInputError("the brokers do not form a tree: one of them has two parents")
        for place in (broker for each in self.classes for broker in each.at):
            if place not in known:
                raise InvalidInputError(f"clients at broker {place!r}, which is not in the tree")
        _check_rates(self.classes)

    def top_down(self) -> Iterator[Broker]:
        """Brokers, parents first."""
        waiting, seen = [self.root], 0
        most = 1 + sum(map(len, self.children.values()))
        while waiting:
            broker = waiting.pop()
            seen += 1
            if seen > most:
                raise InvalidInputError("the brokers do not form a tree: there is a cycle")
            yield broker
            waiting.extend(reversed(self.children.get(broker, ())))

    @property
    def subscriptions(self) -> float:
        """Active on average."""
        return sum(each.count * rates.subscriptions for each in self.classes for rates in each.at.values())

    @property
    def links(self) -> int:
        """l' (3.47, 3.48)."""
        return sum(len(self.children.get(broker, ())) for broker in self.top_down())


def scaled(network: Network, factor: float) -> Network:
    """The network with the number of subscribers multiplied by `factor`."""
    classes = [
        FilterClass({b: r._replace(arrivals=r.arrivals * factor) for b, r in each.at.items()}, each.count)
        for each in network.classes
    ]
    return replace(network, classes=classes)


def _check_rates(classes: Sequence[FilterClass]) -> None:
    for rates in (rates for each in classes for rates in each.at.values()):
        if rates.departures <= 0 or rates.arrivals < 0 or rates.publications < 0:
            raise InvalidInputError(f"{rates}: departures must be above 0, the other rates 0 or more")
    if any(each.count < 1 for each in classes):
        raise InvalidInputError("count of a class is below 1; omit the class instead")
