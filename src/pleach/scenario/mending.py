"""The time that a network needs to mend damaged state, as the trace declares it to the oracle.

Tables are right again Δ after a fault, if nothing stands in the way meanwhile: every broker runs, every link carries
what it is given within δmax, and none is about to be exchanged. An entry that should not exist stays while its source
is silent (docs/protocols/leases.md), and a broker that comes back begins its periods anew. The state in which a network
is when a *disturbance* ends is a damaged state like any other: Δ counts from there.

Rule 1: a disturbance that begins before Δ has passed, or has begun before the fault, postpones the end to Δ after its
        own end.
Rule 2: the record of that end says so, and since when: `stabilises=Δ flight=F since=T`. What lies between is not
        judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Mending:
    """`within`: Δ; `flight`: the longest time that an event travels. In seconds."""

    within: float
    flight: float
    _since: float = 0.0  # the fault that is being mended, or was last
    _until: float = -1.0
    _open: dict[str, float] = field(default_factory=dict)  # disturbances, and when they began

    def struck(self, fault: str, now: float, *, lasts: float = 0.0) -> str:
        """A fault has damaged state; returns the detail of its record."""
        if not self._is_under_way(now):
            self._since = now
        self._until = max(self._until, now + lasts + self.within)
        return f"{fault} stabilises={lasts + self.within:.9g} flight={self.flight:.9g}"

    def begins(self, disturbance: str, now: float) -> None:
        self._open.setdefault(disturbance, now)

    def ends(self, disturbance: str, now: float) -> str:
        """Returns what to add to the detail of the record of the end; empty where nothing was being mended."""
        began = self._open.pop(disturbance, now)
        if began > self._until and not self._is_under_way(now):
            return ""
        self._until = max(self._until, now + self.within)
        return f" stabilises={self.within:.9g} flight={self.flight:.9g} since={self._since:.9g}"

    def _is_under_way(self, now: float) -> bool:
        return now <= self._until or any(began <= self._until for began in self._open.values())
