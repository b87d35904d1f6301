"""The measured Table I: every protocol that exchanges a link, on the same seeds of one workload.

Each case is one protocol, one order, one length of the cycle and one load; each seed is run twice. In the lively run
clients (un)subscribe during the exchange: it shows what breaks, and how long things take. In the steady one nobody
does: it shows what the exchange costs, and which tables it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from pleach.core.overlay.registry import EXCHANGES
from pleach.errors import PleachError
from pleach.lab.exchanges.consequences import ExchangeRun, costs, guarantees, run_exchange, times
from pleach.lab.exchanges.workload import ExchangeWorkload, workload_scenario
from pleach.lab.experiment import Case, Sample, Size
from pleach.scenario.model import Ordering

EVENTS_PER_SECOND = MappingProxyType({"low": 5.0, "high": 50.0})  # of each of four publishers
CYCLES = {Size.QUICK: (3, 6), Size.USUAL: tuple(range(3, 13)), Size.FULL: tuple(range(3, 13))}
LOADS = {Size.QUICK: ("low",), Size.USUAL: ("low", "high"), Size.FULL: ("low", "high")}

KEEPS_ORDERS = "advanced-coordinated"  # the order is a parameter (S1 rules 6 and 7)


@dataclass(frozen=True)
class ProtocolRow:
    """One protocol in a network that promises one order."""

    protocol: str
    ordering: Ordering

    @property
    def name(self) -> str:
        return f"{self.protocol} ({self.ordering})" if self.protocol == KEEPS_ORDERS else self.protocol


def rows() -> list[ProtocolRow]:
    """All protocols there are, asked for causal order; the one that keeps each order at its price, for each."""
    return [
        ProtocolRow(protocol, ordering)
        for protocol in EXCHANGES
        for ordering in (Ordering if protocol == KEEPS_ORDERS else (Ordering.CAUSAL,))
    ]


def cases(size: Size) -> list[Case]:
    return [
        {"protocol": row.protocol, "ordering": row.ordering.value, "cycle": cycle, "load": load}
        for row in rows()
        for cycle in CYCLES[size]
        for load in LOADS[size]
    ]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """An exchange that does not come to its end says so, and gives no other samples."""
    lively, steady = (_exchanged(case, seed, is_lively=is_lively) for is_lively in (True, False))
    if lively is None or steady is None:
        yield Sample("stuck", 1)
        return
    yield Sample("stuck", 0)
    yield from guarantees(lively)
    yield from times(lively)
    yield from costs(steady)


def _exchanged(case: Case, seed: int, *, is_lively: bool) -> ExchangeRun | None:
    """None where it has no end: an algorithm as printed may leave brokers locked, or send where nobody listens."""
    rate = EVENTS_PER_SECOND[str(case["load"])]
    workload = ExchangeWorkload(int(case["cycle"]), events_per_second=rate, is_lively=is_lively)
    scenario = workload_scenario(workload, seed, str(case["protocol"]), Ordering(str(case["ordering"])))
    try:
        exchanged = run_exchange(scenario, seed)
    except PleachError:
        return None
    return exchanged if exchanged.is_complete else None
