"""Clocks that recur: spread at the beginning, and late by one period at most, whatever a fault makes of them."""

from __future__ import annotations

import math
from zlib import crc32


def phase_of(name: str, every: float) -> float:
    """When something that recurs is due first: spread, so that not all come at once, and the same in every run."""
    return every * (crc32(name.encode()) + 1) / 2**32


def within(seconds: float, period: float) -> float:
    """What a clock says that counts modulo its period."""
    return seconds % period or period if math.isfinite(seconds) else period
