"""Radius, interval and cache that tune themselves (open in S1 §5.8), beside those that S1 found for one setting.

Costs are those of whole runs, with broadcasts, requests and exchanges. Both meet the same traffic and begin with the
same tree, so that their difference has an interval of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.improve.course import SETTLING, TICKS, setting_of, total
from pleach.lab.improve.policies import SELF_TUNING
from pleach.lab.improve.rounds import STATIC, Run, Tuning, simulate
from pleach.lab.improve.setting import TICKS_PER_SLOT, Setting

PAIR = (SETTLING, SELF_TUNING)
PER_TICKS, PER_BROKERS = 1_000, 100
DIFFERENCE, ALL, TALK, LATE, TOLD = "difference", "all", "talk", "late exchanges", "told"

RATES = (0.2, 1.0, 5.0)  # how many times as many events as in Table 5.1
MOVES = (0.0, 2_500.0)
SIZES = {Size.QUICK: (20,), Size.USUAL: (30, 100), Size.FULL: (30, 100)}


def cases(size: Size) -> list[Case]:
    return [
        {"brokers": brokers, "rate": rate, "reassignment": moves, "ticks": TICKS[size]}
        for brokers in SIZES[size]
        for moves in MOVES
        for rate in RATES
    ]


def measure(case: Case, seed: int) -> Iterator[Sample]:
    setting = setting_of(
        case,
        publication_interval=Setting.publication_interval / float(case["rate"]),
        reassignment_interval=float(case["reassignment"]),
    )
    random_tree = _spent(simulate(setting, seed, Tuning(STATIC)))
    shares = {}
    for heuristic in PAIR:
        run = simulate(setting, seed, Tuning(heuristic))
        shares[heuristic] = _spent(run) / random_tree
        forwarding = sum(slot.forwarding for slot in run.slots)
        yield Sample(f"{ALL} {heuristic}", shares[heuristic])
        yield Sample(f"{TALK} {heuristic}", shares[heuristic] - forwarding / random_tree)
        yield Sample(f"{LATE} {heuristic}", _late_exchanges(run, setting))
        yield Sample(f"{TOLD} {heuristic}", sum(slot.told for slot in run.slots))
    yield Sample(DIFFERENCE, shares[SELF_TUNING] - shares[SETTLING])


def _spent(run: Run) -> float:
    return sum(map(total, run.slots))


def _late_exchanges(run: Run, setting: Setting) -> float:
    """In the second half of the run, per 1,000 ticks and 100 brokers."""
    late = run.slots[len(run.slots) // 2 :]
    exchanges = sum(slot.exchanges for slot in late)
    return exchanges * PER_TICKS / (len(late) * TICKS_PER_SLOT) * PER_BROKERS / setting.brokers
