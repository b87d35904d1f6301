"""S1 Fig. 3.2, 3.3 and 3.18: savings and costs of filtering, and where flooding becomes cheaper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import log
from typing import Any, NamedTuple

from pleach.lab.experiment import Case, Figure, ResultTable, Summary, select
from pleach.lab.figure_style import plain
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.s1.chapter3.filtering_runs import (
    LIFETIMES,
    RATES,
    REFRESHES,
    TOGGLE_MESSAGES,
    control,
    leases_as_printed,
    saved,
    saved_from_root,
)
from pleach.lab.s1.chapter3.model_agreement import (
    ALIKE,
    Agreement,
    agreement,
    costs_of,
    expected,
    finding,
    is_alike,
    is_papers_own,
    points,
    versus,
)
from pleach.model.costs import break_even

MAGNIFIED = 40  # Fig. 3.3 shows so much less of the axis
BELOW = (0.5, -0.13)  # the axes: curves are everywhere
PUBLISHED_SAVED = {1.0: 116_000.0, 0.1: 11_600.0}  # without subscriptions
PUBLISHED_LEVEL = {60: 2_000.0, 600: 200.0}  # of control messages, with very many
PUBLISHED_EVEN, PUBLISHED_EVEN_FROM_ROOT = 300_000, 299_503  # ω = 1,000, lifetime 600 s, ρ = 60 s
PUBLISHED_WORST = 1 / 60  # of flooding: what filtering costs more at most


class Even(NamedTuple):
    """The number of subscriptions at which filtering costs as much as flooding; None beyond what was looked at."""

    rate: float
    lifetime: int
    refresh: int
    simulated: float | None
    computed: float | None


def crossing(falling: Sequence[Summary], other: Sequence[Summary]) -> float | None:
    """Where the one curve falls below the other; between two points both are taken for exponential."""
    for (a, b), (c, d) in pairwise(zip(falling, other, strict=True)):
        if a.mean >= b.mean and c.mean < d.mean and min(a.mean, b.mean, c.mean, d.mean) > 0:
            before, after = log(a.mean / b.mean), log(c.mean / d.mean)
            low, high = float(a.case["subscriptions"]), float(c.case["subscriptions"])
            return low + (high - low) * before / (before - after)
    return None


def break_evens(summaries: Sequence[Summary]) -> Iterator[Even]:
    """All eight scenarios, with publishers at leaves."""
    for rate in RATES:
        for lifetime in LIFETIMES:
            falling = points(summaries, saved(rate), lifetime)
            for refresh in REFRESHES:
                found = crossing(falling, points(summaries, control(refresh), lifetime))
                yield Even(rate, lifetime, refresh, found, _computed(falling[0].case, rate, refresh))


def _computed(case: Case, rate: float, refresh: int, *, from_root: bool = False) -> float | None:
    def saving(subscriptions: float) -> float:
        costs = costs_of({**case, "subscriptions": subscriptions}, refresh=refresh, rate=rate)
        return (costs._replace(detour=0.0) if from_root else costs).saved

    return break_even(saving)


# Pictures -------------------------------------------------------------------------------------------------------


def draw_whole(axes: Any, summaries: Sequence[Summary]) -> None:
    _draw(axes, summaries, saved)


def draw_magnified(axes: Any, summaries: Sequence[Summary]) -> None:
    _draw(axes, summaries, saved)
    _magnify(axes, summaries)


def draw_from_root(axes: Any, summaries: Sequence[Summary]) -> None:
    _draw(axes, summaries, saved_from_root)
    _magnify(axes, summaries)


def _draw(axes: Any, summaries: Sequence[Summary], of_rate: Callable[[float], str]) -> None:
    for rate in RATES:
        versus(axes, points(summaries, of_rate(rate), LIFETIMES[0]), f"saved events, {rate:g}/s of each class")
    for lifetime in LIFETIMES:
        for refresh in REFRESHES:
            label = f"control, lifetime {lifetime} s, ρ = {refresh} s"
            versus(axes, points(summaries, control(refresh), lifetime), label)
    axes.set_ylabel("messages per second")
    axes.yaxis.set_major_formatter(plain)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper center", bbox_to_anchor=BELOW, ncols=2)


def _magnify(axes: Any, summaries: Sequence[Summary]) -> None:
    axes.set_ylim(0, max(s.mean for s in select(summaries, saved(RATES[0]))) / MAGNIFIED)


# Judgements -----------------------------------------------------------------------------------------------------


def _agreement(summaries: Sequence[Summary], of_rate: Callable[[float], str]) -> Agreement:
    metrics = [*map(of_rate, RATES), *map(control, REFRESHES)]
    return agreement(points(summaries, metric, lifetime) for metric in metrics for lifetime in LIFETIMES)


def judge_whole(summaries: Sequence[Summary]) -> Finding:
    agrees = _agreement(summaries, saved)
    empty = {rate: points(summaries, saved(rate), LIFETIMES[0])[0] for rate in RATES}
    level = {rho: points(summaries, control(rho), LIFETIMES[0])[-1] for rho in REFRESHES}
    said = [
        *(f"without subscriptions {s.mean:,.0f}/s are saved at {rate:g}/s of each class" for rate, s in empty.items()),
        *(f"control messages tend to {s.mean:,.0f}/s for ρ = {rho} s" for rho, s in level.items()),
    ]
    is_saved = all(is_alike(s.mean, PUBLISHED_SAVED[rate]) for rate, s in empty.items())
    is_level = all(is_alike(s.mean, PUBLISHED_LEVEL[rho]) for rho, s in level.items())
    measured = (
        f"Saved and control: {agrees}. Simulated: {'; '.join(said)}. With renewals that travel from clients, as S1"
        f" prints them, control messages are up to {_apart_as_printed(summaries):.1%} of the curve's maximum apart."
    )
    published = (
        Condition("116,000 and 11,600 messages/s saved without subscriptions", is_saved),
        Condition("control messages tend to 2,000 and 200/s", is_level),
    )
    return finding(agrees, measured, summaries, *published)


def _apart_as_printed(summaries: Sequence[Summary]) -> float:
    """Control messages against the model, as a share of their maximum, if brokers do not renew by themselves."""
    return max(_apart_on_curve(summaries, refresh, lifetime) for refresh in REFRESHES for lifetime in LIFETIMES)


def _apart_on_curve(summaries: Sequence[Summary], refresh: int, lifetime: int) -> float:
    toggles = points(summaries, TOGGLE_MESSAGES, lifetime)
    printed = points(summaries, leases_as_printed(refresh), lifetime)
    computed = [expected(control(refresh), point.case) for point in toggles]
    simulated = [one.mean + other.mean for one, other in zip(toggles, printed, strict=True)]
    return max(abs(found - value) for found, value in zip(simulated, computed, strict=True)) / max(computed)


def judge_magnified(summaries: Sequence[Summary]) -> Finding:
    evens = list(break_evens(summaries))
    spelled = "; ".join(f"({_setting(even)}) {_both(even)}" for even in evens)
    agrees = _agreement(summaries, saved)
    measured = f"Break-even, simulated (computed), for ω per class, lifetime and ρ: {spelled}. All curves: {agrees}."
    first = Condition(f"break-even at about {PUBLISHED_EVEN:,}", is_alike(evens[0].simulated, PUBLISHED_EVEN))
    return finding(agrees, measured, summaries, first)


def judge_from_root(summaries: Sequence[Summary]) -> Finding:
    agrees = _agreement(summaries, saved_from_root)
    rate, lifetime, refresh = RATES[0], LIFETIMES[0], REFRESHES[0]
    falling = points(summaries, saved_from_root(rate), lifetime)
    costs = points(summaries, control(refresh), lifetime)
    found = crossing(falling, costs)
    computed = _computed(falling[0].case, rate, refresh, from_root=True)
    flooding = costs_of(falling[-1].case, rate=rate).flooding
    worst = max(cost.mean - gain.mean for gain, cost in zip(falling, costs, strict=True)) / flooding
    even = Even(rate, lifetime, refresh, found, computed)
    measured = (
        f"Break-even with publishers at the root, simulated (computed): {_both(even)} subscriptions. Filtering costs at"
        f" most {worst:.2%} of flooding more. All curves: {agrees}."
    )
    published = (
        Condition(f"break-even at {PUBLISHED_EVEN_FROM_ROOT:,}", is_alike(found, PUBLISHED_EVEN_FROM_ROOT)),
        Condition("at most 1/60 worse than flooding", worst <= PUBLISHED_WORST),
    )
    return finding(agrees, measured, summaries, *published)


def _setting(even: Even) -> str:
    return f"{even.rate:g}/s, {even.lifetime} s, {even.refresh} s"


def _both(even: Even) -> str:
    simulated, computed = ("none" if n is None else f"{n:,.0f}" for n in (even.simulated, even.computed))
    return f"{simulated} ({computed})"


def write_evens(summaries: Sequence[Summary]) -> str:
    rows = "\n".join(
        f"| {even.rate:g}/s | {even.lifetime} s | {even.refresh} s | {_number(even.simulated)} |"
        f" {_number(even.computed)} | {_apart(even)} | {published} |"
        for even, published in zip(break_evens(summaries), ("about 300,000", *[""] * 7), strict=True)
    )
    return f"""Subscriptions at which filtering with leases costs as many messages as flooding, publishers at leaves.
