"""Deterministic timing: jitter and start phases that follow from names, so that every run has the same ones."""

from __future__ import annotations

import math
from zlib import crc32


def jitter(name: str) -> float:
    """A factor from 0.5 to 1.5 for a delay: two parties that met once must not meet again after the same delay."""
    return 0.5 + crc32(name.encode()) / 2**32


def phase_of(name: str, every: float) -> float:
    """The first delay of a timer that recurs `every` so many seconds; timers of different names do not coincide."""
    return every * (crc32(name.encode()) + 1) / 2**32


def within(seconds: float, period: float) -> float:
    """A timer modulo its period: a damaged one is late by one period at most."""
    return seconds % period or period if math.isfinite(seconds) else period
