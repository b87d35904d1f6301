"""An index of the filters of a trace: which of them match an event.

The oracle checks the network's own index, so it has this simple one: a filter that requires one of a few values of some
attribute (`topic = 't1'`) is evaluated only for events with such a value. The result is always that of
`Filter.matches`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pleach.core.events.constraint import Conjunction
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.errors import FilterError, TraceError
from pleach.trace.records import attributes_from

Pivot = tuple[str, Any]  # an attribute's name and a value that it must have

KNOWN_MAX = 65_536  # answers kept; a trace may have as many attributes as events
PARSED_MAX = 4_096  # thousands of small traces of one scenario are judged in a row


class Candidates:
    def __init__(self, texts: Iterable[str]) -> None:
        self._always: list[tuple[str, Filter]] = []
        self._by_pivot: dict[Pivot, list[tuple[str, Filter]]] = defaultdict(list)
        self._known: dict[str, frozenset[str]] = {}  # by attributes
        self._answers: dict[frozenset[str], frozenset[str]] = {}  # one copy of each
        self._texts: set[str] = set()
        for text in sorted(set(texts)):
            self.add(text)

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: str) -> bool:
        """False: it was known. Answers to earlier questions did not regard a new one."""
        if text in self._texts:
            return False
        self._enter(text, _parsed(text))
        self._texts.add(text)
        self._known.clear()
        self._answers.clear()
        return True

    def matching(self, attributes: str) -> frozenset[str]:
        """The texts of the filters that match an event with these attributes (as JSON)."""
        known = self._known.get(attributes)
        if known is None:
            answer = self._match(attributes_from(attributes))
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[attributes] = self._answers.setdefault(answer, answer)
        return known

    def _match(self, attributes: dict[str, Any]) -> frozenset[str]:
        asked = dict(self._always)
        for pivot in attributes.items():
            asked.update(self._by_pivot.get(pivot, ()))
        return frozenset(text for text, wanted in asked.items() if wanted.matches(attributes))

    def _enter(self, text: str, wanted: Filter) -> None:
        pivots = [_pivots(conjunction) for conjunction in wanted.conjunctions]
        if not all(pivots):
            self._always.append((text, wanted))
            return
        for pivot in {pivot for choice in pivots for pivot in choice}:
            self._by_pivot[pivot].append((text, wanted))


@lru_cache(maxsize=PARSED_MAX)
def _parsed(text: str) -> Filter:
    try:
        return parse_filter(text)
    except FilterError as error:
        raise TraceError(f"a subscription's filter {text[:80]!r} does not parse: {error.reason}") from None


def _pivots(conjunction: Conjunction) -> list[Pivot]:
    """The conjunction needs one of these; empty where there is no such list."""
    choices = ((name, constraint.points()) for name, constraint in conjunction.constraints.items())
    listed = [[(name, value) for value in values] for name, values in choices if values]
    return min(listed, key=len, default=[])
