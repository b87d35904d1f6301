"""Whether the reasons that `overlay.choice` gives for its rule are what was measured, at the usual load.

One swap on three brokers is the choice since it takes fewer messages. Elsewhere at once is quicker, and is the choice
where the event that waits longest waits hardly longer for it: of each order, all lengths together, since one length
tells little. Where events would wait longer, swaps are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pleach.core.overlay.choice import AT_ONCE, BY_SWAPS, ONE_SWAP, Circumstances, recommended
from pleach.lab.exchanges.swap_or_cycle import COORDINATED, SWAPS, USUAL_LISTENERS, USUAL_RATE
from pleach.lab.experiment import Summary, select
from pleach.lab.findings import Condition, Finding, aimed
from pleach.lab.trends import Estimate, pooled

WAITS = "extra_ms_max"
HARDLY_MS = 20.0  # longer, of the event that waits longest: less than what one slow link takes


class Both(NamedTuple):
    """One metric of the same exchange."""

    swaps: Summary
    at_once: Summary

    @property
    def ordering(self) -> str:
        return str(self.swaps.case["ordering"])

    @property
    def cycle(self) -> int:
        return int(self.swaps.case["cycle"])

    @property
    def chosen(self) -> str:
        return recommended(self.cycle, Circumstances(self.ordering)).protocol


def judge_choice(summaries: Sequence[Summary]) -> Finding:
    messages, times, waits = (_compared(summaries, metric) for metric in ("messages", "completion_ms", WAITS))
    one_swap = [both for both in messages if both.cycle == ONE_SWAP and both.chosen == BY_SWAPS]
    quicker = [both for both in times if both.chosen == AT_ONCE]
    longer = _longer([both for both in waits if both.cycle != ONE_SWAP])
    return aimed(
        _said(quicker, longer),
        _always("one swap sends fewer messages", [both.swaps.mean < both.at_once.mean for both in one_swap]),
        _always("at once is quicker where it is chosen", [both.at_once.mean < both.swaps.mean for both in quicker]),
        *(_is_supported(*key, found) for key, found in longer.items()),
    )


def _compared(summaries: Sequence[Summary], metric: str) -> list[Both]:
    usual = select(summaries, metric, rate=USUAL_RATE, listeners=USUAL_LISTENERS)
    swaps, at_once = (
        {(str(s.case["ordering"]), int(s.case["cycle"])): s for s in usual if s.case["protocol"] == protocol}
        for protocol in (SWAPS, COORDINATED)
    )
    return [Both(swaps[key], at_once[key]) for key in sorted(swaps.keys() & at_once.keys())]


def _longer(waits: Sequence[Both]) -> dict[tuple[str, str], Estimate]:
    """How much longer events wait at once, by what is chosen and the order that is kept."""
    return {
        key: pooled([both.at_once for both in those]) - pooled([both.swaps for both in those])
        for key in sorted({(both.chosen, both.ordering) for both in waits})
        for those in ([both for both in waits if (both.chosen, both.ordering) == key],)
    }


def _always(name: str, found: Sequence[bool]) -> Condition:
    return Condition(name, all(found) if found else None)


def _is_supported(chosen: str, ordering: str, longer: Estimate) -> Condition:
    if chosen == AT_ONCE:
        name = f"under {ordering} events wait hardly longer at once where it is chosen ({HARDLY_MS:g} ms)"
        return (Estimate(HARDLY_MS, 0.0) - longer).is_above_zero(name)
    name = f"under {ordering} they would wait longer where swaps are chosen"
    return (longer - Estimate(HARDLY_MS, 0.0)).is_above_zero(name)


def _said(quicker: Sequence[Both], longer: dict[tuple[str, str], Estimate]) -> str:
    waits = ", ".join(
        f"{'at once' if chosen == AT_ONCE else 'swaps'} under {ordering} {found.value:+.0f} ± {found.error:.0f} ms"
        for (chosen, ordering), found in longer.items()
    )
    shares = [both.at_once.mean / both.swaps.mean for both in quicker]
    takes = f" At once takes {min(shares):.0%} to {max(shares):.0%} of the time where it is chosen." if shares else ""
    about = "How much longer at once lets the event wait that waits longest, by what is chosen"
    return f"{about}: {waits or 'not measured'}.{takes}"
