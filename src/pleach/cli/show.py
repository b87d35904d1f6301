"""Output of runs in a terminal: the tree, the summary, the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.tree import Tree

from pleach.cli.terminal import Console, escape, progress_on_stderr
from pleach.core.overlay.coloured import bounds
from pleach.core.overlay.coloured.bounds import ColouredConfig
from pleach.scenario.machines import tree_of
from pleach.scenario.model import Scenario, Stabiliser
from pleach.scenario.stabilise_settings import colouring_of, delays_of, is_coloured, period_min_of, stabilisation_of
from pleach.sim.run import SimResult
from pleach.trace import Record, Rule, Verdict, explain

EXPLAINED_MAX = 3
DRAWN_BROKERS_MAX = 60


def show_tree(console: Console, scenario: Scenario) -> None:
    """The broker tree with its clients, unless it is too large to read."""
    if len(scenario.brokers) > DRAWN_BROKERS_MAX:
        console.print(f"{len(scenario.brokers)} brokers, {len(scenario.clients)} clients")
        return
    tree = tree_of(scenario)
    clients: dict[str, list[str]] = {}
    for client in scenario.clients:
        clients.setdefault(client.broker, []).append(client.id)

    def grow(branch: Tree, broker: str) -> None:
        for child in tree.neighbours[broker]:
            if tree.parent[child] == broker:
                grow(branch.add(_label(child, clients)), child)

    root = Tree(_label(scenario.root, clients), guide_style="dim")
    grow(root, scenario.root)
    console.print(root)


def show_leases(console: Console, scenario: Scenario) -> None:
    """The periods of a self-stabilising network, and how long it takes to stabilise."""
    if scenario.stabilise is None:
        return
    if is_coloured(scenario):
        _show_colouring(console, colouring_of(scenario))
        return
    stabilise, delays = scenario.stabilise, delays_of(scenario)
    how = (
        stabilise.renewal.value if stabilise.kind is Stabiliser.LEASES else "cyclic" if stabilise.cyclic else "acyclic"
    )
    console.print(
        f"{stabilise.kind.value}, {how}: refresh {stabilise.refresh:g} s,"
        f" period {stabilise.period:g} s (above {period_min_of(scenario):g} s),"
        f" {delays.hops} links of {delays.low:g} to {delays.high:g} s:"
        f" correct again {stabilisation_of(scenario):g} s after any fault"
    )


def _show_colouring(console: Console, colouring: ColouredConfig) -> None:
    console.print(
        f"coloured: refresh {colouring.refresh:g} s, period {colouring.period:g} s (above"
        f" {bounds.period_min(colouring):g} s), up to {colouring.height} links of {colouring.low:g} to"
        f" {colouring.high:g} s from the root; {', '.join(colouring.group)} may be root:"
        f" correct again {bounds.stabilisation(colouring):g} s after any fault"
    )


def _label(broker: str, clients: dict[str, list[str]]) -> str:
    found = clients.get(broker, [])
    names = " ".join(found[:6]) + (f" … {len(found)} in all" if len(found) > 6 else "")
    return f"[bold]{escape(broker)}[/]" + (f"  [cyan]{escape(names)}[/]" if found else "")


def show_result(console: Console, result: SimResult, path: Path | None) -> None:
    console.print(
        f"{escape(result.scenario.name)}: seed {result.seed}, {result.hops:,} message hops,"
        f" quiet at {result.ended_at:.3f} s of virtual time"
    )
    for refusal in result.refusals:
        console.print(f"[yellow]refused[/] at {refusal.at:g} s: {refusal.step}: {escape(refusal.reason)}")
    sent = Counter(record.message for record in result.records if record.kind == "send")
    if sent:
        console.print("sent: " + ", ".join(f"{kind} {count:,}" for kind, count in sent.most_common()))
    if path:
        console.print(f"trace: {escape(str(path))}")


def show_verdict(console: Console, verdict: Verdict, explained: Callable[[], str]) -> None:
    """`explained` is called only if there are violations."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("published", "delivered", *(rule.value for rule in Rule)):
        table.add_column(column, justify="right")
    counts = [verdict.counts.published, verdict.counts.deliveries, *(verdict.count(rule) for rule in Rule)]
    table.add_row(*(f"{count:,}" for count in counts))
    console.print(table)
    colour = {"clean": "green", "violated": "red"}.get(verdict.outcome.value, "yellow")
    console.print(f"verdict: [bold {colour}]{verdict.outcome.value}[/] (ordering {verdict.ordering.value})")
    if verdict.violations:
        console.print(escape(explained()), soft_wrap=True)
    elif verdict.unusable:
        console.print(escape(verdict.unusable))


def explaining(verdict: Verdict, records: Sequence[Record]) -> Callable[[], str]:
    return lambda: explain(verdict, records, EXPLAINED_MAX)


def progress_of_run(duration: float, *, quiet: bool) -> AbstractContextManager[Callable[[float], None]]:
    """A progress bar over virtual time."""
    columns = (TextColumn("simulating"), BarColumn(), TextColumn("{task.completed:.1f} s"), TimeRemainingColumn())
    return progress_bar(*columns, total=duration, quiet=quiet, shown=lambda now: {"completed": min(now, duration)})


@contextmanager
def progress_bar(
    *columns: ProgressColumn,
    shown: Callable[..., Mapping[str, Any]],
    total: float | None = None,
    quiet: bool = False,
    **fields: Any,
) -> Iterator[Callable[..., None]]:
    """A progress bar on stderr. `shown`: what a call of the yielded function changes of it."""
    with progress_on_stderr(*columns, quiet=quiet) as progress:
        task = progress.add_task("", total=total, **fields)
        yield lambda *told: progress.update(task, **shown(*told))
