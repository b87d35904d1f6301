"""Drawings of the tree of brokers, as a survey finds it, or before and after a plan, and of their ring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec
from rich.columns import Columns
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.tree import Tree

from pleach.cli.terminal import Console, escape
from pleach.core.messages import Node
from pleach.core.overlay.plans import Link, Plan, Topology, TreeDifference, describe
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.keys import Arc, Circle
from pleach.errors import InvalidInputError, SurveyError
from pleach.operate.ring_seats import RingSeat
from pleach.operate.survey import BrokerStatus, ClientStatus, CopyStatus, NeighbourStatus, StandbyStatus, Survey
from pleach.server.ring.steward import seats_in, wanted_in
from pleach.server.standby.registers import display


def draw_survey(console: Console, survey: Survey) -> None:
    seen: set[str] = set()
    for name in survey.found:  # several trees, if brokers in between do not answer
        if name not in seen:
            root = Tree(_label(name, survey.found), guide_style="dim")
            _grow(root, name, survey.found, seen)
            console.print(root)
    for name, status in sorted(survey.found.items()):
        for each in status.open_operations:
            text = f"{name}: operation {each.name}, {each.in_words}"
            console.print(f"[yellow]{escape(text)}[/]", soft_wrap=True)
    draw_silent(console, survey)


def draw_silent(console: Console, survey: Survey) -> None:
    """Who does not answer, and why."""
    for who, reason in survey.unreachable.items():
        console.print(f"[red]{escape(who)} does not answer[/]: {escape(reason)}", soft_wrap=True)


def _grow(branch: Tree, name: str, found: dict[str, BrokerStatus], seen: set[str]) -> None:
    seen.add(name)
    if name not in found:
        return
    for client, state in sorted(found[name].clients.items()):
        branch.add(f"[cyan]{escape(client)}[/] {state.subscriptions_count} subscriptions{_queue(state)}")
    for neighbour, link in sorted(found[name].neighbours.items()):
        if neighbour in seen:
            continue
        back = found[neighbour].neighbours.get(name) if neighbour in found else None
        queues = _queue(link, "→") + (_queue(back, "←") if back else "")
        _grow(branch.add(_label(neighbour, found) + _relay(link) + queues), neighbour, found, seen)


def _label(name: str, found: dict[str, BrokerStatus]) -> str:
    if name not in found:
        return f"[dim]{escape(name)} (does not answer)[/]"
    status = found[name]
    kind = _copies(name, status.standby) if status.durable else " [dim]in memory[/]"
    busy = f" [yellow]operation {escape(status.operation)}[/]" if status.operation else ""
    return f"[bold]{escape(name)}[/]{kind}{busy}" + (
        "" if status.ready else f" [red]{escape('; '.join(status.reasons))}[/]"
    )


def _copies(broker: str, standby: StandbyStatus | None) -> str:
    """Where a broker runs, if not on its own machine, and where its data directory is besides."""
    if standby is None:
        return ""
    machine = display(standby.machine)
    place = f" on {escape(machine)}" if machine != broker else ""
    copies = ", ".join(escape(display(each)) + _lag(copy) for each, copy in standby.copies.items())
    told = f"{place} [dim]{f'copy at {copies}' if copies else 'no copy elsewhere'}[/]"
    return told if standby.covered else f"{told} [yellow]not covered[/]"


def _lag(copy: CopyStatus) -> str:
    if copy.behind is None:
        return " (being brought up)"
    return f" ({copy.behind.records:,} behind)" if copy.behind.records else ""


def _relay(link: NeighbourStatus) -> str:
    return f" [yellow]through {escape(link.relay)}[/]" if link.up and link.relay else ""


def _queue(link: NeighbourStatus | ClientStatus, arrow: str = "") -> str:
    waiting = f" {arrow}{link.queued:,} queued" if link.queued else ""
    return waiting + ("" if link.up else " [red]down[/]")


def picture(topology: Topology, *, other: Topology) -> Group:
    """A tree, drawn from the same root as `other`; links that `other` lacks are in bold."""
    common = [broker for broker in topology.brokers if broker in other]
    top = next(iter(common), topology.brokers[0])
    root = Tree(escape(top), guide_style="dim")
    waiting = [(root, top, "")]
    while waiting:
        branch, here, above = waiting.pop()
        for there in topology.neighbours(here):
            if there != above:
                name = escape(there) if other.has_link(here, there) else f"[bold]{escape(there)}[/]"
                waiting.append((branch.add(name), there, here))
    return Group(root)


def draw_plan(console: Console, made: Plan) -> None:
    for line in describe(made):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    before = Panel(picture(made.start, other=made.result), title="before", expand=False)
    after = Panel(picture(made.result, other=made.start), title="after", expand=False)
    console.print(Columns([before, after]))


# The ring, with the tree that follows from it beside the current tree -------------------------------------------------


ARC_COLUMNS, ARC_COLUMNS_MIN = 32, 8  # of the picture of the circle; fewer where the terminal is narrow
OUTSIDE = MappingProxyType(
    {RingPhase.OUT: "not in it yet", RingPhase.JOINING: "coming in", RingPhase.GONE: "not in it any more"}
)
WIDTH_MAX = 1_000  # what a table would take if it could
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

    @property
    def is_woven(self) -> bool:
        """Whether the brokers' tree is to be that of the ring."""
        return any(seat.weaves for seat in self.members.values())


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


def draw_ring(console: Console, found: Survey, report: RingReport, *, is_compared: bool) -> None:
    """`is_compared`: also where the links are others than those of the ring."""
    console.print(_table_for(console, report.members))
    if not is_compared:
        console.print("[dim]links are not those of the ring, which says who is there and where brokers enter[/]")
        return
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


def _table_for(console: Console, members: Mapping[Node, RingSeat]) -> Table:
    """The circle has what the other columns leave: cut short it would hide who owns its end."""
    table = _table(members, ARC_COLUMNS)
    missing = console.measure(table, options=console.options.update(width=WIDTH_MAX)).maximum - console.width
    return _table(members, max(ARC_COLUMNS - missing, ARC_COLUMNS_MIN)) if missing > 0 else table


def _table(members: Mapping[Node, RingSeat], arc_columns: int) -> Table:
    table = Table("key", "broker", "owns", "", "topmost", "by the ring", box=None, header_style="bold")
    for name, seat in members.items():
        label = f"[bold]{escape(name)}[/]{' [yellow]leaving[/]' if seat.is_leaving else ''}"
        if seat.phase is not RingPhase.MEMBER:  # it knows of no other, and would say that all keys are its own
            table.add_row(str(seat.key), label, "–", "", "–", f"[yellow]{OUTSIDE[seat.phase]}[/]")
            continue
        arc = Arc(Circle(seat.bits), seat.low, seat.key)
        share, drawn = f"{arc.length / arc.circle.size:.1%}", _drawn(arc, seat.topmost, arc_columns)
        where = f"below {seat.parent}" if seat.parent else "the root"
        table.add_row(str(seat.key), label, share, drawn, str(seat.topmost), escape(where))
    return table


def _drawn(arc: Arc, topmost: int, columns: int) -> str:
    """The circle of keys, cut at key 0: the owned arc, and the owner's topmost key."""
    size = arc.circle.size

    def cells() -> Iterator[str]:
        for column in range(columns):
            first, last = size * column // columns, max(size * (column + 1) // columns - 1, 0)
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
