"""Benchmarks of the performance-critical parts, each against a reference timed in the same run.

Behind `pleach bench`. Imports any room but cli/, lab/ and demo/.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType

from pleach.bench import audit, campaign, cover, door, fill, forward, match, oracle, plan, routing, sim, standby
from pleach.bench.measurement import Bench

BENCHES: MappingProxyType[str, Bench] = MappingProxyType(
    {
        "match": match.run,
        "cover": cover.run,
        "routing": routing.run,
        "sim": sim.run,
        "oracle": oracle.run,
        "forward": forward.run,
        "door": door.run,
        "standby": standby.run,
        "fill": fill.run,
        "campaign": campaign.run,
        "audit": audit.run,
        "plan": plan.run,
    }
)

# Benches that can compare secured brokers with plain ones instead; and with other systems, where those are installed.
WITH_TLS: MappingProxyType[str, Bench] = MappingProxyType({"forward": forward.run_with_tls})
WITH_PEERS: MappingProxyType[str, Bench] = MappingProxyType({"forward": partial(forward.run, peers=True)})