Simulated: where the simulated curves cross. Computed: `pleach model`. S1 prints one of the eight.

| publications of each class | lifetime | ρ | simulated | computed | apart | S1 |
|---|---|---|---|---|---|---|
{rows}
"""


def _number(found: float | None) -> str:
    return "none" if found is None else f"{found:,.0f}"


def _apart(even: Even) -> str:
    if even.simulated is None or even.computed is None:
        return ""
    return f"{even.simulated / even.computed - 1:+.2%}"


def judge_evens(summaries: Sequence[Summary]) -> Finding:
    """A smaller network has few points, and noise between them."""
    evens = list(break_evens(summaries))
    apart = [abs(even.simulated / even.computed - 1) for even in evens if even.simulated and even.computed]
    worst = max(apart, default=0.0)
    measured = f"{len(apart)} of {len(evens)} found in the simulation, at most {worst:.2%} from the computed ones."
    holds = len(apart) == len(evens) and worst <= ALIKE
    doubt = False if is_papers_own(summaries) else None
    return judged(measured, besides=[Condition(f"all found, within {ALIKE:.0%} of the computed ones", holds or doubt)])


WHAT_S1_PLOTS = (
    "121 brokers, 1,000 classes, up to 500,000 subscriptions, publishers at leaves. Without subscriptions 116,000"
    " (11,600) messages per second are saved; control messages tend to 2,000 (200) for ρ = 60 (600) s, with a hump"
    " where subscriptions live for 60 s only. (The caption gives other parameters to bc3 and bc4 than the text.)"
)
FIGURES = (
    Figure(
        name="s1-fig3-2",
        paper="S1 Fig. 3.2",
        title="What filtering saves, and what it costs",
        published=WHAT_S1_PLOTS,
        draw=draw_whole,
        judge=judge_whole,
    ),
    Figure(
        name="s1-fig3-3",
        paper="S1 Fig. 3.3",
        title="What filtering saves, and what it costs: 1/40 of the axis",
        published=(
            "Eight intersections: filtering is better up to there. That of 1,000 publications/s, lifetime 600 s and"
            " ρ = 60 s is at about 300,000 subscriptions."
        ),
        draw=draw_magnified,
        judge=judge_magnified,
    ),
    Figure(
        name="s1-fig3-18",
        paper="S1 Fig. 3.18",
        title="The same with publishers at the root",
        published=(
            "The analysis matches the simulation. b becomes negative beyond 299,503 subscriptions; filtering is at"
            " most 1/60 worse than flooding."
        ),
        draw=draw_from_root,
        judge=judge_from_root,
    ),
)
BREAK_EVENS = ResultTable(
    name="s1-break-even",
    paper="S1 Fig. 3.3",
    title="Break-even of filtering and flooding",
    published="About 300,000 subscriptions for 1,000 publications/s, lifetime 600 s, ρ = 60 s; no others are given.",
    write=write_evens,
    judge=judge_evens,
)
