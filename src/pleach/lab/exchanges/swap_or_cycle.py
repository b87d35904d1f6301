"""One exchange of a link, by SwapLinks and by advanced coordinated reconfiguration: which when? (S0 §IV, S1 §4.4.2)

Both lose, double and reorder nothing. Swaps go one hop at a time through other trees, three brokers at once, and flood
events among the three meanwhile; the coordinated protocol locks the whole cycle, sends no event twice, and lets those
wait that come over the new link too early. The trees, latencies, clients and seeds are the same for both: those of
`workload.py`, and nobody (un)subscribes meanwhile, so that all routing messages are due to the exchange.

The rule that follows from it is `overlay.choice.recommended`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from pleach.lab.exchanges.consequences import costs, guarantees, run_exchange, times
from pleach.lab.exchanges.workload import ExchangeWorkload, workload_scenario
from pleach.lab.experiment import Case, Sample, Size
from pleach.scenario.model import Ordering

SWAPS, COORDINATED = "swaplink", "advanced-coordinated"
PROTOCOLS = (SWAPS, COORDINATED)
CYCLES = {Size.QUICK: (3, 6), Size.USUAL: tuple(range(3, 13)), Size.FULL: tuple(range(3, 13))}
ORDERINGS = {Size.QUICK: (Ordering.CAUSAL,), Size.USUAL: tuple(Ordering), Size.FULL: tuple(Ordering)}
RATES = (2.0, 10.0, 50.0)  # events a second of each of four publishers
LISTENERS = (8, 64)  # each with a filter of its own; twelve subscriptions come on top
USUAL_RATE, USUAL_LISTENERS = 10.0, 8
VARIED_CYCLES = {Size.QUICK: (), Size.USUAL: (4, 8, 12), Size.FULL: CYCLES[Size.FULL]}  # where rate and number vary
EVENT_BYTES = 760  # S0's default scenario; the workload's own events carry nothing


def cases(size: Size) -> list[Case]:
    """The length of the cycle with every order, at the usual load; then the load, in causal order."""
    usual = [
        _case(protocol, ordering, cycle, USUAL_RATE, USUAL_LISTENERS)
        for protocol, ordering, cycle in product(PROTOCOLS, ORDERINGS[size], CYCLES[size])
    ]
    varied = [
        _case(protocol, Ordering.CAUSAL, cycle, rate, listeners)
        for protocol, cycle, rate, listeners in product(PROTOCOLS, VARIED_CYCLES[size], RATES, LISTENERS)
        if (rate, listeners) != (USUAL_RATE, USUAL_LISTENERS)
    ]
    return [*usual, *varied]


def _case(protocol: str, ordering: Ordering, cycle: int, rate: float, listeners: int) -> Case:
    return {
        "protocol": protocol,
        "ordering": ordering.value,
        "cycle": cycle,
        "rate": rate,
        "listeners": listeners,
    }


def cost(case: Case) -> float:
    return float(case["rate"]) + float(case["listeners"]) + float(case["cycle"])


def measure(case: Case, seed: int) -> Iterator[Sample]:
    workload = ExchangeWorkload(
        int(case["cycle"]),
        events_per_second=float(case["rate"]),
        listeners=int(case["listeners"]),
        is_lively=False,
    )
    ordering = Ordering(str(case["ordering"]))
    exchanged = run_exchange(workload_scenario(workload, seed, str(case["protocol"]), ordering), seed)
    yield from guarantees(exchanged)
    yield from times(exchanged)
    found = list(costs(exchanged))
    yield from found
    known = {sample.metric: sample.value for sample in found}
    yield Sample("messages", known["control"] + known["misrouted"])
    yield Sample("kilobytes", (known["control_bytes"] + EVENT_BYTES * known["misrouted"]) / 1000.0)
