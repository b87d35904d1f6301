"""How long leases must last, and how long a network takes to find back: the bounds of S1 §3.3, as far as they hold.

d counts links on the longest way from a client to a broker, the client's own link among them (S1 leaves that one out:
there it takes no time). Every message takes δmin to δmax on each of them.

                       the period π must be more than      correct again after
    flooding           ρ + (δmax − δmin)                    max(2π + δmax, d·δmax)       S1: max(2π, d·δmax)      (3.2)
    hop by hop         ρ + (δmax − δmin)                    2π + d·δmax                  ours, for every policy
    relayed, simple    ρ + d(δmax − δmin)           (3.3)   2π + d·δmax                  (3.4)
    relayed, others    ρ + d·δmax, and all clocks agree     2π + d·δmax                  (3.5), (3.6), (3.8)
    … second variant   ρ + d·δmax, and all clocks agree     2π + ρ + d·δmax              (3.7), (3.9)

With advertisements, which are leased as well, it is correct again after twice the time: one layer after the other.

For relayed renewals but those of simple routing S1 has (3.3) too; no π is long enough for them where clocks differ
(decision 12, tests/core/stabilise/test_printed_bound.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from pleach.core.routing.policies import POLICIES
from pleach.core.routing.renewal_relay import Relaying
from pleach.core.stabilise.lease_settings import Lease
from pleach.errors import LeaseError


@dataclass(frozen=True)
class Delays:
    """`low`, `high`: seconds that a message takes on one link. `hops`: links from a client to the farthest broker."""

    low: float
    high: float
    hops: int


def period_min(lease: Lease, policy: str, delays: Delays) -> float:
    """The period must be longer than this, or live subscriptions run out."""
    if lease.needs_one_clock(policy):
        return lease.refresh + delays.hops * delays.high
    hops = delays.hops if lease.relaying(policy) is Relaying.ALWAYS else 1
    return lease.refresh + hops * (delays.high - delays.low)


def stabilisation(lease: Lease, policy: str, delays: Delays, *, advertisements: bool = False) -> float:
    """After a fault everything is correct again by then (the paper's Δ).

    With advertisements: these have to be right first, and then what they let through.
    """
    return (2 if advertisements else 1) * _of_one_layer(lease, policy, delays)


def _of_one_layer(lease: Lease, policy: str, delays: Delays) -> float:
    through = delays.hops * delays.high
    if POLICIES[policy].floods:
        return max(2 * lease.period + delays.high, through)
    waiting = lease.refresh if lease.relaying(policy) is Relaying.UNHIDDEN else 0.0
    return 2 * lease.period + waiting + through


def flight(delays: Delays) -> float:
    """How long an event may be under way once its broker has it: to the farthest broker, and on to a client there."""
    return delays.hops * delays.high


def check(lease: Lease, policy: str, delays: Delays) -> None:
    """Raises LeaseError where live subscriptions could run out without any fault."""
    least = period_min(lease, policy, delays)
    if lease.period <= least:
        raise LeaseError(
            f"`period` is {lease.period:g} s; more than {least:g} s is wanted ({_explained(lease, policy, delays)}),"
            " or subscriptions run out that are renewed in time"
        )


def _explained(lease: Lease, policy: str, delays: Delays) -> str:
    low, high, hops = delays.low, delays.high, delays.hops
    if lease.needs_one_clock(policy):
        return f"refresh {lease.refresh:g} + {hops} links × {high:g}"
    links = f"{hops} links × " if lease.relaying(policy) is Relaying.ALWAYS else ""
    return f"refresh {lease.refresh:g} + {links}({high:g} - {low:g})"
