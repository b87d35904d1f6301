"""Where to find the filters that overlap a given one, among many with several holders each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from pleach.core.events.cover_index import CoverIndex
from pleach.core.events.filter import Filter

Holder = TypeVar("Holder")


class FilterMap(Generic[Holder]):
    """Filters with their holders; a filter is indexed once, however many hold it."""

    def __init__(self) -> None:
        self._index = CoverIndex()
        self._holders: dict[Filter, dict[Holder, None]] = {}

    def add(self, key: Filter, holder: Holder) -> None:
        if key not in self._holders:
            self._index.add(key)
            self._holders[key] = {}
        self._holders[key][holder] = None

    def remove(self, key: Filter, holder: Holder) -> None:
        holders = self._holders.get(key, {})
        holders.pop(holder, None)
        if key in self._holders and not holders:
            self._index.remove(key)
            del self._holders[key]

    def overlaps_any(self, probe: Filter) -> bool:
        return probe in self._holders or self._index.any_overlapping(probe) is not None

    def overlapping(self, probe: Filter) -> Iterator[tuple[Filter, Holder]]:
        for key in sorted({*self._index.overlapping(probe)} | ({probe} & self._holders.keys())):
            for holder in self._holders[key]:
                yield key, holder
