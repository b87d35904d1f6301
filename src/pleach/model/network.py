"""A network of the model: any tree, with the rates of subscriptions and publications per class and broker."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

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


EVERYWHERE = "*"  # every broker that is not named


# A network described in TOML, for `pleach model FILE` (docs/reference/model.md) ---------------------------------------


class ClassTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """[[classes]]"""

    lifetime: float  # seconds, of a subscription
    subscriptions: dict[Broker, float] = {}  # active on average
    publications: dict[Broker, float] = {}  # per second
    count: int = 1


class NetworkTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    root: Broker
    links: list[tuple[Broker, Broker]]
    refresh: float  # seconds
    classes: list[ClassTable]


def load_network(path: Path) -> Network:
    try:
        table = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), NetworkTable, strict=True)
        return _network(table)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, InvalidInputError) as error:
        raise InvalidInputError(f"{path}: {error}") from None


def _network(table: NetworkTable) -> Network:
    children = _grown(table.root, table.links)
    brokers = [table.root, *(child for below in children.values() for child in below)]
    classes = [FilterClass(_rates(each, brokers), each.count) for each in table.classes]
    return Network(table.root, children, classes, table.refresh)


def _grown(root: Broker, links: list[tuple[Broker, Broker]]) -> dict[Broker, list[Broker]]:
    """The children of each broker, from undirected links."""
    neighbours: dict[Broker, list[Broker]] = {root: []}
    for here, there in links:
        neighbours.setdefault(here, []).append(there)
        neighbours.setdefault(there, []).append(here)
    if len(links) != len(neighbours) - 1:
        raise InvalidInputError(f"{len(links)} links between {len(neighbours)} brokers do not make a tree")
    children: dict[Broker, list[Broker]] = {}
    waiting, seen = [root], {root}
    while waiting:
        broker = waiting.pop()
        children[broker] = [each for each in neighbours[broker] if each not in seen]
        seen.update(children[broker])
        waiting.extend(children[broker])
    if missing := sorted(set(neighbours) - seen):
        raise InvalidInputError(f"no path leads from the root {root!r} to {', '.join(map(repr, missing[:5]))}")
    return children


def _rates(each: ClassTable, brokers: list[Broker]) -> dict[Broker, Rates]:
    if each.lifetime <= 0:
        raise InvalidInputError(f"lifetime is {each.lifetime} s; it must be above 0")
    for name in (*each.subscriptions, *each.publications):
        if name != EVERYWHERE and name not in brokers:
            raise InvalidInputError(f"clients at broker {name!r}, which is not in the tree")
    departures = 1 / each.lifetime
    return {
        broker: Rates(_at(each.subscriptions, broker) * departures, departures, _at(each.publications, broker))
        for broker in brokers
    }


def _at(values: Mapping[Broker, float], broker: Broker) -> float:
    return values.get(broker, values.get(EVERYWHERE, 0.0))
