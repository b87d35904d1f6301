"""Bounds of leases (S1 §3.3, corrected): the least period of a lease, and the time to recover from a fault.

d counts the links on the longest path from a client to a broker, including the client's own link (S1 omits that one,
since it takes no time there). Every message takes δmin to δmax on each link.

                       the period π must be more than      correct again after
    flooding           ρ + (δmax − δmin)                    max(2π + δmax, d·δmax)       S1: max(2π, d·δmax)      (3.2)
    hop by hop         ρ + (δmax − δmin)                    2π + d·δmax                  ours, for every policy
    relayed, simple    ρ + d(δmax − δmin)           (3.3)   2π + d·δmax                  (3.4)
    relayed, others    ρ + d·δmax, and all clocks agree     2π + d·δmax                  (3.5), (3.6), (3.8)
    … second variant   ρ + d·δmax, and all clocks agree     2π + ρ + d·δmax              (3.7), (3.9)

With advertisements, which are leased as well, recovery takes twice the time: one layer after the other.

The time counts from the fault, or from the end of the last disturbance that began before it had passed: a broker that
is down, a link that is cut or exchanged (decision 44).

S1 states (3.3) for all relayed renewals. Except for simple routing no π is long enough where clocks differ (decision
12, tests/core/stabilise/test_printed_bound.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from pleach.core.routing.policies import POLICIES
from pleach.core.routing.renewal_relay import Relaying
from pleach.core.stabilise.lease_settings import Lease
from pleach.errors import LeaseError


@dataclass(frozen=True)
class Delays:
    """`low`, `high`: δmin and δmax, seconds per link. `hops`: d, links from a client to the farthest broker."""

    low: float
    high: float
    hops: int


def period_min(lease: Lease, policy: str, delays: Delays) -> float:
    """The period must be longer than this, or live subscriptions expire."""
    if lease.needs_one_clock(policy):
        return lease.refresh + delays.hops * delays.high
    hops = delays.hops if lease.relaying(policy) is Relaying.ALWAYS else 1
    return lease.refresh + hops * (delays.high - delays.low)


def stabilisation(lease: Lease, policy: str, delays: Delays, *, advertisements: bool = False) -> float:
    """Seconds after a fault until everything is correct again (the paper's Δ).

    Advertisements must be correct first, then the subscriptions that they gate.
    """
    return (2 if advertisements else 1) * _of_one_layer(lease, policy, delays)


def _of_one_layer(lease: Lease, policy: str, delays: Delays) -> float:
    through = delays.hops * delays.high
    if POLICIES[policy].floods:
        return max(2 * lease.period + delays.high, through)
    waiting = lease.refresh if lease.relaying(policy) is Relaying.UNHIDDEN else 0.0
    return 2 * lease.period + waiting + through


def flight(delays: Delays) -> float:
    """Seconds that an event may travel from its broker to the farthest broker and on to a client there."""
    return delays.hops * delays.high


def check(lease: Lease, policy: str, delays: Delays) -> None:
    """Raises LeaseError where live subscriptions could expire without any fault."""
    least = period_min(lease, policy, delays)
    if lease.period <= least:
        raise LeaseError(
            f"`period` is {lease.period:g} s; more than {least:g} s is wanted ({_explained(lease, policy, delays)}),"
            " or subscriptions expire although they are renewed in time"
        )


def _explained(lease: Lease, policy: str, delays: Delays) -> str:
    low, high, hops = delays.low, delays.high, delays.hops
    if lease.needs_one_clock(policy):
        return f"refresh {lease.refresh:g} + {hops} links × {high:g}"
    links = f"{hops} links × " if lease.relaying(policy) is Relaying.ALWAYS else ""
    return f"refresh {lease.refresh:g} + {links}({high:g} - {low:g})"
