"""Figures and findings of S1 Fig. 4.14–4.16, from the measurements of `exchange.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pleach.lab.experiment import Experiment, Figure, Size, Summary, select
from pleach.lab.figure_style import curve, from_zero
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.s1.chapter4.exchange import (
    ADVANCED,
    CONTROL,
    DUPLICATE,
    LOST,
    MESSAGES,
    QUEUED_MS,
    STRAWMAN,
    SUBSCRIBERS_PER_PUBLISHER,
    cases,
    cost,
    measure,
)
from pleach.lab.trends import linear_growth, ordered, trend
from pleach.scenario.model import Ordering

SEVERE = SUBSCRIBERS_PER_PUBLISHER  # lost per exchange, as much as a whole event: S1 gives no figure


def _of(summaries: Sequence[Summary], metric: str, protocol: str, ordering: Ordering) -> list[Summary]:
    return ordered(select(summaries, metric, protocol=protocol, ordering=ordering.value), "cycle")


def draw_control(axes: Any, summaries: Sequence[Summary]) -> None:
    curves = {
        "strawman": _of(summaries, CONTROL, STRAWMAN, Ordering.NONE),
        "advanced coordinated, as S1 counts": _of(summaries, CONTROL, ADVANCED, Ordering.CAUSAL),
        "advanced coordinated, messages sent": _of(summaries, MESSAGES, ADVANCED, Ordering.CAUSAL),
    }
    _draw(axes, curves, "control messages per exchange")


def draw_broken(axes: Any, summaries: Sequence[Summary]) -> None:
    curves = {
        "lost (strawman)": _of(summaries, LOST, STRAWMAN, Ordering.NONE),
        "delivered twice (strawman)": _of(summaries, DUPLICATE, STRAWMAN, Ordering.NONE),
        "lost (advanced coordinated)": _of(summaries, LOST, ADVANCED, Ordering.CAUSAL),
        "delivered twice (advanced coordinated)": _of(summaries, DUPLICATE, ADVANCED, Ordering.CAUSAL),
    }
    _draw(axes, curves, "notifications per exchange")


def draw_delay(axes: Any, summaries: Sequence[Summary]) -> None:
    curves = {
        "causal order": _of(summaries, QUEUED_MS, ADVANCED, Ordering.CAUSAL),
        "FIFO order": _of(summaries, QUEUED_MS, ADVANCED, Ordering.FIFO),
    }
    _draw(axes, curves, "mean time in a queue (ms)")


def _draw(axes: Any, curves: Mapping[str, Sequence[Summary]], what: str) -> None:
    for name, points in curves.items():
        curve(axes, points, "cycle", name)
    from_zero(axes, [point for points in curves.values() for point in points])
    axes.set_xlabel("brokers on the cycle")
    axes.set_ylabel(what)
    axes.legend(loc="upper left")


def judge_control(summaries: Sequence[Summary]) -> Finding:
    strawman = _of(summaries, CONTROL, STRAWMAN, Ordering.NONE)
    advanced = _of(summaries, CONTROL, ADVANCED, Ordering.CAUSAL)
    sent = _of(summaries, MESSAGES, ADVANCED, Ordering.CAUSAL)
    shares = [ours.mean / theirs.mean for ours, theirs in zip(advanced, strawman, strict=True)]
    first, last = strawman[0].case["cycle"], strawman[-1].case["cycle"]
    measured = (
        f"From {first} to {last} brokers on the cycle: strawman {strawman[0].mean:,.0f} to {strawman[-1].mean:,.0f}"
        f" control messages per exchange, advanced coordinated {advanced[0].mean:,.0f} to {advanced[-1].mean:,.0f}"
        f" ({shares[0]:.0%} to {shares[-1]:.0%} of the strawman's); sent are {sent[0].mean:,.0f} to"
        f" {sent[-1].mean:,.0f}, since tables travel in one message."
    )
    curves = {"the strawman's": strawman, "those of advanced coordinated": advanced}
    return judged(
        measured,
        core=[Condition("fewer than the strawman on every cycle", max(shares) < 1.0)],
        besides=[
            Condition("above all on short ones", shares[0] == min(shares)),
            *(linear_growth(name, points, "cycle").grows for name, points in curves.items()),
        ],
    )


def judge_broken(summaries: Sequence[Summary]) -> Finding:
    lost, doubled = (_of(summaries, metric, STRAWMAN, Ordering.NONE) for metric in (LOST, DUPLICATE))
    lines = [trend(points, "cycle") for points in (lost, doubled)]
    advanced = [s.maximum for m in (LOST, DUPLICATE) for s in select(summaries, m, protocol=ADVANCED)]
    first, last = lost[0].case["cycle"], lost[-1].case["cycle"]
    measured = (
        f"From {first} to {last} brokers on the cycle the strawman loses {lost[0].mean:,.1f} to {lost[-1].mean:,.1f}"
        f" notifications per exchange (correlation with the length {lines[0].fit:.2f}) and doubles"
        f" {doubled[0].mean:,.1f} to {doubled[-1].mean:,.1f} ({lines[1].fit:.2f}); advanced coordinated at most"
        f" {max(advanced):,.0f}."
    )
    growths = [linear_growth("losses", lost, "cycle"), linear_growth("duplicates", doubled, "cycle")]
    kept = Condition("advanced coordinated loses and doubles nothing", max(advanced) == 0)
    counts = Condition("losses are far from negligible", min(point.mean for point in lost) >= SEVERE)
    return judged(
        measured, core=[kept, *(each.grows for each in growths)], besides=[counts, *(each.linear for each in growths)]
    )


def judge_delay(summaries: Sequence[Summary]) -> Finding:
    fifo, causal = (_of(summaries, QUEUED_MS, ADVANCED, ordering) for ordering in (Ordering.FIFO, Ordering.CAUSAL))
    waits = {"FIFO": fifo, "causal": causal}
    lines = [trend(points, "cycle") for points in waits.values()]
    pairs = [(late.mean, early.mean) for late, early in zip(causal, fifo, strict=True)]
    longer = all(late >= early for late, early in pairs) and any(late > early for late, early in pairs)
    measured = (
        f"From {fifo[0].case['cycle']} to {fifo[-1].case['cycle']} brokers on the cycle, queued notifications wait"
        f" {fifo[0].mean:,.0f} to {fifo[-1].mean:,.0f} ms for FIFO order ({lines[0].slope:,.1f} ms per broker,"
        f" correlation {lines[0].fit:.2f}) and {causal[0].mean:,.0f} to {causal[-1].mean:,.0f} ms for causal order"
        f" ({lines[1].slope:,.1f} ms per broker, {lines[1].fit:.2f})."
    )
    growths = [linear_growth(f"waits for {name} order", points, "cycle") for name, points in waits.items()]
    return judged(
        measured,
        core=[growth.grows for growth in growths],
        besides=[Condition("causal order delays more than FIFO order", longer), *(each.linear for each in growths)],
    )


EXCHANGE_ON_A_CYCLE = Experiment(
    name="s1-exchange",
    about="advanced coordinated reconfiguration and strawman, by the length of the cycle",
    cases=cases,
    seeds={Size.QUICK: 3, Size.USUAL: 6, Size.FULL: 50},
    measure=measure,
    cost=cost,
    figures=(
        Figure(
            name="s1-fig4-14",
            paper="S1 Fig. 4.14",
            title="Control messages of an exchange",
            published=(
                "Grows with the cycle for both; the advanced coordinated reconfiguration clearly needs fewer than the"
                " strawman, above all on short cycles, and fewer on long ones, too. (No figures in the text.)"
            ),
            draw=draw_control,
            judge=judge_control,
        ),
        Figure(
            name="s1-fig4-15",
            paper="S1 Fig. 4.15",
            title="Notifications that the strawman loses and doubles",
            published="Both about linear in the number of brokers on the cycle; losses are far from negligible.",
            draw=draw_broken,
            judge=judge_broken,
        ),
        Figure(
            name="s1-fig4-16",
            paper="S1 Fig. 4.16",
            title="How long the order of notifications makes them wait",
            published="Linear in the length of the cycle; causal order delays more than FIFO order.",
            draw=draw_delay,
            judge=judge_delay,
        ),
    ),
)
