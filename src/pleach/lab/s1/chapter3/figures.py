"""S1 Fig. 3.2–3.18: filtering with leases against flooding, simulated and computed (S1 §3.3.3 and §3.5).

Here are Fig. 3.9–3.17, the parts of the model, each against the simulation (3.13 is a drawing without data), and the
experiment; Fig. 3.2, 3.3 and 3.18 are in `break_even.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from pleach.lab.experiment import Experiment, Figure, Size, Summary
from pleach.lab.figure_style import plain
from pleach.lab.findings import Condition, Finding
from pleach.lab.s1.chapter3 import break_even
from pleach.lab.s1.chapter3.filtering_runs import (
    CROWD_MAX,
    ENTRIES,
    LIFETIMES,
    PER_TOGGLE,
    RATES,
    REFRESHES,
    TOGGLE_MESSAGES,
    TOGGLES,
    cases,
    cost,
    crowd,
    detour,
    leases,
    leases_as_printed,
    measure,
    saved_from_root,
)
from pleach.lab.s1.chapter3.model_agreement import agreement, expected, finding, is_alike, peak, points, tree_of, versus

SEEN_MIN = 5.0  # leaves and classes: what is expected more rarely has no interval worth the name
LONG, SHORT = LIFETIMES
CROWDS_SHOWN = range(5)
CROWDS = frozenset(map(crowd, CROWDS_SHOWN))


class Claim(NamedTuple):
    said: str  # what the simulation gives for the numbers that the paper prints
    published: Condition


class Curve(NamedTuple):
    metric: str
    lifetime: int
    label: str


class FigurePlan(NamedTuple):
    """One figure; those that are judged are simulated for both lifetimes even where one is drawn."""

    curves: Sequence[Curve]
    unit: str
    claim: Callable[[Sequence[Summary]], Claim]


def _draw(plan: FigurePlan, axes: Any, summaries: Sequence[Summary]) -> None:
    for metric, lifetime, label in plan.curves:
        versus(axes, points(summaries, metric, lifetime), label)
    axes.set_ylabel(plan.unit)
    axes.set_ylim(bottom=0)
    if axes.get_ylim()[1] > 10:
        axes.yaxis.set_major_formatter(plain)
    if len(plan.curves) > 1:
        axes.legend()


def _draw_leases(plan: FigurePlan, axes: Any, summaries: Sequence[Summary]) -> None:
    """What S1's own renewals come to is shown beside, and not judged: the model is not about them."""
    for lifetime, marker in zip(LIFETIMES, ("x", "+"), strict=True):
        found = [s for refresh in REFRESHES for s in points(summaries, leases_as_printed(refresh), lifetime)]
        xs, means = [float(s.case["subscriptions"]) for s in found], [s.mean for s in found]
        label = f"renewed as S1 prints it, lifetime {lifetime} s"
        axes.plot(xs, means, linestyle="", marker=marker, color="#555555", label=label)
    _draw(plan, axes, summaries)


def _judge(plan: FigurePlan, summaries: Sequence[Summary]) -> Finding:
    metrics = dict.fromkeys(curve.metric for curve in plan.curves)
    agrees = agreement(
        [point for point in points(summaries, metric, lifetime) if _is_often_seen(point)]
        for metric in metrics
        for lifetime in LIFETIMES
    )
    said, published = plan.claim(summaries)
    return finding(agrees, f"{said} {str(agrees)[0].upper()}{str(agrees)[1:]}.", summaries, published)


def _is_often_seen(point: Summary) -> bool:
    if point.metric not in CROWDS:
        return True
    places = tree_of(point.case).leaves * int(point.case["classes"])
    return places * expected(point.metric, point.case) >= SEEN_MIN


# What the paper says of each ------------------------------------------------------------------------------------


def _subscribers(summaries: Sequence[Summary]) -> Claim:
    nobody = points(summaries, crowd(0), LONG)
    first, last = nobody[0], nobody[-1]
    said = (
        f"Nobody wants a class at a leaf with probability {first.mean:.1%} for {first.case['subscriptions']:,}"
        f" subscriptions, {last.mean:.2%} for {last.case['subscriptions']:,}."
    )
    return Claim(said, Condition("grows throughout", all(a.mean >= b.mean for a, b in pairwise(nobody))))


