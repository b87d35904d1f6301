"""Figures and findings of the measurements of `tree.py`."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any

from pleach.lab.experiment import Experiment, Figure, ResultTable, Size, Summary, select
from pleach.lab.figure_style import curve, from_zero, logarithmic_x, logarithmic_y, percent
from pleach.lab.findings import Condition, Finding, judged
from pleach.lab.s3.protocol import DEGREE_MAX, ITERATIVE, OPERATIONS, RECURSIVE, SECONDS, WRONG, WRONG_OWNER
from pleach.lab.s3.tree import BINARY, MORE_BITS, PAPER_BITS, RENDEZVOUS, SCHEMES, cases, cost, measure
from pleach.lab.trends import ordered

KINDS = ("connect", "disconnect")
AREA_SMALL = 5.0  # hosts: the one that comes or goes, its neighbours, and one or two on the way
CONTACTED = (1.8, 3.2)  # what is taken for "between two and three"


def _paper(summaries: Sequence[Summary], metric: str, scheme: str = BINARY) -> list[Summary]:
    return ordered(select(summaries, metric, part="tree", scheme=scheme, bits=PAPER_BITS), "hosts")


def _more(summaries: Sequence[Summary], metric: str, scheme: str) -> list[Summary]:
    return ordered(select(summaries, metric, part="tree", scheme=scheme, bits=MORE_BITS), "hosts")


def _span(points: Sequence[Summary], form: str = ".1f") -> str:
    means = [point.mean for point in points]
    return f"{min(means):{form}} to {max(means):{form}}"


# Fig. 3 ---------------------------------------------------------------------------------------------------------


def draw_degrees(axes: Any, summaries: Sequence[Summary]) -> None:
    for degree, label in ((1, "one neighbour: leaves"), (2, "two"), (3, "three")):
        curve(axes, _paper(summaries, f"share of degree {degree}"), "hosts", label)
    axes.set_ylim(0.0, 1.0)
    axes.yaxis.set_major_formatter(percent)
    axes.set_xlabel("hosts")
    axes.set_ylabel("share of hosts")
    axes.legend()


def judge_degrees(summaries: Sequence[Summary]) -> Finding:
    shares = {degree: _paper(summaries, f"share of degree {degree}") for degree in (1, 2, 3)}
    most = max(point.maximum for point in _paper(summaries, "degree max"))
    leaves_or_three = [one.mean + three.mean for one, three in zip(shares[1], shares[3], strict=True)]
    measured = (
        f"Leaves are {_span(shares[1], '.0%')} of the hosts, {_span(shares[3], '.0%')} have three neighbours,"
        f" {_span(shares[2], '.0%')} two; none has more than {most:.0f}."
    )
    return judged(
        measured,
        core=[
            Condition("nobody has more than three neighbours", most <= 3),
            Condition("most have one or three", min(leaves_or_three) > 0.5),
        ],
    )


# Fig. 4 ---------------------------------------------------------------------------------------------------------


def draw_area(axes: Any, summaries: Sequence[Summary]) -> None:
    for panel, kind in zip(axes, KINDS, strict=True):
        for scheme in SCHEMES:
            curve(panel, _paper(summaries, f"area {kind}", scheme), "hosts", scheme)
        panel.set_title(f"a host {kind}s")
        panel.set_xlabel("hosts")
        panel.set_ylabel("hosts in the area")
        from_zero(panel, [p for scheme in SCHEMES for p in _paper(summaries, f"area {kind}", scheme)])
    axes[0].legend(loc="lower right")


def judge_area(summaries: Sequence[Summary]) -> Finding:
    area = {kind: _paper(summaries, f"area {kind}") for kind in KINDS}
    contacted = {kind: _paper(summaries, f"contacted {kind}") for kind in KINDS}
    measured = (
        f"Binary tree: the area has {_span(area['connect'])} hosts on average when one connects and"
        f" {_span(area['disconnect'])} when one disconnects, whatever their number. Besides that host"
        f" {_span(contacted['connect'])} and {_span(contacted['disconnect'])} have a link changed."
    )
    is_small = all(point.mean <= AREA_SMALL for points in area.values() for point in points)
    is_as_said = all(CONTACTED[0] <= p.mean <= CONTACTED[1] for points in contacted.values() for p in points)
    return judged(
        measured,
        core=[Condition(f"areas are small (at most {AREA_SMALL:g} hosts on average)", is_small)],
        besides=[Condition("two to three others have a link changed", is_as_said)],
    )


# More than the paper --------------------------------------------------------------------------------------------


def draw_scale(axes: Any, summaries: Sequence[Summary]) -> None:
    shown = (
        ("degree max", "most neighbours of a host"),
        ("depth", "links to the root, on average"),
        ("area disconnect", "hosts in the area when one goes"),
        ("messages disconnect", "messages when one goes"),
    )
    for panel, (metric, label) in zip(axes, shown, strict=True):
        points = {scheme: _more(summaries, metric, scheme) for scheme in SCHEMES}
        for scheme in SCHEMES:
            curve(panel, points[scheme], "hosts", scheme)
        logarithmic_x(panel, [float(point.case["hosts"]) for point in points[BINARY]])
        panel.set_title(label)
        panel.set_xlabel("hosts")
    axes[0].set_ylim(bottom=0.0)
    logarithmic_y(axes[3])
    axes[1].legend(loc="upper left")


def judge_scale(summaries: Sequence[Summary]) -> Finding:
    hosts = int(_more(summaries, "degree max", BINARY)[-1].case["hosts"])
    most = {scheme: max(p.maximum for p in _more(summaries, "degree max", scheme)) for scheme in SCHEMES}
    last = {scheme: {m: _more(summaries, m, scheme)[-1] for m in _SCALED} for scheme in (BINARY, RENDEZVOUS)}
    above = {degree: _more(summaries, f"share above {degree}", f"degree {degree}")[-1].mean for degree in (4, 8)}
    ours, theirs = last[BINARY], last[RENDEZVOUS]
    measured = (
        f"Up to {hosts:,} hosts nobody has more than {most[BINARY]:.0f} neighbours in the binary tree, and the area"
        f" stays at {ours['area connect'].mean:.1f} and {ours['area disconnect'].mean:.1f} hosts. With degree 4 and 8"
        f" some hosts do have more than that, up to {most['degree 4']:.0f} and {most['degree 8']:.0f}"
        f" ({above[4]:.1%} and {above[8]:.1%} of all): the bound does not carry over, though it is rare to exceed it."
        f" Rendezvous: up to {most[RENDEZVOUS]:.0f} neighbours, mean depth {theirs['depth'].mean:.1f} instead of"
        f" {ours['depth'].mean:.1f}; a departure takes {theirs['messages disconnect'].p50:.0f} messages mostly, but up"
        f" to {theirs['messages disconnect'].maximum:,.0f}, and {ours['messages disconnect'].mean:.0f}"
        f" (at most {ours['messages disconnect'].maximum:,.0f}) with the reference tree: control has its price."
    )
    return judged(
        measured,
        core=[
            Condition("at most three neighbours in the binary tree", most[BINARY] <= 3),
            Condition("more with the rendezvous scheme", most[RENDEZVOUS] > most[BINARY]),
        ],
        besides=[
            Condition(f"at most {degree} neighbours with degree {degree}", most[f"degree {degree}"] <= degree)
            for degree in (4, 8)
        ],
    )


_SCALED = ("area connect", "area disconnect", "depth", "messages disconnect")


# Look-ups and churn -----------------------------------------------------------------------------------------------

HOPS_OVER_LOG = 0.75  # a look-up halves the distance at every other hop: about half the logarithm, and the last hop


def _hops(summaries: Sequence[Summary], metric: str) -> list[Summary]:
    return ordered(select(summaries, metric, part="ring"), "hosts")


def draw_hops(axes: Any, summaries: Sequence[Summary]) -> None:
    points = _hops(summaries, RECURSIVE)
    curve(axes, points, "hosts", "recursive")
    curve(axes, _hops(summaries, ITERATIVE), "hosts", "iterative")
    hosts = [float(point.case["hosts"]) for point in points]
    axes.plot(hosts, [log2(n) / 2 for n in hosts], label="½ log₂ of the number of hosts", color="#888888", marker="")
    axes.plot(hosts, [point.maximum for point in points], label="recursive, the longest")
    logarithmic_x(axes, hosts)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("hosts")
    axes.set_ylabel("hops")
    axes.legend()


def judge_hops(summaries: Sequence[Summary]) -> Finding:
    points, astray = _hops(summaries, RECURSIVE), _hops(summaries, WRONG_OWNER)
    wrong = sum(point.mean * point.samples for point in astray)
    said = ", ".join(f"{p.mean:.1f} with {int(p.case['hosts']):,} hosts (at most {p.maximum:.0f})" for p in points)
    measured = f"On average {said}; {wrong:.0f} look-ups without the right answer."
    is_logarithmic = all(point.mean <= HOPS_OVER_LOG * log2(float(point.case["hosts"])) for point in points)
    return judged(
        measured,
        core=[
            Condition("hops grow with the logarithm of the hosts", is_logarithmic),
            Condition("every look-up has the right answer", not wrong),
        ],
    )


def _churn(summaries: Sequence[Summary], metric: str) -> Summary:
    (summary,) = select(summaries, metric, part="churn")
    return summary


def write_churn(summaries: Sequence[Summary]) -> str:
    operations, wrong = _churn(summaries, OPERATIONS), _churn(summaries, WRONG)
    seconds, degree = _churn(summaries, SECONDS), _churn(summaries, DEGREE_MAX)
    return f"""
{2 ** int(operations.case["bits"])} keys, about {operations.case["hosts"]} hosts, bursts of 1 to 12 joins, leaves and
failures at once; hosts look after their successors every second and after their neighbours in the tree every two.

