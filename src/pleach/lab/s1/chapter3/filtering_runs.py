"""The runs for S1 Fig. 3.2–3.18: one network in equilibrium, over ten minutes (S1 §3.3.3, Table 3.1).

One run serves all combinations of ρ and ω at once: neither affects the entries that brokers send. Renewals are counted
hop by hop, as our brokers renew (decision 12), and as S1 prints them; both are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.s1.chapter3.class_filtering import (
    HOP,
    FilteringTree,
    RenewalPeriods,
    Subscriptions,
    Window,
    carried,
    changes,
    crowds,
    draw_publications,
    draw_subscriptions,
    entries,
    relayed,
    renewals,
    told,
)
from pleach.lab.s1.chapter3.spans import SECOND, Spans

# Table 3.1: the paper's two values of each
LIFETIMES = (600, 60)  # 1/µ, seconds
REFRESHES = (60, 600)  # ρ, seconds
RATES = (1.0, 0.1)  # ω / z: publications of one class, per second
DIAMETER = 8  # d, by which π = ρ + d·δ

SEEN = Window(SECOND, 601 * SECOND)  # by then all is told; a whole number of each ρ
UNTIL = 604 * SECOND  # periods are a little longer than refreshes
PUBLICATIONS = 20_000  # of each rate, about
CROWD_MAX = 6

TOGGLES, TOGGLE_MESSAGES, PER_TOGGLE, ENTRIES = "toggles", "toggle messages", "messages per toggle", "entries"

SCALE: dict[Size, Case] = {
    Size.QUICK: {"fanout": 3, "levels": 3, "classes": 50},
    Size.USUAL: {"fanout": 3, "levels": 5, "classes": 1000},
    Size.FULL: {"fanout": 3, "levels": 5, "classes": 1000},
}
PEAKS = (57_000, 81_000)  # of toggle messages and of toggles
FEW = (0, 5_000, 10_000)
SUBSCRIPTIONS: dict[Size, Sequence[int]] = {
    Size.QUICK: (0, 450, 1350, 2700),
    Size.USUAL: (*FEW, 25_000, 40_000, *PEAKS, *range(100_000, 200_000, 25_000), *range(200_000, 500_001, 50_000)),
    Size.FULL: (*FEW, *PEAKS, *range(20_000, 500_001, 10_000)),
}


# Names of metrics, by the interval of renewals, the rate of publications, or a number of subscriptions.
leases = "leases {}".format
leases_as_printed = "leases as printed {}".format
control = "control {}".format
saved = "saved {:g}".format  # messages that carry events, against flooding
saved_from_root = "saved from root {:g}".format  # … if all were published at the root
detour = "detour {:g}".format
crowd = "share with {}".format  # of leaves and classes with so many subscriptions


def cases(size: Size) -> list[Case]:
    return [
        {"subscriptions": count, "lifetime": lifetime, **SCALE[size]}
        for lifetime in LIFETIMES
        for count in SUBSCRIPTIONS[size]
    ]


def cost(case: Case) -> float:
    """About seconds."""
    return 1.0 + 1e-6 * float(case["subscriptions"]) * (1.0 + SEEN.seconds / float(case["lifetime"]))


# Measuring ------------------------------------------------------------------------------------------------------


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Messages per second over all links."""
    setting = FilteringTree(int(case["fanout"]), int(case["levels"]), int(case["classes"]))
    active, lifetime = int(case["subscriptions"]), int(case["lifetime"])
    draw = np.random.default_rng([seed, active, lifetime, setting.classes])
    subscriptions = draw_subscriptions(draw, setting, active, lifetime, UNTIL)
    levels = told(setting, subscriptions)
    yield from _control(draw, setting, subscriptions, levels)
    for rate in RATES:
        yield from _events(draw, setting, levels, rate)
    found = crowds(setting, subscriptions, SEEN.high)
    for count in range(CROWD_MAX + 1):
        share = found[count] / found.sum() if count < found.size else 0.0
        yield Sample(crowd(count), float(share))


def _control(
    draw: np.random.Generator, setting: FilteringTree, subscriptions: Subscriptions, levels: Sequence[Spans]
) -> Iterator[Sample]:
    toggles = changes(levels[0], SEEN)
    messages = sum(changes(spans, SEEN) for spans in levels)
    yield Sample(TOGGLES, toggles / SEEN.seconds)
    yield Sample(TOGGLE_MESSAGES, messages / SEEN.seconds)
    if toggles:
        yield Sample(PER_TOGGLE, messages / toggles)
    yield Sample(ENTRIES, entries(levels, SEEN))
    for refresh in REFRESHES:
        phases = draw.integers(0, refresh * SECOND, setting.brokers)
        renewed = renewals(setting, levels, phases, refresh * SECOND, SEEN)
        yield Sample(leases(refresh), renewed / SEEN.seconds)
        yield Sample(control(refresh), (messages + renewed) / SEEN.seconds)
        yield Sample(leases_as_printed(refresh), _as_printed(setting, subscriptions, levels, refresh))


def _as_printed(setting: FilteringTree, subscriptions: Subscriptions, levels: Sequence[Spans], refresh: int) -> float:
    """Over whole periods, of which each begins without flags."""
    period = refresh * SECOND + DIAMETER * HOP
    periods = round(SEEN.seconds) // refresh
    seen = Window(SEEN.low, SEEN.low + periods * period)
    return (
        relayed(setting, subscriptions, levels, RenewalPeriods(refresh * SECOND, period, SEEN.low), seen) / seen.seconds
    )


def _events(
    draw: np.random.Generator, setting: FilteringTree, levels: Sequence[Spans], rate: float
) -> Iterator[Sample]:
    """Against flooding of the same events, over every link each."""
    total_rate = rate * setting.classes
    window = Window(SEEN.low, min(SEEN.high, SEEN.low + round(PUBLICATIONS / total_rate * SECOND)))
    published = draw_publications(draw, setting, total_rate, window)
    found = carried(setting, levels, published)
    flooded = published.at.size * setting.links
    yield Sample(saved(rate), (flooded - found.hops) / window.seconds)
    yield Sample(saved_from_root(rate), (flooded - found.hops + found.detour) / window.seconds)
    yield Sample(detour(rate), found.detour / window.seconds)
