"""Drawings of the tree of brokers: as a survey finds it, or before and after a plan."""

from __future__ import annotations

from rich.columns import Columns
from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.tree import Tree

from pleach.core.overlay.plans import Plan, Topology, describe
from pleach.operate.survey import BrokerStatus, ClientStatus, NeighbourStatus, Survey


def draw_survey(console: Console, survey: Survey) -> None:
    seen: set[str] = set()
    for name in survey.found:  # several trees, if brokers in between do not answer
        if name not in seen:
            root = Tree(_label(name, survey.found), guide_style="dim")
            _grow(root, name, survey.found, seen)
            console.print(root)
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
        _grow(branch.add(_label(neighbour, found) + queues), neighbour, found, seen)


def _label(name: str, found: dict[str, BrokerStatus]) -> str:
    if name not in found:
        return f"[dim]{escape(name)} (does not answer)[/]"
    status = found[name]
    kind = "" if status.durable else " [dim]in memory[/]"
    if status.heal and status.heal.stand_in:
        kind += f" [magenta]stand-in ({escape(status.heal.stand_in)})[/]"
    busy = f" [yellow]operation {escape(status.operation)}[/]" if status.operation else ""
    return f"[bold]{escape(name)}[/]{kind}{busy}" + (
        "" if status.ready else f" [red]{escape('; '.join(status.reasons))}[/]"
    )


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
