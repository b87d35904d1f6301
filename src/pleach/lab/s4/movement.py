"""S4 Fig. 8 to 14: latency and messages of a movement, by the transaction and the two other protocols.

The setting is that of `movers.py`; the transaction is on simple routing, as in S4, the others on covering. The covering
protocol is measured twice: with brokers that have a cover index, and with brokers that scan their tables.
"""

from __future__ import annotations

from collections.abc import Iterator

from pleach.lab.experiment import Case, Experiment, Size
from pleach.lab.s4.figures import (
    CLIENTS,
    COVERING,
    FIGURES,
    MOVING,
    RECONNECT,
    SCANNING,
    SCANS,
    SINGLE,
    TOPOLOGY,
    TRANSACTION,
    WIDE,
    WORKLOADS,
    Way,
)
from pleach.lab.s4.movers import BROKERS, FAMILY, PAUSE_SECONDS, CoveringWorkload, measure

COMPARED = (TRANSACTION, COVERING, SCANNING)
ALL_WORKLOADS = (
    CoveringWorkload.DISTINCT,
    CoveringWorkload.CHAINED,
    CoveringWorkload.TREE,
    CoveringWorkload.COVERED,
    CoveringWorkload.RANDOM,
)
COVERING_WORKLOADS = (CoveringWorkload.CHAINED, CoveringWorkload.TREE, CoveringWorkload.COVERED)

# S4: 400 clients; 100 on PlanetLab. Quick ones only show that all of it runs.
STANDARD = {Size.QUICK: 20, Size.USUAL: 400, Size.FULL: 400}
MORE_CLIENTS = {Size.QUICK: (20, 30), Size.USUAL: (400, 700, 1_000), Size.FULL: (400, 500, 600, 700, 800, 900, 1_000)}
FEWER = {Size.QUICK: 10, Size.USUAL: 100, Size.FULL: 100}
MORE_BROKERS = {Size.QUICK: (14, 18), Size.USUAL: (14, 20, 26), Size.FULL: (14, 18, 22, 26)}
SECONDS = {Size.QUICK: 12.0, Size.USUAL: 20.0, Size.FULL: 60.0}
LONG_SECONDS = {Size.QUICK: 12.0, Size.USUAL: 4 * PAUSE_SECONDS, Size.FULL: 12 * PAUSE_SECONDS}  # where few move
SOME = {Size.QUICK: (1, 2), Size.USUAL: (10, 20, 30, 40, 50), Size.FULL: (10, 20, 30, 40, 50)}  # that move
SCANS_US = {Size.QUICK: (0, 20), Size.USUAL: (0, 1, 2, 5, 10, 20), Size.FULL: (0, 1, 2, 3, 5, 7, 10, 15, 20)}


def cases(size: Size) -> list[Case]:
    parts = (_workloads, _clients, _single, _moving, _topology, _wide, _scans)
    return [case for part in parts for case in part(size)]


def _case(size: Size, part: str, way: Way, workload: CoveringWorkload, clients: int, **more: float) -> Case:
    known = {"part": part, "workload": workload.value, "protocol": way.protocol, "clients": clients}
    known["is_far"] = part == WIDE
    usual = {"family": clients, "moving": clients, "brokers": BROKERS, "seconds": SECONDS[size], "scan_us": way.scan_us}
    return {**known, **usual, **more}


def _workloads(size: Size) -> Iterator[Case]:
    """Families make a difference only where something covers, and covering counts; one of all cannot be a mixture."""
    count = STANDARD[size]
    for workload in ALL_WORKLOADS:
        for way in (*COMPARED, RECONNECT):
            has_both = way in (COVERING, SCANNING) and workload in COVERING_WORKLOADS
            for family in (FAMILY, count) if has_both else (FAMILY,):
                yield _case(size, WORKLOADS, way, workload, count, family=family)


def _clients(size: Size) -> Iterator[Case]:
    for count in MORE_CLIENTS[size]:
        for way in COMPARED:
            yield _case(size, CLIENTS, way, CoveringWorkload.COVERED, count)


def _single(size: Size) -> Iterator[Case]:
    for way in (*COMPARED, RECONNECT):
        yield _case(size, SINGLE, way, CoveringWorkload.COVERED, STANDARD[size], moving=1, seconds=LONG_SECONDS[size])


def _moving(size: Size) -> Iterator[Case]:
    count = STANDARD[size]
    for moving in SOME[size]:
        for way in COMPARED:
            few = {"moving": moving, "seconds": LONG_SECONDS[size]}
            yield _case(size, MOVING, way, CoveringWorkload.MIXED, count, family=FAMILY, **few)


def _topology(size: Size) -> Iterator[Case]:
    for brokers in MORE_BROKERS[size]:
        for way in COMPARED:
            yield _case(size, TOPOLOGY, way, CoveringWorkload.COVERED, STANDARD[size], brokers=brokers)


def _wide(size: Size) -> Iterator[Case]:
    for workload in ALL_WORKLOADS:
        for way in COMPARED:
            family = FAMILY if workload is CoveringWorkload.RANDOM else FEWER[size]
            yield _case(size, WIDE, way, workload, FEWER[size], family=family)


def _scans(size: Size) -> Iterator[Case]:
    """How slow brokers have to be, by how much one subscription covers. The transaction compares nothing: once."""
    count = STANDARD[size]
    yield _case(size, SCANS, TRANSACTION, CoveringWorkload.COVERED, count, family=FAMILY)
    for scan_us in SCANS_US[size]:
        for family in (FAMILY, count):
            yield _case(size, SCANS, COVERING, CoveringWorkload.COVERED, count, scan_us=scan_us, family=family)


def cost(case: Case) -> float:
    return float(case["moving"]) * float(case["seconds"]) * float(case["brokers"])


SEEDS = {Size.QUICK: 1, Size.USUAL: 2, Size.FULL: 5}

MOVEMENT = Experiment(
    name="s4-movement",
    about="how long a client's movement takes, and its messages: transaction, covering protocol, reconnecting",
    cases=cases,
    seeds=SEEDS,
    measure=measure,
    cost=cost,
    figures=FIGURES,
)