| | |
|---|---|
| joins, leaves and failures | {operations.mean * operations.samples:,.0f} |
| bursts | {wrong.samples:,} |
| bursts after which the tree did not become the one of S3's definitions | {wrong.mean * wrong.samples:.0f} |
| most neighbours of a host | {degree.maximum:.0f} |
| seconds until the tree is right: median | {seconds.p50:.1f} |
| 95% of bursts | {seconds.p95:.1f} |
| the longest | {seconds.maximum:.1f} |
"""


def judge_churn(summaries: Sequence[Summary]) -> Finding:
    operations, wrong = _churn(summaries, OPERATIONS), _churn(summaries, WRONG)
    seconds, degree = _churn(summaries, SECONDS), _churn(summaries, DEGREE_MAX)
    measured = (
        f"{operations.mean * operations.samples:,.0f} joins, leaves and failures in {wrong.samples:,} bursts: after"
        f" {wrong.mean * wrong.samples:.0f} of them the tree was not the one that the definitions give; nobody had more"
        f" than {degree.maximum:.0f} neighbours. Right again after {seconds.p50:.1f} s (median), at most"
        f" {seconds.maximum:.1f} s."
    )
    return judged(
        measured,
        core=[
            Condition("the tree is the one of the definitions after every burst", wrong.maximum == 0),
            Condition("nobody has more than three neighbours", degree.maximum <= 3),
        ],
    )


S3_TREE = Experiment(
    name="s3-tree",
    about="a tree kept by a ring: degrees, reach of a change, look-ups, ten thousand joins, leaves and failures",
    cases=cases,
    seeds={Size.QUICK: 2, Size.USUAL: 3, Size.FULL: 10},
    measure=measure,
    cost=cost,
    figures=(
        Figure(
            name="s3-fig3",
            paper="S3 Fig. 3",
            title="Neighbours of a host, binary reference tree, 256 keys",
            published=(
                "10 to 120 hosts, after a time of connections and disconnections: a tree; most hosts are leaves or have"
                " three neighbours, and none has more. (No figures in the text.)"
            ),
            draw=draw_degrees,
            judge=judge_degrees,
        ),
        Figure(
            name="s3-fig4",
            paper="S3 Fig. 4",
            title="How many hosts a change concerns, 256 keys",
            published=(
                "The area stays very small however many hosts there are, close to the ideal of the host and its"
                " neighbours; between two and three hosts are contacted on average."
            ),
            draw=draw_area,
            judge=judge_area,
            panels=2,
        ),
        Figure(
            name="s3-scale",
            paper="S3 §3.6, §4.1, §5",
            title="More hosts, other degrees, and the rendezvous scheme",
            published=(
                "With larger degrees the number of neighbours is still bounded by the degree with high probability, and"
                " similar conclusions hold (conjectures). Rendezvous schemes give no control of the topology; the loss"
                " of their root makes all hosts join again."
            ),
            draw=draw_scale,
            judge=judge_scale,
            panels=4,
        ),
        Figure(
            name="s3-lookups",
            paper="S3 §2.2",
            title="Hops of a look-up, in rings that the protocol has made",
            published="The complexity of a look-up is of the order of the logarithm of the number of hosts.",
            draw=draw_hops,
            judge=judge_hops,
        ),
    ),
    tables=(
        ResultTable(
            name="s3-churn",
            paper="S3 §4.2.1",
            title="Joins, leaves and failures, by the protocol",
            published="The algorithm keeps a tree, with no more neighbours than the reference tree's degree.",
            write=write_churn,
            judge=judge_churn,
        ),
    ),
)
