"""A network described in TOML, for `pleach model FILE` (docs/reference/model.md)."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pleach.errors import InvalidInputError
from pleach.model.network import Broker, FilterClass, Network, Rates

EVERYWHERE = "*"  # every broker that is not named


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
