"""The price of a second copy: events/s and latency with one copy on disk, with two, and in JetStream (R1, R3); bytes.

    publisher process ──▶ broker ──▶ subscriber process          all on loopback
                            └──▶ a standby, and a witness

As in `pleach bench forward`, systems take turns, and medians over the rounds are reported. Events differ. Every event
is confirmed to its publisher; none is confirmed or delivered before all copies have it on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from pleach.bench import wire
from pleach.bench.forward import FULL, QUICK, is_skipped, latencies, plain, rates_of, stopped_in_order
from pleach.bench.measurement import Measurement
from pleach.bench.systems.registry import DURABLE, JETSTREAM_THREE, REPLICATED, STORING
from pleach.bench.systems.system import Case

COPYING = (REPLICATED, JETSTREAM_THREE)  # whose servers send events to each other
BARS = {DURABLE.name: 0.6, JETSTREAM_THREE.name: 1.0}


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:  # noqa: ARG001 - nothing is drawn
    effort = QUICK if quick else FULL
    systems = [DURABLE, REPLICATED, *(each for each in STORING if not is_skipped(each))]
    with stopped_in_order():
        rates = rates_of(Case.VARIED, systems, effort)
        for name, theirs in rates.items():
            yield plain(name, median(theirs), "events/s", "standby")
        ours = rates.pop(REPLICATED.name)
        for name, theirs in rates.items():
            ratio, bar = median(mine / other for mine, other in zip(ours, theirs, strict=True)), BARS.get(name)
            is_met = bar is None or ratio >= bar
            yield Measurement("standby", REPLICATED.name, median(ours), "events/s", name, ratio, bar, is_met)
        yield from latencies(systems, effort, "standby")
        copying = [each for each in systems if each in COPYING]
        yield from wire.measured(copying, effort, "standby", wire.RATES[:1] if quick else wire.RATES)
