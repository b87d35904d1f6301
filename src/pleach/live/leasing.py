"""[stabilise] of a broker's settings: leases (stabilise/) among real processes, and the bounds that they have there.

A link says by itself how long a message may take: a peer that is silent for longer than that is cut off, is *away*,
and nothing of it runs out (presence.py). So the period must exceed the refresh by that time, whatever the network is;
a network that is slower than its operator says has its links cut, and its leases kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from pleach.broker import MachineMaker
from pleach.errors import LeaseError
from pleach.links.session import HEARTBEATS_MISSED_MAX
from pleach.routing.router import RoutingConfig
from pleach.stabilise.bounds import Delays, check, stabilisation
from pleach.stabilise.lease import Lease
from pleach.stabilise.machine import Leases

SILENT_HEARTBEATS = HEARTBEATS_MISSED_MAX + 1  # until a silent peer is cut off, and known to be away
SPARED = 0.9
SECONDS_MIN, SECONDS_MAX = 0.01, 86_400.0
HOPS_MAX = 10_000
EVERY_POLICY = "covering"  # renewals hop by hop have the same bounds in all but flooding, which has shorter ones


class LeaseSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same for all brokers of a network.

    `refresh` is ρ, `period` is π. `delay`: what a message takes on a link, the least and the most, and `diameter`: the
    links from a client to the farthest broker; where they are given, the broker can say how long a fault takes to mend.
    """

    refresh: float
    period: float
    delay: tuple[float, float] = (0.0, 0.0)
    diameter: int = 0

    @property
    def lease(self) -> Lease:
        return Lease(refresh=self.refresh, period=self.period)

    @property
    def machine(self) -> MachineMaker:
        return partial(Leases, lease=self.lease)


def silence_max(heartbeat: float) -> float:
    """Seconds that a peer may be silent before it is known to be away."""
    return SILENT_HEARTBEATS * heartbeat


def heartbeat_for(lease: Lease) -> float:
    """How often to give signs of life so that the periods of a network are long enough, with a tenth to spare."""
    return SPARED * (lease.period - lease.refresh) / SILENT_HEARTBEATS


def mends_within(settings: LeaseSettings, routing: RoutingConfig, heartbeat: float) -> float | None:
    """Seconds after which a fault has left no trace; None where the diameter of the network is not given."""
    if not settings.diameter:
        return None
    low, high = settings.delay
    delays = Delays(low, high or silence_max(heartbeat), settings.diameter)
    return stabilisation(settings.lease, routing.policy, delays, advertisements=routing.advertisements)


def lease_complaints(settings: LeaseSettings, heartbeat: float) -> Iterator[tuple[str, str, str]]:
    """(key, reason, remedy) of what is wrong with the settings."""
    low, high = settings.delay
    for key, seconds in (("refresh", settings.refresh), ("period", settings.period)):
        if not SECONDS_MIN <= seconds <= SECONDS_MAX:
            yield f"stabilise.{key}", f"{seconds:g} seconds", f"{SECONDS_MIN:g} to {SECONDS_MAX:g}"
    if not 0.0 <= low <= high <= SECONDS_MAX:
        yield "stabilise.delay", f"[{low:g}, {high:g}] is no delay", "the least and the most seconds of a message"
    if not 0 <= settings.diameter <= HOPS_MAX:
        yield "stabilise.diameter", f"{settings.diameter} links", f"1 to {HOPS_MAX:,}, or 0 where it is not known"
    try:
        check(settings.lease, EVERY_POLICY, Delays(low, max(high, low + silence_max(heartbeat)), 1))
    except LeaseError as error:
        remedy = f"a longer period, or a shorter heartbeat: a link may be silent for {SILENT_HEARTBEATS} of them"
        yield "stabilise.period", str(error), remedy
