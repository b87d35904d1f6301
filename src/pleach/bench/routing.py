"""The cost of a subscription at a broker, which must not grow with the size of the table.

A router with three neighbours holds n subscriptions of clients (workload W1); then subscriptions come and go. The rate
at a large table is compared with the rate at one a hundred times smaller: a cost proportional to the table would give
a ratio of 0.01.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import islice
from random import Random
from time import perf_counter

from pleach.bench.measurement import Measurement
from pleach.bench.workloads import W1
from pleach.core.events.filter import Filter
from pleach.core.messages import Layer
from pleach.core.routing.entries import Entry
from pleach.core.routing.router import Router, RoutingConfig

NEIGHBOURS = ("n1", "n2", "n3")
CLIENTS = 16
BAR = 0.2  # of the rate at a table a hundred times smaller
UPDATES = 200


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:
    small, large = (40, 4_000) if quick else (300, 30_000)
    for policy in ("simple", "identity", "covering", "merging"):
        filters = list(islice(W1.filters(Random(seed)), large + UPDATES))
        base = _rate(policy, filters, small)
        rate = _rate(policy, filters, large)
        yield Measurement(
            "routing",
            f"{policy}: (un)subscriptions at {large:,} entries",
            rate,
            "updates/s",
            f"the same at {small:,} entries",
            rate / base,
            BAR,
            rate / base >= BAR,
        )


def _rate(policy: str, filters: list[Filter], size: int) -> float:
    router = Router(RoutingConfig(policy))
    for neighbour in NEIGHBOURS:
        router.connect(neighbour)
    for number, wanted in enumerate(filters[:size]):
        _subscribe(router, number, wanted)
    fresh = list(enumerate(filters[-UPDATES:], start=len(filters)))
    gc.collect()
    start = perf_counter()
    for number, wanted in fresh:
        _subscribe(router, number, wanted)
    for number, wanted in fresh:
        client, entry = _entry(number, wanted)
        router.remove(Layer.SUBSCRIPTIONS, client, entry)
    return 2 * len(fresh) / (perf_counter() - start)


def _subscribe(router: Router, number: int, wanted: Filter) -> None:
    client, entry = _entry(number, wanted)
    router.add(Layer.SUBSCRIPTIONS, client, entry, None)


def _entry(number: int, wanted: Filter) -> tuple[str, Entry]:
    client = f"c{number % CLIENTS}"
    return client, Entry(f"{client}/s{number}", wanted)
