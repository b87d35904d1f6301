"""The matching index: which destinations want an event.

A filter is indexed as its conjunctions, a conjunction under its two rarest equalities (attribute and value), or under
its only one, or at the root if it has none:

    root ─ cluster of those without equalities
      ├─ symbol = 'IBM' ─ cluster of those with this equality only
      │       ├─ venue = 'X'  ─ cluster
      │       └─ side = 'buy' ─ cluster
      └─ venue = 'X' ...

An event opens the clusters of its own values and of their pairs, which hold a small share of all conjunctions, and
each cluster (`clusters.py`) verifies the rest. The answer is the set of destinations: a destination is found once.

True, 1 and 1.0 are one key in a dictionary and not one value in a filter. They share a node here; the equality is then
verified like any other predicate (`placement.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from pleach.core.events.constraint import Conjunction
from pleach.core.events.filter import Filter
from pleach.core.events.index.clusters import Cluster, added, collect, removed
from pleach.core.events.index.grid import GridEntry
from pleach.core.events.index.placement import Equality, IndexPlacement, Popularity, choices, places


class Node:
    """One (attribute, value) of equalities; the root stands for none."""

    __slots__ = ("children", "cluster", "equality", "partners")

    def __init__(self, equality: Equality | None = None) -> None:
        self.equality = equality
        self.cluster: Cluster | None = None  # conjunctions with this equality only
        self.children: dict[Node, Cluster] = {}  # with a second, more frequent one: by the node of that
        self.partners = 0  # in how many entries it is the second

    @property
    def is_idle(self) -> bool:
        return self.cluster is None and not self.children and not self.partners


class _Placed(GridEntry):
    """An entry that knows its cluster: `node.children[partner]`, or `node.cluster` without a partner."""

    __slots__ = ("node", "partner")

    def __init__(self, destination: str, place: IndexPlacement, node: Node, partner: Node | None) -> None:
        super().__init__(destination, place.rest)
        self.node = node
        self.partner = partner


class _Record(NamedTuple):
    filter: Filter
    destination: str
    placed: tuple[_Placed, ...]


class MatchingIndex:
    """Filters under keys, each for a destination. Adding under a present key replaces; removing is idempotent."""

    def __init__(self) -> None:
        self._records: dict[Hashable, _Record] = {}
        self._destinations: dict[str, int] = {}  # with the number of their keys
        self._popularity = Popularity()
        self._root = Node()
        self._nodes: dict[str, dict[Any, Node]] = {}  # attribute → value → node

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._records

    def match(self, attributes: Mapping[str, Any]) -> set[str]:
        """The destinations with a filter that the event matches."""
        found: set[Hashable] = set()
        get = attributes.get
        if self._root.cluster is not None:
            collect(self._root.cluster, get, found)
        if len(found) == len(self._destinations):
            return cast("set[str]", found)
        nodes = self._nodes_of(attributes)
        for node in nodes:
            if node.cluster is not None:
                collect(node.cluster, get, found)
            children = node.children
            if children and not children.keys().isdisjoint(nodes):
                for partner in children.keys() & nodes:
                    collect(children[partner], get, found)
        return cast("set[str]", found)

    def _nodes_of(self, attributes: Mapping[str, Any]) -> set[Node]:
        """The nodes of the event's values. The shorter way: over its attributes, or over those with nodes."""
        by_name, get = self._nodes, attributes.get
        if len(by_name) <= len(attributes):
            nodes = {by_value.get(get(name)) for name, by_value in by_name.items()}
        else:
            nodes = {by_name[name].get(value) for name, value in attributes.items() if name in by_name}
        nodes.discard(None)
        return cast("set[Node]", nodes)

    def add(self, key: Hashable, filter: Filter, destination: str) -> None:  # noqa: A002
        self.remove(key)
        placed = [entry for part in filter.conjunctions for entry in self._placed(part, destination)]
        self._records[key] = _Record(filter, destination, tuple(placed))
        self._destinations[destination] = self._destinations.get(destination, 0) + 1

    def remove(self, key: Hashable) -> None:
        record = self._records.pop(key, None)
        if record is None:
            return
        for entry in record.placed:
            self._withdraw(entry)
        for conjunction in record.filter.conjunctions:
            self._popularity.remove(choices(conjunction))
        self._destinations[record.destination] -= 1
        if not self._destinations[record.destination]:
            del self._destinations[record.destination]

    def _placed(self, conjunction: Conjunction, destination: str) -> Iterator[_Placed]:
        """Put the conjunction where it belongs, as often as it must."""
        options = choices(conjunction)
        for place in places(conjunction, options, self._popularity):
            nodes = [self._node(equality) for equality in place.equalities]
            node = nodes[0] if nodes else self._root
            partner = nodes[1] if len(nodes) == 2 else None
            entry = _Placed(destination, place, node, partner)
            if partner is None:
                node.cluster = added(node.cluster, entry)
            else:
                partner.partners += 1
                node.children[partner] = added(node.children.get(partner), entry)
            yield entry
        self._popularity.add(options)

    def _withdraw(self, entry: _Placed) -> None:
        node, partner = entry.node, entry.partner
        if partner is None:
            assert node.cluster is not None, "an entry is in its cluster"
            node.cluster = removed(node.cluster, entry)
        else:
            partner.partners -= 1
            left = removed(node.children.pop(partner), entry)
            if left is not None:
                node.children[partner] = left
            self._forget_if_idle(partner)
        self._forget_if_idle(node)

    def _node(self, equality: Equality) -> Node:
        by_value = self._nodes.setdefault(equality.name, {})
        node = by_value.get(equality.value)
        if node is None:
            node = by_value[equality.value] = Node(equality)
        return node

    def _forget_if_idle(self, node: Node) -> None:
        if node.equality is None or not node.is_idle:
            return
        name, value = node.equality
        by_value = self._nodes[name]
        del by_value[value]
        if not by_value:
            del self._nodes[name]
