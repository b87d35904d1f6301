"""The matching index: the destinations of an event, among many filters (`matching.py`).

Imports the filters of events/ and nothing else.
"""

from __future__ import annotations

from pleach.core.events.index.matching import MatchingIndex

__all__ = ["MatchingIndex"]
