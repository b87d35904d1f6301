"""Filters in normal form: a disjunction of conjunctions of one constraint per attribute.

    topic = 't1' AND price > 50 OR NOT EXISTS topic
    └── Conjunction ──────────┘    └─ Conjunction ┘

Filters are immutable and hash by content. Texts become filters in `language.py`, filters become texts in
`spelling.py`; `normalise.py` brings them into a form in which most equivalent filters are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from pleach.core.events.constraint import Conjunction
from pleach.core.events.spelling import spell


class Filter:
    """A disjunction of conjunctions; an empty one matches nothing."""

    def __init__(self, conjunctions: Iterable[Conjunction]) -> None:
        self.conjunctions = tuple(conjunctions)
        self._hash = hash(self.conjunctions)

    def matches(self, attributes: Mapping[str, Any]) -> bool:
        for conjunction in self.conjunctions:  # noqa: SIM110 - `any` takes half as long again
            if conjunction.matches(attributes):
                return True
        return False

    @cached_property
    def text(self) -> str:
        """The canonical text; parsing it gives an equal filter."""
        return spell(self.conjunctions)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Filter) and self.conjunctions == other.conjunctions)

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: Filter) -> bool:
        return self.text < other.text

    def __repr__(self) -> str:
        return f"Filter<{self.text}>"
