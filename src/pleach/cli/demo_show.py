"""Output of `pleach demo` in a terminal: the current step, the progress, the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pleach.cli.dashboard import opened
from pleach.cli.show import explaining, show_verdict
from pleach.demo.acts import DemoAct
from pleach.demo.gaps import spoken
from pleach.demo.run import TICK_SECONDS, Performance, Scene
from pleach.demo.verdict import Engine, Judgement
from pleach.harness.network import LiveNetwork
from pleach.web.live_source import LiveSource

AUDIT_STEPS = 8  # that Spark's audit names; the reference has one


class Show:
    """An audience (demo/run.py) that prints. `quiet`: nothing on stdout, no progress bar."""

    def __init__(self, listen: str, acts: int, seconds_per_act: float, *, quiet: bool) -> None:
        self.quiet = quiet
        self.console = Console(stderr=quiet)
        self._listen = listen
        self._acts = acts
        self._seconds = seconds_per_act
        self._number = 0
        self._network: LiveNetwork | None = None
        self._dashboard: asyncio.Server | None = None
        self._url = ""
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=self.console, transient=True, disable=quiet)
        self._bar = self._progress.add_task("starting nine brokers", total=None)

    async def __aenter__(self) -> Self:
        """Start the dashboard first, so that an address in use is reported before any broker starts."""
        self._dashboard, self._url = await opened(LiveSource(self._admins, "pleach demo"), self._listen)
        self._say("[bold]Nine brokers in three zones, thirty clients under load, one change after the other.[/]")
        self._progress.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        if self._dashboard is not None:
            self._dashboard.close()

    # The steps -----------------------------------------------------------------------------------------------

    def starts(self, network: LiveNetwork) -> None:
        self._network = network
        self._say(f"watch it:  [bold]{self._url}[/]   (or at any broker: http://{self._admins()[0]}/dashboard/)\n")
        self._progress.update(self._bar, total=self._acts * self._seconds)

    def begins(self, act: DemoAct) -> None:
        self._number += 1
        self._say(f"[bold]{self._number}/{self._acts} {escape(act.title)}[/]\n    {escape(act.says)}")

    def goes_on(self, records: int) -> None:
        task = self._progress.tasks[self._bar]
        done = min(self._number * self._seconds, task.completed + TICK_SECONDS)
        self._progress.update(self._bar, description=f"{records:,} records", completed=done)

    def ends(self, scene: Scene) -> None:
        for refusal in scene.refusals:
            self._say(f"    [yellow]refused[/] {escape(refusal)}")
        for note in scene.notes:
            self._say(f"    {escape(note)}")
        self._say(f"    [green]done[/] in {scene.changed_at - scene.began_at:.2f} s; {_difference(scene)}")
        self._progress.update(self._bar, completed=self._number * self._seconds)

    def drains(self) -> None:
        self._say("\nthe load ends; waiting until no message is under way")
        self._progress.update(self._bar, description="draining", total=None)

    def _admins(self) -> list[str]:
        return list(self._network.directory.admin.values()) if self._network else []

    def _say(self, text: str) -> None:
        if not self.quiet:
            self.console.print(text, highlight=False, soft_wrap=True)

    # The audit -----------------------------------------------------------------------------------------------

    @contextmanager
    def auditing(self) -> Iterator[Callable[[str], None]]:
        columns = (TextColumn("audit: {task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True, disable=self.quiet) as progress:
            task = progress.add_task("", total=AUDIT_STEPS)
            yield lambda name: progress.update(task, description=name, advance=1)


def _difference(scene: Scene) -> str:
    before, after = scene.before, scene.after
    gone = sorted({*before.topology.links} - {*after.topology.links})
    come = sorted({*after.topology.links} - {*before.topology.links})
    moved = sum(after.homes.get(client) != home for client, home in before.homes.items())
    parts = [f"[red]-{a}-{b}[/]" for a, b in gone] + [f"[green]+{a}-{b}[/]" for a, b in come]
    parts += [f"{moved} clients elsewhere"] if moved else []
    return "  ".join(parts) or "the tree is as before"


def show_judgement(console: Console, performance: Performance, judged: Judgement, report: Path) -> None:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("act", "change took", "delivered", "longest gap", "at"):
        table.add_column(column, justify="left" if column in {"act", "at"} else "right")
    for scene, gap, delivered in zip(performance.scenes, judged.gaps, judged.delivered, strict=True):
        took = f"{scene.changed_at - scene.began_at:.2f} s"
        table.add_row(scene.act.name, took, f"{delivered:,}", spoken(gap.seconds), escape(gap.client))
    table.add_row(
        "all", "", f"{sum(judged.delivered):,}", spoken(judged.longest_gap.seconds), judged.longest_gap.client
    )
    console.print(table)
    judge = "Spark" if judged.engine is Engine.SPARK else "the reference oracle"
    console.print(f"\naudited by {judge}:" + (f" [yellow]{escape(judged.note)}[/]" if judged.note else ""))
    show_verdict(console, judged.verdict, explaining(judged.verdict, performance.result.records))
    for shortcoming in judged.shortcomings:
        console.print(f"[yellow]{escape(shortcoming)}[/]", soft_wrap=True)
    console.print(f"report: [bold]{escape(str(report))}[/]", highlight=False, soft_wrap=True)
