"""The table of the measurements of `large_network.py`."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2

from pleach.lab.beyond import large_network as large
from pleach.lab.experiment import Case, Experiment, ResultTable, Size, Summary, select
from pleach.lab.findings import Condition, Finding, aimed
from pleach.trace import Rule

NEIGHBOURS_MAX = 3
HOPS_OVER_LOG = 0.75  # as in s3/figures.py
TITLES = (
    "brokers",
    "tree kept by",
    "neighbours: while growing, then, after losses",
    "links across",
    "hops of a look-up",
    "s to join",
    "exchanges",
    "messages per broker and second: links, standbys, ring",
    "machines lost",
    "clients moved",
    "deliveries",
    "wrong",
)
LEGEND = (
    "Neighbours: the most that a broker has. Hops: mean (at most). Seconds to join: median (at most), with the time for"
    " a first copy. Messages: while nothing changes but a few events. Wrong: deliveries lost, doubled, spurious, out of"
    " order."
)


def write_table(summaries: Sequence[Summary]) -> str:
    lines = [f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|"]
    for case in _cases(summaries):
        neighbours = ", ".join(
            f"{_of(summaries, metric, case).maximum:.0f}"
            for metric in (large.DEGREE_WHILE, large.DEGREE, large.DEGREE_AFTER)
        )
        messages = ", ".join(
            f"{_of(summaries, metric, case).mean:.1f}" for metric in (large.LINKS, large.MEMBERS, large.DATAGRAMS)
        )
        hops, join = _of(summaries, large.HOPS, case), _of(summaries, large.JOIN, case)
        cells = (
            f"{case['brokers']:,}",
            str(case["tree"]),
            neighbours,
            f"{_of(summaries, large.DIAMETER, case).mean:.0f}",
            f"{hops.mean:.1f} ({hops.maximum:.0f})",
            f"{join.p50:.0f} ({join.maximum:.0f})",
            f"{_of(summaries, large.EXCHANGES, case).mean:.0f}",
            messages,
            f"{_of(summaries, large.DESTROYED, case).mean:.0f}",
            f"{_of(summaries, large.MOVED, case).mean:.0f}",
            f"{_of(summaries, large.DELIVERED, case).mean:,.0f}",
            f"{_wrong(summaries, case):.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", LEGEND])


def judge_table(summaries: Sequence[Summary]) -> Finding:
    cases = _cases(summaries)
    kept = [case for case in cases if case["tree"] == large.RING_KEPT]
    most = max(_of(summaries, large.DEGREE, case).maximum for case in kept)
    after = max(_of(summaries, large.DEGREE_AFTER, case).maximum for case in kept)
    wrong = sum(_wrong(summaries, case) for case in cases)
    deliveries = sum(_total(summaries, large.DELIVERED, case) for case in cases)
    lost = sum(_total(summaries, large.DESTROYED, case) for case in cases)
    outside = sum(_total(summaries, metric, case) for case in cases for metric in (large.NOT_JOINED, large.RESTLESS))
    brokers = max(int(case["brokers"]) for case in cases)
    measured = (
        f"Up to {brokers:,} brokers. Where the steward keeps the tree of the ring, no broker has more than {most:.0f}"
        f" neighbours once nobody joins, and {after:.0f} after losses. In all, {lost:.0f} machines were lost; of"
        f" {deliveries:,.0f} deliveries {wrong:.0f} were wrong or missing."
    )
    are_few_hops = all(
        _of(summaries, large.HOPS, case).mean <= HOPS_OVER_LOG * log2(int(case["brokers"])) for case in cases
    )
    return aimed(
        measured,
        Condition("at most three neighbours where the tree of the ring is kept", max(most, after) <= NEIGHBOURS_MAX),
        Condition("nothing lost, doubled, spurious or out of order", not wrong),
        Condition("all brokers join, and all comes to rest", not outside),
        Condition("hops grow with the logarithm of the brokers", are_few_hops),
    )


def _cases(summaries: Sequence[Summary]) -> list[Case]:
    found = [summary.case for summary in summaries if summary.metric == large.VIRTUAL]
    return sorted(found, key=lambda case: (int(case["brokers"]), str(case["tree"]) != large.RING_KEPT))


def _of(summaries: Sequence[Summary], metric: str, case: Case) -> Summary:
    (found,) = select(summaries, metric, **case)
    return found


def _total(summaries: Sequence[Summary], metric: str, case: Case) -> float:
    found = _of(summaries, metric, case)
    return found.mean * found.samples


def _wrong(summaries: Sequence[Summary], case: Case) -> float:
    return sum(_total(summaries, str(rule), case) for rule in Rule)


LARGE_NETWORK = Experiment(
    name="large-network",
    about="a large network with all that looks after it: ring, standbys, leases, councils, losses, moves",
    cases=large.cases,
    seeds={Size.QUICK: 1, Size.USUAL: 1, Size.FULL: 3},
    measure=large.measure,
    cost=large.cost,
    figures=(),
    tables=(
        ResultTable(
            "large-network",
            "S3 §4, and beyond",
            "A large network, with everything on",
            "S3 simulates the tree alone, with up to 120 hosts. Wanted: brokers join one by one while events flow, a"
            " tenth of all machines is lost, and no broker has more than three neighbours, nothing is lost.",
            write_table,
            judge_table,
        ),
    ),
)
