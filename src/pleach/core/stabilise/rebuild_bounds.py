"""How long a round of rebuilding must be, and how long a network takes to find back: the bounds of S1 §3.4, mended.

d counts links on the longest way from a client to a broker, the client's own link among them (S1 leaves that one out:
there it takes no time). Every message takes δmin to δmax on each of them.

                        the period π must be more than              correct again after
    printed             ρ + 2d·δmax                                 2π + d·δmax             Theorem 1, (3.10)
    printed, two layers                                             2(2π + d·δmax)          (3.11)
    ours                ρ + (2d−1)δmax − δmin                       2π + (2d−1)δmax
    … on cycles         2(d−1)δmax + max(ρ + δmax − δmin, 2δmax)    3π + (d−1)δmax
    … two layers        (d−1)δmax more                              the same
    … flooding          (d−1)δmax less                              the same
    with evidence       ρ + (2d−1)δmax − δmin                       3π + (2d−1)δmax         paced.py, decision 32
    … two layers        2(d−1)δmax more                             the same

What each part is there for stands in docs/protocols/rebuild.md.
"""

from __future__ import annotations

import msgspec

from pleach.core.routing.policies import POLICIES
from pleach.core.stabilise.lease_bounds import Delays
from pleach.errors import LeaseError


class RebuildPeriods(msgspec.Struct, frozen=True, kw_only=True):
    """`refresh` is the paper's ρ, `period` its π: seconds between two renewals of a client, and between two rounds."""

    refresh: float
    period: float
    policy: str
    advertisements: bool = False
    cyclic: bool = False
    paced: bool = False  # rounds wait for evidence

    @property
    def layers(self) -> int:
        """How often something goes through the whole network before a table is complete."""
        if POLICIES[self.policy].floods:
            return 0
        return 2 if self.advertisements else 1


def round_min(rounds: RebuildPeriods, delays: Delays) -> float:
    """A round must be longer than this, or a table is emptied before the other one is complete."""
    through = (delays.hops - 1) * delays.high
    renewed = rounds.refresh + delays.high - delays.low
    if rounds.paced:
        return renewed + 2 * max(rounds.layers, 1) * through  # down and up again, in each wave
    first = max(renewed, 2 * delays.high) if rounds.cyclic else renewed
    return through + first + rounds.layers * through


def rebuilt_within(rounds: RebuildPeriods, delays: Delays) -> float:
    """After a fault everything is correct again by then.

    On a tree first what it put on links is consumed: a switch that nobody began goes down to the last broker, which
    says so to its neighbours. On a cycle a round must first make everyone know which table is being built: until then
    answers to a switch may come from a table that was not emptied. After that come two rounds, of which the last one
    has to reach everyone. Where rounds wait for evidence, one may wait for what was damaged, and that for the next
    time that the root asks.
    """
    through = (delays.hops - 1) * delays.high
    first = rounds.period if rounds.cyclic else through + delays.high
    waiting = rounds.period if rounds.paced else 0.0
    return waiting + first + 2 * rounds.period + through


def check_rounds(rounds: RebuildPeriods, delays: Delays) -> None:
    """Raises LeaseError where tables could be incomplete without any fault."""
    least = round_min(rounds, delays)
    if rounds.period <= least:
        why = "rounds come late" if rounds.paced else "tables are used that are not complete"
        ways = (2 * max(rounds.layers, 1) if rounds.paced else 1 + rounds.layers) * (delays.hops - 1)
        raise LeaseError(
            f"`period` is {rounds.period:g} s; more than {least:g} s is wanted (refresh {rounds.refresh:g} +"
            f" {ways} links × {delays.high:g} + a client's), or {why}"
        )