def _entries(summaries: Sequence[Summary]) -> Claim:
    last = points(summaries, ENTRIES, LONG)[-1]
    limit = tree_of(last.case).links * int(last.case["classes"])
    said = f"{last.mean:,.0f} entries with {last.case['subscriptions']:,} subscriptions."
    return Claim(said, Condition(f"tends to {limit:,}", last.mean > 0.99 * limit))


def _saved(summaries: Sequence[Summary]) -> Claim:
    curves = [points(summaries, saved_from_root(rate), LONG) for rate in RATES]
    said = [f"{curve[0].mean:,.0f} to {curve[-1].mean:,.0f} messages/s" for curve in curves]
    tends = all(curve[-1].mean < 0.01 * curve[0].mean for curve in curves)
    return Claim(f"Saved: {' and '.join(said)}.", Condition("tends to zero", tends))


def _leases(summaries: Sequence[Summary]) -> Claim:
    last = {rho: points(summaries, leases(rho), LONG)[-1].mean for rho in REFRESHES}
    printed = [s for rho in REFRESHES for life in LIFETIMES for s in points(summaries, leases_as_printed(rho), life)]
    ratios = [s.mean / expected(s.metric, s.case) - 1 for s in printed if s.case["subscriptions"]]
    said = (
        f"{'; '.join(f'ρ = {rho} s: {value:,.0f}/s' for rho, value in last.items())} at the end: S1's text has the two"
        " the wrong way round, its §3.3.3 has them right. That is with brokers that renew by themselves. If renewals"
        f" travel from clients as S1 prints it, (3.26) is wrong by {min(ratios):+.0%} to {max(ratios):+.0%}: there are"
        " fewer where subscriptions end before they are renewed, more where the one whose flag kept the others back has"
        " left."
    )
    as_printed = is_alike(last[600], 2000) and is_alike(last[60], 200)
    return Claim(said, Condition("which of 2,000 and 200 belongs to which ρ", as_printed))


def _per_toggle(summaries: Sequence[Summary]) -> Claim:
    curve = points(summaries, PER_TOGGLE, SHORT)
    first, last = curve[0], curve[-1]
    said = (
        f"{first.mean:.2f} for {first.case['subscriptions']:,} subscriptions, {last.mean:.2f} for"
        f" {last.case['subscriptions']:,}."
    )
    return Claim(said, Condition("approaches 1", last.mean < 1.01 < first.mean))


def _toggles(summaries: Sequence[Summary]) -> Claim:
    most = {life: max(points(summaries, TOGGLES, life), key=lambda s: s.mean) for life in LIFETIMES}
    at = most[LONG].case["subscriptions"]
    said = f"Most toggles: {_each(most)}, {_where(most[LONG])}."
    as_printed = is_alike(most[LONG].mean, 99.33) and is_alike(most[SHORT].mean, 993.3) and at == 81_000
    return Claim(said, Condition("at most 99 and 993 toggles/s, at about 81,000 subscriptions", as_printed))


def _toggle_messages(summaries: Sequence[Summary]) -> Claim:
    most = {life: max(points(summaries, TOGGLE_MESSAGES, life), key=lambda s: s.mean) for life in LIFETIMES}
    said = (
        f"Most toggle messages: {_each(most)}, {_where(most[LONG])}. S1's text has the two lifetimes the wrong way"
        " round."
    )
    as_printed = is_alike(most[SHORT].mean, 117) and is_alike(most[LONG].mean, 1174)
    return Claim(said, Condition("which of 117 and 1,174 belongs to which lifetime", as_printed))


def _each(most: dict[int, Summary]) -> str:
    return ", ".join(f"{found.mean:,.1f}/s (lifetime {lifetime} s)" for lifetime, found in most.items())


def _where(most: Summary) -> str:
    return (
        f"at {most.case['subscriptions']:,} subscriptions among those simulated, computed at"
        f" {peak(most.metric, most.case):,.0f}"
    )


