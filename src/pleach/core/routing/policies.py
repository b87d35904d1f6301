"""Routing policies: how the entries that a broker exports to a neighbour are reduced.

A broker exports `reduce(entries of every destination except N)` to neighbour N; policies differ only in `reduce` (S1
§2.2.3). Each policy is defined twice: as a pure function of the whole set, which is the specification for tests, and as
the sequence of incremental stages that a broker runs.

    flooding   nothing: events go everywhere          covering   filters that no other covers
    simple     every subscription                     merging    the cover, its filters united where they differ in
    identity   equal filters once                                one attribute, and the cover of that
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from pleach.core.events.filter import Filter
from pleach.core.routing.entries import Entry
from pleach.core.routing.merged import Bucket, Merged, is_wider, merge_key, mergers, unite
from pleach.core.routing.stages import Counted, Distinct, MinimalCover, Stage, hides

Entries: TypeAlias = frozenset[Entry]


def flooding(_entries: Iterable[Entry], _bound: float = 0.0) -> Entries:
    return frozenset()


def simple(entries: Iterable[Entry], _bound: float = 0.0) -> Entries:
    return frozenset(entries)


def identity(entries: Iterable[Entry], _bound: float = 0.0) -> Entries:
    return frozenset(Entry("", entry.filter) for entry in entries)


def covering(entries: Iterable[Entry], _bound: float = 0.0) -> Entries:
    distinct = identity(entries)
    return frozenset(e for e in distinct if not any(hides(other.filter, e.filter) for other in distinct - {e}))


def merging(entries: Iterable[Entry], bound: float = 0.0) -> Entries:
    groups: dict[Bucket | Filter, list[Filter]] = {}
    for entry in covering(entries):
        groups.setdefault(merge_key(entry.filter), []).append(entry.filter)
    united = {key: unite(key, members, bound) for key, members in groups.items() if isinstance(key, Bucket)}
    filters = {key for key in groups if isinstance(key, Filter)}
    for bucket, wanted in united.items():
        filters |= mergers(bucket, wanted, [united[other] for other in united if is_wider(other, bucket)])
    return covering(Entry("", merger) for merger in filters)


@dataclass(frozen=True)
class Policy:
    """`floods`: events go to every neighbour, and no entries are exported."""

    name: str
    reduce: Callable[[Iterable[Entry], float], Entries]
    stages: Callable[[float], Sequence[Stage]]
    floods: bool = False


POLICIES = MappingProxyType(
    {
        policy.name: policy
        for policy in (
            Policy("flooding", flooding, lambda _: (), floods=True),
            Policy("simple", simple, lambda _: (Counted(),)),
            Policy("identity", identity, lambda _: (Distinct(),)),
            Policy("covering", covering, lambda _: (Distinct(), MinimalCover())),
            Policy("merging", merging, lambda bound: (Distinct(), MinimalCover(), Merged(bound), MinimalCover())),
        )
    }
)
