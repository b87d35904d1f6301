"""What an operator sees of tables that are rebuilt in turn (stabilise/paced.py): rounds, and what they found wrong.

Without faults rounds rise by one every π, the last one is hardly older than π, and nothing is found wrong but what was
just being asked for. Where rounds stand still and musters rise, somebody is waited for: `away` in /status says whom. Or
two brokers take themselves for the root: who stands between them has it in its log, and as `two_roots` in /status.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pleach.core.broker import Broker
from pleach.core.effects import Effect
from pleach.core.stabilise.paced import PacedRebuild, Rivals
from pleach.server.lease_metrics import LeaseMetrics
from pleach.server.metrics import Counters

log = logging.getLogger(__name__)

COUNTED = ("rounds", "missing", "extra", "vouched", "musters")  # of the machine, and with `rebuild_` of the counters


class RebuildMetrics(LeaseMetrics):
    """Counts for a broker that rebuilds its tables."""

    def __init__(self, broker: Broker, rebuild: PacedRebuild, counters: Counters) -> None:
        super().__init__(broker, rebuild, counters)
        self._rebuild = rebuild
        self._before = {key: getattr(rebuild.counters, key) for key in COUNTED}  # what a recovery has done again
        self._rivals: Rivals | None = None

    def did(self, effects: Sequence[Effect]) -> None:
        super().did(effects)
        for key, before in self._before.items():
            setattr(self._counters, f"rebuild_{key}", getattr(self._rebuild.counters, key) - before)
        self._warn(self._rebuild.rivals)

    def _warn(self, rivals: Rivals | None) -> None:
        """Once for each two."""
        if rivals is not None and rivals != self._rivals:
            log.warning("%s", rivals)
        self._rivals = rivals


def two_roots(rebuild: PacedRebuild | None) -> str:
    """Which, and what to do; empty where there is one, as it should be."""
    return "" if rebuild is None or rebuild.rivals is None else str(rebuild.rivals)


def seconds_since_round(rebuild: PacedRebuild | None, now: float) -> float | None:
    """None where there has been no round, or nothing is rebuilt."""
    if rebuild is None or rebuild.counters.last_round_at is None:
        return None
    return max(now - rebuild.counters.last_round_at, 0.0)
