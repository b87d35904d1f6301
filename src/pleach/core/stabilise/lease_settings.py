"""What a network agrees on where subscriptions are leased: the periods, and who renews."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from pleach.core.routing.policies import POLICIES
from pleach.core.routing.renewal_relay import Relaying


class Renewal(StrEnum):
    HOP_BY_HOP = "hop-by-hop"  # every broker renews by itself what it has told its neighbours
    RELAYED = "relayed"  # the clients' renewals travel on from broker to broker: S1 §3.3.2, see decision 12


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """`refresh` is the paper's ρ, `period` its π: seconds between two renewals, and between two ticks of a broker.

    `variant`: of covering and merging with relayed renewals, 1 or 2 (S1 §3.3.2).
    """

    refresh: float
    period: float
    renewal: Renewal = Renewal.HOP_BY_HOP
    variant: int = 1

    def relaying(self, policy: str) -> Relaying:
        if self.renewal is Renewal.HOP_BY_HOP or POLICIES[policy].floods:
            return Relaying.NEVER
        if policy == "simple":
            return Relaying.ALWAYS
        return Relaying.UNHIDDEN if self.variant == 2 else Relaying.FRESH

    def needs_one_clock(self, policy: str) -> bool:
        """Whether the ticks of all brokers have to fall together."""
        return self.relaying(policy) in (Relaying.FRESH, Relaying.UNHIDDEN)
