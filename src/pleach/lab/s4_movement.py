"""S4 Fig. 8 to 14: how long a client's movement takes, and what it costs: the transaction beside the other two ways.

The setting is that of `movers.py`; the transaction is on simple routing, as in S4, the others on covering.
"""

from __future__ import annotations

from collections.abc import Iterator

from pleach.lab.experiment import Case, Experiment, Size
from pleach.lab.mover_runs import measure
from pleach.lab.movers import BROKERS, FAMILY, PAUSE_SECONDS, Workload
from pleach.lab.s4_figures import CLIENTS, FIGURES, MOVING, SINGLE, TOPOLOGY, WIDE, WORKLOADS
from pleach.mobility.resettling import MoveProtocol

PROTOCOLS = (MoveProtocol.TRANSACTION, MoveProtocol.COVERING, MoveProtocol.RECONNECT)
COMPARED = PROTOCOLS[:2]
ALL_WORKLOADS = (Workload.DISTINCT, Workload.CHAINED, Workload.TREE, Workload.COVERED, Workload.RANDOM)
COVERING_WORKLOADS = (Workload.CHAINED, Workload.TREE, Workload.COVERED)

# S4: 400 clients; 100 on PlanetLab. Quick ones only show that all of it runs.
STANDARD = {Size.QUICK: 20, Size.USUAL: 400, Size.FULL: 400}
MORE_CLIENTS = {Size.QUICK: (20, 30), Size.USUAL: (400, 700, 1_000), Size.FULL: (400, 500, 600, 700, 800, 900, 1_000)}
FEWER = {Size.QUICK: 10, Size.USUAL: 100, Size.FULL: 100}
MORE_BROKERS = {Size.QUICK: (14, 18), Size.USUAL: (14, 20, 26), Size.FULL: (14, 18, 22, 26)}
SECONDS = {Size.QUICK: 12.0, Size.USUAL: 20.0, Size.FULL: 60.0}
LONG_SECONDS = {Size.QUICK: 12.0, Size.USUAL: 4 * PAUSE_SECONDS, Size.FULL: 12 * PAUSE_SECONDS}  # where few move
SOME = {Size.QUICK: (1, 2), Size.USUAL: (10, 20, 30, 40, 50), Size.FULL: (10, 20, 30, 40, 50)}  # that move


def cases(size: Size) -> list[Case]:
    return [*_workloads(size), *_clients(size), *_single(size), *_moving(size), *_topology(size), *_wide(size)]


def _case(size: Size, part: str, protocol: MoveProtocol, workload: Workload, clients: int, **more: float) -> Case:
    known = {"part": part, "workload": workload.value, "protocol": protocol.value, "clients": clients}
    known["is_far"] = part == WIDE
    usual = {"family": clients, "moving": clients, "brokers": BROKERS, "seconds": SECONDS[size]}
    return {**known, **usual, **more}


def _workloads(size: Size) -> Iterator[Case]:
    """Families make a difference only where something covers, and covering counts; one of all cannot be a mixture."""
    count = STANDARD[size]
    for workload in ALL_WORKLOADS:
        for protocol in PROTOCOLS:
            has_both = protocol is MoveProtocol.COVERING and workload in COVERING_WORKLOADS
            for family in (FAMILY, count) if has_both else (FAMILY,):
                yield _case(size, WORKLOADS, protocol, workload, count, family=family)


def _clients(size: Size) -> Iterator[Case]:
    for count in MORE_CLIENTS[size]:
        for protocol in COMPARED:
            yield _case(size, CLIENTS, protocol, Workload.COVERED, count)


def _single(size: Size) -> Iterator[Case]:
    for protocol in PROTOCOLS:
        yield _case(size, SINGLE, protocol, Workload.COVERED, STANDARD[size], moving=1, seconds=LONG_SECONDS[size])


def _moving(size: Size) -> Iterator[Case]:
    count = STANDARD[size]
    for moving in SOME[size]:
        for protocol in COMPARED:
            few = {"moving": moving, "seconds": LONG_SECONDS[size]}
            yield _case(size, MOVING, protocol, Workload.MIXED, count, family=FAMILY, **few)


def _topology(size: Size) -> Iterator[Case]:
    for brokers in MORE_BROKERS[size]:
        for protocol in COMPARED:
            yield _case(size, TOPOLOGY, protocol, Workload.COVERED, STANDARD[size], brokers=brokers)


def _wide(size: Size) -> Iterator[Case]:
    for workload in ALL_WORKLOADS:
        for protocol in COMPARED:
            family = FAMILY if workload is Workload.RANDOM else FEWER[size]
            yield _case(size, WIDE, protocol, workload, FEWER[size], family=family)


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
