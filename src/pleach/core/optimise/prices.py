"""Configured costs of links and brokers: by zones, by single links, by defaults.

    link = 40.0          # a link without another entry
    within = 1.0         # a link within a zone
    processing = 0.2     # an event at a broker

    [zones]
    eu = ["rome", "paris"]
    us = ["boston", "austin"]

    [[between]]          # a link from one zone to another
    zones = ["eu", "us"]
    cost = 45.0

    [[links]]            # a single link
    ends = ["rome", "boston"]
    cost = 60.0

    [brokers]            # an event at this broker
    rome = 0.5

The most specific entry applies: a single link before zones, zones before `link`. Any unit works, e.g. milliseconds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain, combinations
from math import isfinite

import msgspec

from pleach.core.messages import Node
from pleach.core.optimise.cost import Costs
from pleach.core.overlay.plans.topology import Link, link
from pleach.errors import PriceError, place_and_reason

LINK_DEFAULT = 1.0  # without processing costs: the cost is the number of links that events cross
PROCESSING_DEFAULT = 0.0


class _Between(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    zones: tuple[str, str]
    cost: float


class _Single(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ends: tuple[Node, Node]
    cost: float


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    link: float = LINK_DEFAULT
    within: float | None = None
    processing: float = PROCESSING_DEFAULT
    zones: dict[str, list[Node]] = {}
    between: list[_Between] = []
    links: list[_Single] = []
    brokers: dict[Node, float] = {}


@dataclass(frozen=True)
class Prices:
    link: float = LINK_DEFAULT
    within: float = LINK_DEFAULT
    processing: float = PROCESSING_DEFAULT
    zone: Mapping[Node, str] = field(default_factory=dict)
    between: Mapping[Link, float] = field(default_factory=dict)  # two zones, sorted
    links: Mapping[Link, float] = field(default_factory=dict)
    brokers: Mapping[Node, float] = field(default_factory=dict)
    source: str = "costs"

    def in_zones(self, zone: Mapping[Node, str]) -> Prices:
        """With the zones that brokers report, unless the file has zones."""
        return self if self.zone else replace(self, zone=zone)

    def costs(self, brokers: Iterable[Node]) -> Costs:
        """For these brokers; raises PriceError for an unknown broker or zone."""
        everyone = sorted(brokers)
        _check_zones({*chain.from_iterable(self.between)}, {*self.zone.values()}, self.source)
        for name in sorted({*self.zone, *self.brokers, *chain.from_iterable(self.links)} - {*everyone}):
            raise PriceError(f"{self.source}: {name!r} is not a broker of the tree{_meant(name, everyone)}")
        return Costs(
            {name: self.brokers.get(name, self.processing) for name in everyone},
            {(a, b): self._of_link(a, b) for a, b in combinations(everyone, 2)},
        )

    def _of_link(self, a: Node, b: Node) -> float:
        if link(a, b) in self.links:
            return self.links[link(a, b)]
        if a not in self.zone or b not in self.zone:
            return self.link
        pair = link(self.zone[a], self.zone[b])
        return self.between.get(pair, self.within if pair[0] == pair[1] else self.link)


def read_prices(text: str, *, source: str = "costs") -> Prices:
    """Raises PriceError, with the key."""
    file = _decoded(text, source)
    zone: dict[Node, str] = {}
    for name, brokers in file.zones.items():
        for broker in brokers:
            if zone.setdefault(broker, name) != name:
                raise PriceError(f"{source}: zones: {broker!r} is in {zone[broker]!r} and in {name!r}; choose one")
    if file.zones:  # else brokers report their zones
        _check_zones({*chain.from_iterable(each.zones for each in file.between)}, {*file.zones}, source)
    found = Prices(
        file.link,
        file.link if file.within is None else file.within,
        file.processing,
        zone,
        {link(*each.zones): each.cost for each in file.between},
        {link(*each.ends): each.cost for each in file.links},
        file.brokers,
        source,
    )
    _check_amounts(found)
    return found


def _decoded(text: str, source: str) -> _File:
    try:
        return msgspec.convert(tomllib.loads(text), type=_File)
    except tomllib.TOMLDecodeError as error:
        raise PriceError(f"{source}: invalid TOML: {error}") from None
    except msgspec.ValidationError as error:
        where, reason = place_and_reason(error)
        raise PriceError(f"{source}: {f'{where}: ' if where else ''}{reason}") from None


def _check_zones(named: set[str], known: set[str], source: str) -> None:
    for name in sorted(named - known):
        raise PriceError(f"{source}: between: there is no zone {name!r}{_meant(name, sorted(known))}")


def _check_amounts(prices: Prices) -> None:
    amounts = {"link": prices.link, "within": prices.within, "processing": prices.processing}
    amounts |= {f"between: {a}, {b}": cost for (a, b), cost in prices.between.items()}
    amounts |= {f"links: {a}, {b}": cost for (a, b), cost in prices.links.items()}
    amounts |= {f"brokers: {name}": cost for name, cost in prices.brokers.items()}
    for key, cost in amounts.items():
        if not (isfinite(cost) and cost >= 0):
            raise PriceError(f"{prices.source}: {key}: {cost}; a cost is a number, 0 or more")


def _meant(wrong: str, known: list[str]) -> str:
    close = get_close_matches(wrong, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known[:20]) or 'none'}"
