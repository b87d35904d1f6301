"""Matching: which destinations want an event, among many filters (see `matching.py` for how)."""

from __future__ import annotations

from pleach.core.events.index.matching import MatchingIndex

__all__ = ["MatchingIndex"]
