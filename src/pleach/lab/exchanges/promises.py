"""What the papers say of each protocol, in words (S0 §III–V; S1 §4.4.1, §4.4.2; S2 §4, §6), as a table.

S1 has no such table of its own, and that of S0 (Table I) is of other systems. For each promise: kept, broken, or not
promised; what is not promised may still happen to hold.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType

from pleach.lab.exchanges.table1 import KEEPS_ORDERS, ProtocolRow
from pleach.scenario.model import Ordering


class Promise(Enum):
    """What a protocol may promise; the value is the sample that must be 0 where it does."""

    NO_LOSS = "lost"
    NO_DUPLICATE = "duplicate"
    FIFO = "fifo"
    CAUSAL = "causal"
    MINIMAL_DELAY = "held_back_ms_max"  # S0: no swap takes longer than the longer of the paths before and after
    INSIDE = "outside"  # S2 §4.2: no table changes but on the cycle (simple, identity, covering; not merging)


DELIVERY = frozenset({Promise.NO_LOSS, Promise.NO_DUPLICATE})
ORDER = MappingProxyType(
    {
        Ordering.NONE: frozenset[Promise](),
        Ordering.FIFO: frozenset({Promise.FIFO}),
        Ordering.CAUSAL: frozenset({Promise.FIFO, Promise.CAUSAL}),
    }
)

# In the papers' words. Keys are beginnings of names: a variant of a protocol has what the protocol has.
SAID = MappingProxyType(
    {
        "strawman": "may lose and reorder events; unsubscriptions leave the cycle (S1 §4.4.1)",
        "deferred": "a long delay doubles, a short one loses events; some unsubscriptions leave the cycle (S1 §4.4.1)",
        "coordinated": "while r is in use until the flush, events may come twice; no order (S1 §4.4.1)",
        "informed": "fewer (un)subscriptions; loses, doubles and reorders as what it relies on (S1 §4.4.1)",
        "path": "no table changes outside the cycle; may lose events, no order (S2 §4.2, S1 §4.4.1)",
        "advanced-coordinated": "loses, doubles nothing; the chosen order; within the cycle; delays events (S1 §4.4.2)",
        "swaplink-published": "loses and doubles nothing, causal order, minimal delay (S0 §V)",
        "swaplink": "loses and doubles nothing, causal order; delay within the triangle (our correction of S0)",
    }
)
PROMISED = MappingProxyType(
    {
        "path": frozenset({Promise.INSIDE}),
        "advanced-coordinated": DELIVERY | {Promise.INSIDE},
        "swaplink-published": DELIVERY | {Promise.INSIDE, Promise.MINIMAL_DELAY},
        "swaplink": DELIVERY | {Promise.INSIDE},
    }
)


def is_printed(row: ProtocolRow) -> bool:
    """An algorithm with the errors that its paper prints, kept for comparison: the promises are its authors'."""
    return any(mark in row.protocol for mark in ("-printed", "-published"))


def said(row: ProtocolRow) -> str:
    return SAID[_known(row.protocol)]


def promised(row: ProtocolRow) -> frozenset[Promise]:
    known = _known(row.protocol)
    if known not in PROMISED:
        return frozenset()
    has_order = known.startswith((KEEPS_ORDERS, "swaplink"))
    return PROMISED[known] | (ORDER[row.ordering] if has_order else frozenset())


def _known(protocol: str) -> str:
    return max((name for name in SAID if protocol.startswith(name)), key=len)
