"""Quantiles of latencies in constant memory: counts by buckets, each a tenth wider than the one before."""

from __future__ import annotations

import math
from collections import Counter

LEAST_SECONDS = 1e-4
FACTOR = 1.1


class LatencyMeter:
    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        self._counts[max(0, math.ceil(math.log(max(seconds, LEAST_SECONDS) / LEAST_SECONDS, FACTOR)))] += 1

    def quantile(self, share: float) -> float:
        """At most a tenth more than the true one; 0.0 if there was nothing."""
        wanted, seen = share * self._counts.total(), 0
        for bucket, number in sorted(self._counts.items()):
            seen += number
            if seen >= wanted:
                return LEAST_SECONDS * FACTOR**bucket
        return 0.0

    def clear(self) -> None:
        self._counts.clear()
