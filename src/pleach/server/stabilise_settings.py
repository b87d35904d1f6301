"""[stabilise] of a broker's settings: leases, or tables that are rebuilt in turn (core/stabilise/).

An entry expires only after a full renewal round without it (renewal_rounds.py), and a table is emptied only when
the other one is complete (core/stabilise/paced.py): no delay, however long, removes what is still wanted. The delays of
messages only decide how long it takes until damaged state is right again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import partial

import msgspec

from pleach.core.broker import MachineMaker
from pleach.core.messages import Node
from pleach.core.overlay.context import RouterMaker
from pleach.core.routing.router import Router, RoutingConfig
from pleach.core.stabilise.lease_bounds import Delays, check, stabilisation
from pleach.core.stabilise.lease_settings import Lease
from pleach.core.stabilise.leases import Leases
from pleach.core.stabilise.paced import PacedRebuild
from pleach.core.stabilise.paced_twin import PacedTwin
from pleach.core.stabilise.rebuild_bounds import RebuildPeriods, check_rounds, rebuilt_within
from pleach.errors import LeaseError

PROCESS_SECONDS = 0.25  # that a message takes on a link, at most, besides what the network adds; on a busy machine
SECONDS_MIN, SECONDS_MAX = 0.01, 86_400.0
HOPS_MAX = 10_000
EVERY_POLICY = "covering"  # renewals hop by hop have the same bounds in all but flooding, which has shorter ones


class StabiliseKind(StrEnum):
    LEASES = "leases"
    REBUILD = "rebuild"  # on links that stay: brokers and clients neither join, leave nor move while it runs


class LeaseSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same for all brokers of a network.

    `refresh` is ρ, `period` is π. `delay`: what a message takes on a link, the least and the most, and `diameter`: the
    links from a client to the farthest broker; where it is given, the broker can say how long a fault takes to mend.
    """

    refresh: float
    period: float
    delay: tuple[float, float] = (0.0, PROCESS_SECONDS)  # seconds that a message takes on a link: least, most
    diameter: int = 0  # links from a client to the farthest broker; with it /status says how long mending takes
    kind: StabiliseKind = StabiliseKind.LEASES  # leases, or rebuild: two tables, built anew in turn, on links that stay

    @property
    def rebuilds(self) -> bool:
        return self.kind is StabiliseKind.REBUILD

    @property
    def lease(self) -> Lease:
        return Lease(refresh=self.refresh, period=self.period)

    @property
    def delays(self) -> Delays:
        return Delays(*self.delay, hops=self.diameter or 1)

    @property
    def machine(self) -> MachineMaker:
        return partial(PacedRebuild, period=self.period) if self.rebuilds else partial(Leases, lease=self.lease)

    def router_for(self, neighbours: Sequence[Node]) -> RouterMaker:
        return partial(PacedTwin, neighbours) if self.rebuilds else Router

    def rounds(self, routing: RoutingConfig) -> RebuildPeriods:
        return RebuildPeriods(
            refresh=self.refresh,
            period=self.period,
            policy=routing.policy,
            advertisements=routing.advertisements,
            paced=True,
        )


def mends_within(settings: LeaseSettings, routing: RoutingConfig) -> float | None:
    """Seconds after which a fault has left no trace; None where the diameter of the network is not given."""
    if not settings.diameter:
        return None
    if settings.rebuilds:
        return rebuilt_within(settings.rounds(routing), settings.delays)
    return stabilisation(settings.lease, routing.policy, settings.delays, advertisements=routing.advertisements)


def lease_complaints(settings: LeaseSettings, routing: RoutingConfig) -> Iterator[tuple[str, str, str]]:
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
        if settings.rebuilds:
            check_rounds(settings.rounds(routing), settings.delays)
        else:
            check(settings.lease, EVERY_POLICY, settings.delays)
    except LeaseError as error:
        yield "stabilise.period", str(error), "a longer period, or a shorter refresh"
