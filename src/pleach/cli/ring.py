"""Drawing of the ring of brokers, with the tree that follows from it beside the current tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from pleach.cli.tree import picture
from pleach.core.messages import Node
from pleach.core.overlay.plans import Link, Topology, TreeDifference
from pleach.core.ring.keys import Arc, Circle
from pleach.errors import InvalidInputError, SurveyError
from pleach.operate.ring_seats import RingSeat
from pleach.operate.survey import Survey
from pleach.server.ring.steward import seats_in, wanted_in

ARC_COLUMNS = 32  # of the picture of the circle
ARC, TOPMOST, ELSEWHERE = "━", "◆", "·"


class RingReport(msgspec.Struct, frozen=True):
    """`is_followed`: the tree of brokers is that of the ring. `doubts`: why that is not known now."""

    members: dict[Node, RingSeat]  # in ring order
    is_followed: bool
    root: Node
    doubts: tuple[str, ...]
    links: tuple[Link, ...]  # of the ring's tree
    links_missing: tuple[Link, ...]
    links_extra: tuple[Link, ...]


def report_of(found: Survey) -> RingReport:
    members = dict(sorted(seats_in(found).items(), key=lambda item: item[1].key))
    target, tree, doubts = wanted_in(found), *_tree_of(found)
    if target.tree is None or tree is None:
        wanted = target.tree.links if target.tree else ()
        return RingReport(members, False, target.root, (*target.doubts, *doubts), wanted, (), ())
    difference = TreeDifference.of(planned=target.tree, found=tree)
    extra = tuple(link for link in difference.links_extra if {*link} <= {*members})
    missing = difference.links_missing
    return RingReport(members, not missing, target.root, (), target.tree.links, missing, extra)


def draw_ring(console: Console, found: Survey, report: RingReport) -> None:
    console.print(_table(report.members))
    target, (tree, _) = wanted_in(found), _tree_of(found)
    if tree is not None and target.tree is not None and not report.is_followed:
        is_tree = Panel(picture(tree, other=target.tree), title="the tree", expand=False)
        wanted = Panel(picture(target.tree, other=tree), title="the ring's tree", expand=False)
        console.print(Columns([is_tree, wanted]))
    for line in _verdict(report):
        console.print(line, soft_wrap=True)


def _tree_of(found: Survey) -> tuple[Topology | None, tuple[str, ...]]:
    try:
        return found.topology(), ()
    except (SurveyError, InvalidInputError) as error:
        return None, (str(error),)


def _table(members: Mapping[Node, RingSeat]) -> Table:
    table = Table("key", "broker", "owns", "", "topmost", "by the ring", box=None, header_style="bold")
    for name, seat in members.items():
        arc = Arc(Circle(seat.bits), seat.low, seat.key)
        share = f"{arc.length / arc.circle.size:.1%}"
        where = f"below {seat.parent}" if seat.parent else "the root"
        state = " [yellow]leaving[/]" if seat.is_leaving else "" if seat.phase == "member" else f" {seat.phase}"
        label = f"[bold]{escape(name)}[/]{state}"
        table.add_row(str(seat.key), label, share, _drawn(arc, seat.topmost), str(seat.topmost), escape(where))
    return table


def _drawn(arc: Arc, topmost: int) -> str:
    """The circle of keys, cut at key 0: the owned arc, and the owner's topmost key."""
    size = arc.circle.size

    def cells() -> Iterator[str]:
        for column in range(ARC_COLUMNS):
            first, last = size * column // ARC_COLUMNS, max(size * (column + 1) // ARC_COLUMNS - 1, 0)
            if first <= topmost <= last:
                yield TOPMOST
            else:
                yield ARC if arc.meets(first, last) else ELSEWHERE

    return "".join(cells())


def _verdict(report: RingReport) -> Iterator[str]:
    if report.is_followed:
        yield f"[green]the tree of {len(report.members)} brokers is that of the ring[/], with {report.root} at its root"
    for doubt in report.doubts:
        yield f"[yellow]not known now[/]: {escape(doubt)}"
    for sign, links in (("+", report.links_missing), ("−", report.links_extra)):
        for x, y in links:
            yield f"  {sign} link {escape(x)}–{escape(y)}"
