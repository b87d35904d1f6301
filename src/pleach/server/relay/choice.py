"""The choice between the direct way to a neighbour and a relay, of one link; no clock, no sockets.

    direct ── down, and nothing heard for `after` ──▶ relays are asked, at growing intervals ──▶ relayed
    relayed ── enough probes of the direct way were answered, one after the other ──▶ direct

Rule 1: the side that dials the direct way has its turn first. The other side may reach what that one does not; it waits
        until the link has been down for `after`, so that the two do not end each other's connections.
Rule 2: a link goes back after PROBES_NEEDED answers in a row. If it is relayed again soon, twice as many are needed
        then: a way that comes and goes moves the link ever more seldom.
"""

from __future__ import annotations

PROBE_SECONDS = 1.0  # between probes of the direct way
PROBES_NEEDED, PROBES_NEEDED_MAX = 3, 300
PATIENCE = 3  # of the side that does not dial: as many times more probes
SOON_SECONDS = 60.0  # a link that is relayed again within this time has come back too early
ATTEMPT_SECONDS_MIN, ATTEMPT_SECONDS_MAX = 0.25, 5.0  # between attempts to find a relay: doubled each time


class PathChoice:
    def __init__(self, after: float, now: float) -> None:
        self._after = after
        self._heard_at = now
        self._down_at: float | None = None
        self._attempts = 0
        self._attempt_at = 0.0
        self._probe_at = 0.0
        self._answered = 0  # probes, one after the other
        self._needed = PROBES_NEEDED
        self._returned_at: float | None = None

    def heard(self, at: float) -> None:
        """The link is up, and something was heard at this time."""
        self._heard_at, self._down_at, self._attempts = at, None, 0

    def down(self, now: float) -> None:
        if self._down_at is None:
            self._down_at = self._attempt_at = now

    def down_seconds(self, now: float) -> float:
        return 0.0 if self._down_at is None else now - self._down_at

    def is_relay_due(self, now: float, *, dials: bool) -> bool:
        """Whether others are to be asked now. `dials`: this side dials the direct way (rule 1)."""
        if self._down_at is None or now < self._attempt_at:
            return False
        return now - self._heard_at >= self._after and (dials or now - self._down_at >= self._after)

    def attempted(self, now: float) -> None:
        seconds = ATTEMPT_SECONDS_MIN * 2**self._attempts
        self._attempts += seconds < ATTEMPT_SECONDS_MAX
        self._attempt_at = now + min(seconds, ATTEMPT_SECONDS_MAX)

    # While it is relayed -------------------------------------------------------------------------------------

    def relayed(self, now: float) -> None:
        """A connection through a relay is up."""
        is_soon = self._returned_at is not None and now - self._returned_at < SOON_SECONDS
        self._needed = min(2 * self._needed, PROBES_NEEDED_MAX) if is_soon else PROBES_NEEDED
        self._answered, self._probe_at = 0, now + PROBE_SECONDS

    def is_probe_due(self, now: float) -> bool:
        return now >= self._probe_at

    def probed(self, now: float, *, is_answered: bool) -> None:
        self._answered = self._answered + 1 if is_answered else 0
        self._probe_at = now + PROBE_SECONDS

    def is_return_due(self, *, dials: bool) -> bool:
        return self._answered >= self._needed * (1 if dials else PATIENCE)

    def returned(self, now: float) -> None:
        """The link is about to be direct again."""
        self._returned_at, self._answered = now, 0