def _detour(summaries: Sequence[Summary]) -> Claim:
    shares = [
        extra.mean / saved.mean
        for rate in RATES
        for extra, saved in zip(
            points(summaries, detour(rate), LONG), points(summaries, saved_from_root(rate), LONG), strict=True
        )
    ]
    tree = tree_of(summaries[0].case)
    most = (tree.levels - 1) / tree.links
    said = (
        f"Publishers at leaves add {min(shares):.1%} to {max(shares):.1%} of what is saved: that is at least"
        f" {1 / most:.0f} times as much (S1 writes at most)."
    )
    return Claim(said, Condition(f"no more than {most:.1%}", max(shares) <= most + 1e-9))


# The figures ----------------------------------------------------------------------------------------------------


def _both_lifetimes(metric: str) -> list[Curve]:
    return [Curve(metric, lifetime, f"lifetime {lifetime} s") for lifetime in LIFETIMES]


def _by_rate(of_rate: Callable[[float], str]) -> list[Curve]:
    return [Curve(of_rate(rate), LONG, f"{rate:g}/s of each class") for rate in RATES]


def _figure(
    number: int,
    title: str,
    published: str,
    plan: FigurePlan,
    draw: Callable[[FigurePlan, Any, Sequence[Summary]], None] = _draw,
) -> Figure:
    return Figure(
        name=f"s1-fig3-{number}",
        paper=f"S1 Fig. 3.{number}",
        title=title,
        published=published,
        draw=partial(draw, plan),
        judge=partial(_judge, plan),
    )


FIGURES = (
    _figure(
        9,
        "How many subscriptions of a class a leaf has",
        "The number grows with that of all subscriptions. (No figures in the text.)",
        FigurePlan([Curve(crowd(i), LONG, f"{i} subscriptions") for i in CROWDS_SHOWN], "probability", _subscribers),
    ),
    _figure(
        10,
        "Remote routing entries",
        "Tends to l·z = 120,000.",
        FigurePlan([Curve(ENTRIES, LONG, "entries")], "entries", _entries),
    ),
    _figure(
        11,
        "Messages that filtering saves, publishers at the root",
        "Tends to zero for both rates of publication.",
        FigurePlan(_by_rate(saved_from_root), "messages per second", _saved),
    ),
    _figure(
        12,
        "Messages that renew leases",
        "Approaches 2,000 (200) messages per second for ρ = 600 s (60 s).",
        FigurePlan(
            [Curve(leases(rho), SHORT, f"renewed hop by hop, ρ = {rho} s") for rho in REFRESHES],
            "messages per second",
            _leases,
        ),
        _draw_leases,
    ),
    _figure(
        14,
        "Messages per toggle",
        "Quickly approaches 1; at most k - 1 = 4.",
        FigurePlan([Curve(PER_TOGGLE, SHORT, "messages")], "messages", _per_toggle),
    ),
    _figure(
        15,
        "Toggles of leaves",
        "At most about 99 (993) per second for 80,998 subscriptions, lifetime 600 s (60 s).",
        FigurePlan(_both_lifetimes(TOGGLES), "toggles per second", _toggles),
    ),
    _figure(
        16,
        "Messages that toggles cause",
        "At most 117 (1,174) per second with 57,382 subscriptions, for a lifetime of 60 s (600 s).",
        FigurePlan(_both_lifetimes(TOGGLE_MESSAGES), "messages per second", _toggle_messages),
    ),
    _figure(
        17,
        "What publishers at leaves cost more",
        "No more than 3.3% of what filtering saves.",
        FigurePlan(_by_rate(detour), "messages per second", _detour),
    ),
)
assert max(CROWDS_SHOWN) <= CROWD_MAX, "shown, but not measured"


FILTERING = Experiment(
    name="s1-filtering",
    about="filtering with leases against flooding, up to 500,000 subscriptions: simulation and model",
    cases=cases,
    seeds={Size.QUICK: 5, Size.USUAL: 8, Size.FULL: 30},
    measure=measure,
    cost=cost,
    figures=(*break_even.FIGURES, *FIGURES),
    tables=(break_even.BREAK_EVENS,),
)
