"""S2 Fig. 4 and 5: what the reconfiguration path saves against the strawman, and what load makes of it.

The setting is that of `dispatchers.py`. All three protocols meet the same trees, subscribers, events and exchanges, so
that they compare with few of them. What one saves is a share of the strawman's overhead, in hops, both on average over
all exchanges: single ones that cost the strawman next to nothing count for what they are. The overhead is S2's
(`witness.py`): (un)subscriptions, misrouted events, the protocol's own messages.

In S2 the old link is broken from the beginning and carries nothing; here it carries events until it is taken down. What
comes twice by that is counted apart: the overhead in the figures is without, the judgement says what it is with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.s2.dispatchers import Dispatchers, overheads

STRAWMAN, DEFERRED, PATH = "strawman", "deferred", "path"
COMPARED = (DEFERRED, PATH)
SPARSE, DENSE = 0.2, 0.8  # share of dispatchers that subscribe
LOW, HIGH = 1, 50  # events per second of each dispatcher
COUNTED = ("entries", "protocol_messages", "dead_ends", "second_copies")
OVERHEAD, WITH_COPIES, SAVED = "overhead", "overhead with copies", "saved"

DISPATCHERS = {
    Size.QUICK: (10, 20),
    Size.USUAL: (20, 50, 100, 200),
    Size.FULL: (20, 40, 60, 80, 100, 120, 140, 160, 180, 200),
}
EXCHANGES = {Size.QUICK: 1, Size.USUAL: 3, Size.FULL: 10}
SETTINGS = ((SPARSE, LOW), (DENSE, LOW), (SPARSE, HIGH))  # Fig. 4 top and bottom, Fig. 5


def cases(size: Size) -> list[Case]:
    return [
        {"dispatchers": count, "density": density, "load": load, "exchanges": EXCHANGES[size]}
        for density, load in SETTINGS
        for count in DISPATCHERS[size]
    ]


def cost(case: Case) -> float:
    return float(case["exchanges"]) * float(case["dispatchers"]) * (25.0 + float(case["load"]))


# Measuring ------------------------------------------------------------------------------------------------------


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Per exchange, in hops; and what is saved by the exchanges of this seed."""
    exchanges = int(case["exchanges"])
    found = {protocol: _hops(case, seed, protocol) for protocol in (STRAWMAN, *COMPARED)}
    overhead = {protocol: (hops.total() - hops["second_copies"]) / exchanges for protocol, hops in found.items()}
    for protocol, hops in found.items():
        for metric in COUNTED:
            yield Sample(f"{metric} {protocol}", hops[metric] / exchanges)
        yield Sample(f"{WITH_COPIES} {protocol}", hops.total() / exchanges)
        yield Sample(f"{OVERHEAD} {protocol}", overhead[protocol])
    for protocol in COMPARED:
        yield Sample(f"{SAVED} {protocol}", 1.0 - overhead[protocol] / overhead[STRAWMAN])


def _hops(case: Case, seed: int, protocol: str) -> Counter[str]:
    """Of all exchanges together, each in a tree of its own."""
    setting = Dispatchers(int(case["dispatchers"]), float(case["density"]), float(case["load"]))
    exchanges = int(case["exchanges"])
    total: Counter[str] = Counter()
    for number in range(seed * exchanges, (seed + 1) * exchanges):
        total.update({s.metric: round(s.value) for s in overheads(setting, number, protocol) if s.metric in COUNTED})
    return total
