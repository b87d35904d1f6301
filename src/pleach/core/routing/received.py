"""Received entries by destination, each with a lease flag.

With leases (core/stabilise) the flag is set when the entry arrives and whenever it is renewed. A tick removes entries
without a flag and clears the other flags (the second chance of S1 §3.3.1). Without leases all flags stay set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pleach.core.messages import Node
from pleach.core.routing.entries import Change, Entry


class Received:
    def __init__(self) -> None:
        self._flags: dict[Node, dict[Entry, bool]] = {}

    def __iter__(self) -> Iterator[tuple[Node, Entry]]:
        return ((source, entry) for source, entries in self._flags.items() for entry in entries)

    def of(self, source: Node) -> Sequence[Entry]:
        return sorted(self._flags.get(source, ()))

    def has(self, source: Node, entry: Entry) -> bool:
        return entry in self._flags.get(source, ())

    def is_fresh(self, source: Node, entry: Entry) -> bool:
        return self._flags.get(source, {}).get(entry, False)

    def put(self, source: Node, entry: Entry) -> None:
        """Add or renew an entry."""
        self._flags.setdefault(source, {})[entry] = True

    def remove(self, source: Node, entry: Entry) -> None:
        del self._flags[source][entry]
        if not self._flags[source]:
            del self._flags[source]

    def replace(self, gone: Iterable[Node], received: Mapping[Node, Iterable[Entry]]) -> Change:
        """Replace sources, and return the change of all received entries, as a link that stays sees it."""
        before = Counter(entry for source in gone for entry in self._flags.pop(source, ()))
        for source, entries in sorted(received.items()):
            if known := dict.fromkeys(sorted(entries), True):
                self._flags[source] = known
        after = Counter(entry for source in received for entry in self._flags.get(source, ()))
        return Change(tuple((after - before).elements()), tuple((before - after).elements()))

    # Leases --------------------------------------------------------------------------------------------------

    def stale(self) -> list[tuple[Node, Entry]]:
        """Entries that were not renewed since the last `age`."""
        found = [(source, entry) for source, flags in self._flags.items() for entry, flag in flags.items() if not flag]
        return sorted(found)

    def age(self) -> None:
        for flags in self._flags.values():
            flags.update(dict.fromkeys(flags, False))

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> dict[Node, list[Entry]]:
        return {source: sorted(entries) for source, entries in sorted(self._flags.items())}

    def captured_stale(self) -> dict[Node, list[Entry]]:
        found: dict[Node, list[Entry]] = {}
        for source, entry in self.stale():
            found.setdefault(source, []).append(entry)
        return found

    def restore(self, received: Mapping[Node, Iterable[Entry]], stale: Mapping[Node, Iterable[Entry]]) -> None:
        for source, entries in received.items():
            flagless = frozenset(stale.get(source, ()))
            self._flags[source] = {entry: entry not in flagless for entry in entries}
