"""The figures of S0 §VI, and findings against the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pleach.lab.experiment import Experiment, Figure, Size, Summary, Value, select
from pleach.lab.figure_style import bars, curve, from_zero, logarithmic_x, logarithmic_y
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.s0.default_scenario import (
    COMPLETE,
    CORRECTED,
    JOINING_ELSEWHERE,
    KINDS,
    PARTIAL,
    PUB,
    PUBLISHED,
    REMOVAL_KB,
    TYPES,
)
from pleach.lab.s0.primitives import cases, cost, measure
from pleach.lab.trends import ordered, trend

MEGABYTE_KB = 1024.0
WITHOUT_SUBSCRIPTIONS_KB_MAX = 0.25
REMOVAL_KB_MAX = 0.11
SWAP_SHARE_MIN = 0.99
ALIKE = 2.0  # the factor within which we call a size the published one
MANY_SUBSCRIPTIONS = 100  # per client: from here on S0 has its curve level
FLAT = 1.15  # the factor within which we call a curve constant
LINEAR_SHARE = 0.5  # of the growth of a straight line: less is no growth with the subscriptions
LINEAR_FIT_MIN = 0.99
NEGLIGIBLE = 0.01
VERY_MANY_SUBSCRIPTIONS, VERY_MANY_MB_MIN = 10_000, 10.0  # per client, and what S0 has its removal cost then
CONSTANT = "constant where nothing is told"
SHOWN_KB_MIN = 0.005  # less is nothing on a logarithmic scale
KNOWLEDGE = {PARTIAL: "brokers know a part (identity)", COMPLETE: "nothing has to be told (flooding)"}


def _points(summaries: Sequence[Summary], metric: str, varies: str, **wanted: Value) -> list[Summary]:
    """The points at which a parameter varies, and the default one, except where there are no subscriptions."""
    chosen = {"variant": CORRECTED, "knowledge": PARTIAL, **wanted}
    found = [s for value in ("", varies) for s in select(summaries, metric, varies=value, **chosen)]
    return ordered([s for s in found if s.case["subscriptions"]], varies)


def _default(summaries: Sequence[Summary], metric: str, **wanted: Value) -> Summary:
    (found,) = _points(select(summaries, metric, varies=""), metric, "brokers", **wanted)
    return found


def draw_types(axes: Any, summaries: Sequence[Summary]) -> None:
    for panel, knowledge in zip(axes, (COMPLETE, PARTIAL), strict=True):
        wanted = {"knowledge": knowledge, "variant": PUBLISHED}
        found = [(label, _default(summaries, f"KB {label}", **wanted)) for label in TYPES]
        bars(panel, [(label, s) for label, s in found if s.mean >= SHOWN_KB_MIN])
        panel.set_title(KNOWLEDGE[knowledge])
        panel.set_xlabel("type of message")
        panel.set_ylabel("KB per swap")
    axes[0].set_ylim(bottom=0)
    logarithmic_y(axes[1])
    axes[1].set_ylim(bottom=SHOWN_KB_MIN)


def draw_subscriptions(axes: Any, summaries: Sequence[Summary]) -> None:
    _draw_both(axes, summaries, "subscriptions")
    logarithmic_x(axes, [float(s.case["subscriptions"]) for s in _points(summaries, "KB", "subscriptions")])
    axes.set_xlabel("subscriptions per client")


def draw_brokers(axes: Any, summaries: Sequence[Summary]) -> None:
    _draw_both(axes, summaries, "brokers")
    axes.set_xlabel("brokers (and clients)")


def _draw_both(axes: Any, summaries: Sequence[Summary], varies: str) -> None:
    for knowledge in (PARTIAL, COMPLETE):
        points = _points(summaries, "KB without pub", varies, knowledge=knowledge)
        curve(axes, points, varies, KNOWLEDGE[knowledge])
    logarithmic_y(axes)
    axes.set_ylabel("KB of control messages per swap")
    axes.legend()


def draw_gaps(axes: Any, summaries: Sequence[Summary]) -> None:
    curves = {v: _points(summaries, f"KB {PUB}", "gap_ms", variant=v) for v in (CORRECTED, PUBLISHED)}
    for variant, points in curves.items():
        curve(axes, points, "gap_ms", f"SwapLink as {variant}")
    logarithmic_x(axes, [float(s.case["gap_ms"]) for s in curves[CORRECTED]])
    from_zero(axes, curves[CORRECTED])
    axes.set_xlabel("time between events of a client (ms)")
    axes.set_ylabel("KB of additional events per swap")
    axes.legend()


def draw_removal(axes: Any, summaries: Sequence[Summary]) -> None:
    points = _points(summaries, REMOVAL_KB, "subscriptions")
    curve(axes, points, "subscriptions", "RemoveBroker")
    logarithmic_x(axes, [float(s.case["subscriptions"]) for s in points])
    logarithmic_y(axes)
    axes.set_xlabel("subscriptions per client")
    axes.set_ylabel("KB per removal")


# Judgements -----------------------------------------------------------------------------------------------------


def judge_types(summaries: Sequence[Summary]) -> Finding:
    bare = _default(summaries, "KB", knowledge=COMPLETE, variant=PUBLISHED).mean
    total, tables = (_default(summaries, metric).mean for metric in ("KB", "KB swap"))
    messages = _default(summaries, "messages").mean
    extra = {v: _default(summaries, f"KB {PUB}", knowledge=COMPLETE, variant=v).mean for v in (CORRECTED, PUBLISHED)}
    measured = (
        f"{messages:.0f} messages. Where no subscriptions travel {bare:.2f} KB per swap, {extra[PUBLISHED]:.2f} KB of"
        f" it additional events (as corrected, these are {extra[CORRECTED]:.2f} KB); where they do {total:,.0f} KB,"
        f" {tables / total:.1%} of it in swap messages."
    )
    if total < MEGABYTE_KB / ALIKE:
        measured += (
            " That is less than the megabyte of S0: of the three swap messages only the one from b to c carries"
            " subscriptions, those on the sides of a and b, and equal ones once."
        )
    is_alike = MEGABYTE_KB / ALIKE <= total <= MEGABYTE_KB * ALIKE
    return judged(
        measured,
        core=[
            Condition("below 0.25 KB where no subscriptions travel", bare < WITHOUT_SUBSCRIPTIONS_KB_MAX),
            Condition("more than 99% of it in swap messages", tables >= SWAP_SHARE_MIN * total),
        ],
        besides=[Condition(f"about 1 MB where they travel (within a factor of {ALIKE:g})", is_alike)],
    )


def judge_subscriptions(summaries: Sequence[Summary]) -> Finding:
    points = _points(summaries, "KB swap", "subscriptions")
    sizes = {int(s.case["subscriptions"]): s.mean for s in points}
    few, most = min(sizes), max(sizes)
    default = int(_default(summaries, "KB").case["subscriptions"])
    steep = (sizes[default] / sizes[few]) / (default / few)
    late = [size for count, size in sizes.items() if count >= MANY_SUBSCRIPTIONS]
    bare = [s.mean for s in _points(summaries, "KB without pub", "subscriptions", knowledge=COMPLETE)]
    measured = (
        f"From {few} to {default} subscriptions per client the cost grows {steep * default / few:.1f} times, to"
        f" {sizes[default]:,.0f} KB. Where nothing is told it is {min(bare):.2f} to {max(bare):.2f} KB."
    )
    if len(late) > 1:
        measured += (
            f" From {MANY_SUBSCRIPTIONS} on it is constant within a factor of {max(late) / min(late):.2f}"
            f" ({sizes[most]:,.0f} KB with {most:,}), since all {KINDS:,} kinds of subscriptions are there."
        )
    is_level = max(late) <= FLAT * min(late) if len(late) > 1 else None
    return judged(
        measured,
        core=[
            Condition("grows with the subscriptions while these are few", steep > LINEAR_SHARE),
            Condition(CONSTANT, max(bare) <= FLAT * min(bare)),
        ],
        besides=[
            Condition(f"almost constant (a factor of {FLAT}) from {MANY_SUBSCRIPTIONS} per client on", is_level),
        ],
    )


def judge_brokers(summaries: Sequence[Summary]) -> Finding:
    points = _points(summaries, "KB swap", "brokers")
    line = trend(points, "brokers")
    bare = [s.mean for s in _points(summaries, "KB without pub", "brokers", knowledge=COMPLETE)]
    first, last = points[0], points[-1]
    growth, more = last.mean / first.mean, float(last.case["brokers"]) / float(first.case["brokers"])
    measured = (
        f"From {first.case['brokers']} to {last.case['brokers']} brokers ({more:.0f} times as many) the cost grows"
        f" {growth:.1f} times, from {first.mean:,.0f} to {last.mean:,.0f} KB; where nothing is told it stays at"
        f" {min(bare):.2f} to {max(bare):.2f} KB."
    )
    return judged(
        measured,
        core=[
            Condition("grows with the number of brokers", line.rises),
            Condition(CONSTANT, max(bare) <= FLAT * min(bare)),
        ],
        besides=[Condition("grows more slowly than the number of brokers", growth < more)],
    )


def judge_gaps(summaries: Sequence[Summary]) -> Finding:
    published, corrected = (
        [s.mean for s in _points(summaries, f"KB {PUB}", "gap_ms", variant=v)] for v in (PUBLISHED, CORRECTED)
    )
    gaps = [int(s.case["gap_ms"]) for s in _points(summaries, f"KB {PUB}", "gap_ms", variant=PUBLISHED)]
    default, total = (_default(summaries, metric).mean for metric in (f"KB {PUB}", "KB"))
    measured = (
        f"From {gaps[0]} to {gaps[-1]} ms between events of a client, additional events fall from {published[0]:,.2f}"
        f" to {published[-1]:,.2f} KB per swap as published, and from {corrected[0]:,.2f} to {corrected[-1]:,.2f} KB"
        f" with the copies that causal order takes; by default they are {default / total:.2%} of all."
    )
    falls = published[0] > published[-1] and corrected[0] > corrected[-1]
    return judged(
        measured,
        core=[Condition("falls as events become rarer", falls)],
        besides=[Condition(f"less than {NEGLIGIBLE:.0%} of all", default < NEGLIGIBLE * total)],
    )


def judge_removal(summaries: Sequence[Summary]) -> Finding:
    points = _points(summaries, REMOVAL_KB, "subscriptions")
    line = trend(points, "subscriptions")
    (without,) = (s.mean for s in select(summaries, REMOVAL_KB, subscriptions=0, knowledge=PARTIAL))
    last = points[-1]
    very_many = line.at_zero + line.slope * VERY_MANY_SUBSCRIPTIONS
    elsewhere = [s.maximum for s in select(summaries, JOINING_ELSEWHERE)]
    measured = (
        f"Without subscriptions {without:.2f} KB per removal; {line.slope:.2f} KB more for each subscription per client"
        f" (correlation {line.fit:.3f}), {last.mean:,.0f} KB with {last.case['subscriptions']:,}; extrapolated to"
        f" {VERY_MANY_SUBSCRIPTIONS:,}: {very_many / MEGABYTE_KB:.1f} MB. AddBroker causes {max(elsewhere):.0f}"
        " messages in the existing network."
    )
    return judged(
        measured,
        core=[
            Condition("linear in the subscriptions", line.fit >= LINEAR_FIT_MIN),
            Condition("AddBroker causes no traffic in the existing network", max(elsewhere) == 0),
        ],
        besides=[
            Condition(
                f"{REMOVAL_KB_MAX} KB without subscriptions (within a factor of {ALIKE:g})",
                without <= REMOVAL_KB_MAX * ALIKE,
            ),
            Condition(
                f"more than {VERY_MANY_MB_MIN:g} MB with {VERY_MANY_SUBSCRIPTIONS:,} subscriptions per client",
                very_many > VERY_MANY_MB_MIN * MEGABYTE_KB,
            ),
        ],
    )


FIGURES = (
    Figure(
        name="s0-fig12",
        paper="S0 Fig. 12",
        title="What a swap costs, by type of message",
        published=(
            "Below 0.25 KB where brokers know all subscriptions, much the same for all types, and no event is sent"
            " besides; slightly above 1 MB where they do not, more than 99% of it in swap messages."
        ),
        draw=draw_types,
        judge=judge_types,
        panels=2,
    ),
    Figure(
        name="s0-fig13",
        paper="S0 Fig. 13",
        title="What a swap costs, by the number of subscriptions",
        published=(
            "Linear in the subscriptions up to about 100 per client, then almost constant, since they overlap; constant"
            " where none have to travel."
        ),
        draw=draw_subscriptions,
        judge=judge_subscriptions,
    ),
    Figure(
        name="s0-fig14",
        paper="S0 Fig. 14",
        title="What a swap costs, by the number of brokers",
        published=(
            "Grows with the number of brokers, and of subscriptions with it, as in Fig. 13; constant where none have to"
            " travel."
        ),
        draw=draw_brokers,
        judge=judge_brokers,
    ),
    Figure(
        name="s0-fig15",
        paper="S0 Fig. 15",
        title="Events that are sent besides during a swap",
        published=(
            "Drops significantly as the delay between publications grows, and is negligible beside the overhead of"
            " 1 MB."
        ),
        draw=draw_gaps,
        judge=judge_gaps,
    ),
    Figure(
        name="s0-fig16",
        paper="S0 Fig. 16",
        title="What it costs to remove a broker",
        published=(
            "0.11 KB without the subscriptions; linear in these, more than 10 MB with 10,000 per client. AddBroker"
            " causes no traffic in the existing network."
        ),
        draw=draw_removal,
        judge=judge_removal,
    ),
)

PRIMITIVES = Experiment(
    name="s0-primitives",
    about="what SwapLink, AddBroker and RemoveBroker cost on the wire",
    cases=cases,
    seeds={Size.QUICK: 2, Size.USUAL: 4, Size.FULL: 10},
    measure=measure,
    cost=cost,
    figures=FIGURES,
)
