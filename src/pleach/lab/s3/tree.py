"""S3 Fig. 3 and 4: a tree kept by a ring; how many neighbours hosts get, and how far a change reaches.

*Trees* are measured as in S3 §4.1, on a ring that has settled: hosts come and go in turn, so that their number stays.
The paper has 256 keys, 10 to 120 hosts and the binary tree; here are also more keys and hosts, other degrees, and the
rendezvous scheme that S3 §5 argues against, all on the same hosts and changes. *Rings* and *churn* are what the
protocol does: look-ups in rings that have grown to a size, and thousands of joins, leaves and failures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from pleach.core.ring.keys import circle
from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.s3.overlays import (
    ReferenceOverlay,
    RendezvousOverlay,
    RingOverlay,
    SettledRing,
    change,
    degrees,
    depths,
)
from pleach.lab.s3.protocol import churn, look_ups

TREE, RING, CHURN = "tree", "ring", "churn"
BINARY, RENDEZVOUS = "degree 3", "rendezvous"
SCHEMES = {BINARY: 3, "degree 4": 4, "degree 8": 8, RENDEZVOUS: 0}
PAPER_BITS, MORE_BITS = 8, 24

PAPER_HOSTS = {
    Size.QUICK: (10, 40),
    Size.USUAL: (10, 20, 40, 60, 80, 100, 120),
    Size.FULL: (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120),
}
MORE_HOSTS = {Size.QUICK: (100, 200), Size.USUAL: (100, 1_000, 10_000), Size.FULL: (100, 1_000, 10_000)}
RING_HOSTS = {Size.QUICK: (20, 60), Size.USUAL: (10, 100, 1_000, 10_000), Size.FULL: (10, 100, 1_000, 10_000)}
CHANGES = {Size.QUICK: 10, Size.USUAL: 100, Size.FULL: 500}  # of each kind
OPERATIONS = {Size.QUICK: 20, Size.USUAL: 3_400, Size.FULL: 3_400}  # of three seeds: over 10,000
CHURNED_HOSTS = 50


def cases(size: Size) -> list[Case]:
    settings = [*((PAPER_BITS, hosts) for hosts in PAPER_HOSTS[size]), *((MORE_BITS, n) for n in MORE_HOSTS[size])]
    trees: list[Case] = [
        {"part": TREE, "scheme": scheme, "bits": bits, "hosts": hosts, "changes": CHANGES[size]}
        for bits, hosts in settings
        for scheme in SCHEMES
    ]
    rings: list[Case] = [{"part": RING, "bits": 32, "hosts": hosts} for hosts in RING_HOSTS[size]]
    return [
        *trees,
        *rings,
        {"part": CHURN, "bits": PAPER_BITS, "hosts": CHURNED_HOSTS, "operations": OPERATIONS[size]},
    ]


def cost(case: Case) -> float:
    hosts = float(case["hosts"])
    match case["part"]:
        case "ring":
            return 10.0 * hosts
        case "churn":
            return 20.0 * float(case["operations"])
        case _:
            return float(case["changes"]) * (10.0 + 0.02 * hosts)


def measure(case: Case, seed: int) -> Iterator[Sample]:
    hosts, bits = int(case["hosts"]), int(case["bits"])
    match case["part"]:
        case "ring":
            yield from look_ups(hosts, bits, seed)
        case "churn":
            yield from churn(hosts, bits, int(case["operations"]), seed)
        case _:
            yield from _tree(str(case["scheme"]), bits, hosts, int(case["changes"]), seed)


def _tree(scheme: str, bits: int, hosts: int, changes: int, seed: int) -> Iterator[Sample]:
    """The same hosts come and go for every scheme."""
    random = Random(f"{bits}/{hosts}/{seed}")
    keys = circle(bits)
    ring = SettledRing(keys, random.sample(range(keys.size), hosts))
    overlay: RingOverlay = ReferenceOverlay(ring, SCHEMES[scheme]) if SCHEMES[scheme] else RendezvousOverlay(ring)
    for _ in range(changes):
        newcomer = next(key for key in iter(lambda: random.randrange(keys.size), None) if ring.owner(key) != key)
        yield from _change("connect", overlay, newcomer)
        yield from _change("disconnect", overlay, random.choice(ring.hosts))
    yield from _shape(overlay)


def _change(kind: str, overlay: RingOverlay, host: int) -> Iterator[Sample]:
    before = overlay.parents
    messages = overlay.come(host) if kind == "connect" else overlay.go(host)
    ends, area = change(before, overlay.parents)
    yield Sample(f"area {kind}", float(area))
    yield Sample(f"contacted {kind}", float(ends - 1))  # all at the ends of changed links, but the host itself
    yield Sample(f"messages {kind}", float(messages))


def _shape(overlay: RingOverlay) -> Iterator[Sample]:
    parents = overlay.parents
    hosts = len(parents) + 1
    counts = Counter(degrees(parents).values())
    for degree in (1, 2, 3):
        yield Sample(f"share of degree {degree}", counts[degree] / hosts)
    yield Sample("degree max", float(max(counts)))
    yield Sample("share above 4", sum(count for degree, count in counts.items() if degree > 4) / hosts)
    yield Sample("share above 8", sum(count for degree, count in counts.items() if degree > 8) / hosts)
    yield Sample("depth", sum(depths(parents).values()) / hosts)
    yield Sample("depth max", float(max(depths(parents).values())))
