"""`pleach demo`: a short demonstration of Pleach."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import msgspec
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pleach.cli.dashboard import opened
from pleach.cli.interrupt import run_until_interrupted
from pleach.cli.show import explaining, progress_of_run, show_result, show_tree, show_verdict
from pleach.cli.terminal import Console, escape
from pleach.demo.acts import ACTS, DemoAct
from pleach.demo.report import write_report
from pleach.demo.run import TICK_SECONDS, Performance, Scene, perform
from pleach.demo.verdict import Engine, Judgement, judgement, spoken
from pleach.harness.network import LiveNetwork
from pleach.scenario.load import parse_scenario
from pleach.sim.run import run_scenario
from pleach.trace import VerdictOutcome, judge
from pleach.web.live_source import LiveSource

EXIT_CODES = {VerdictOutcome.CLEAN: 0, VerdictOutcome.VIOLATED: 1, VerdictOutcome.UNUSABLE: 2}
EXIT_NOT_CLEAN = 1
EXIT_INTERRUPTED = 130
SECONDS_PER_STEP, QUICK_SECONDS_PER_STEP = 4.0, 0.5
ACT_SECONDS_MAX = 60.0


def demo(
    seed: Annotated[
        int, typer.Option(help="Seed of the clients' random choices; with --simulated, of the whole run.")
    ] = 1,
    seconds_per_step: Annotated[
        float, typer.Option(help="Minimum duration of each step.", min=0.1, max=ACT_SECONDS_MAX)
    ] = SECONDS_PER_STEP,
    quick: Annotated[bool, typer.Option("--quick", help=f"As --seconds-per-step {QUICK_SECONDS_PER_STEP:g}.")] = False,
    out: Annotated[Path, typer.Option(help="For the report and the trace.")] = Path("build/demo"),
    engine: Annotated[
        Engine, typer.Option(help="Which implementation judges; auto: Spark if Java is installed.")
    ] = Engine.AUTO,
    listen: Annotated[str, typer.Option(help="HOST:PORT of the dashboard; port 0: any free port.")] = "127.0.0.1:0",
    simulated: Annotated[
        bool, typer.Option("--simulated", help="A simulation without changes of the tree instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Nine broker processes in three zones, thirty clients under load, one change after the other, and the verdict.

    A link is swapped, a broker added, another removed, one destroyed with its disk, clients are moved, a distant link
    is exchanged, and the tree improves itself. The trace is audited on Spark, a report is written, and all
    processes are stopped.

    Example: `pleach demo --seconds-per-step 8`. The exit code is 0 if nothing was lost, doubled or out of order.
    """
    if simulated:
        raise typer.Exit(_simulate(seed))
    seconds = QUICK_SECONDS_PER_STEP if quick else seconds_per_step
    try:
        is_clean = _tell(seed, seconds, out, engine, Show(listen, len(ACTS), seconds, quiet=as_json))
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    raise typer.Exit(0 if is_clean else EXIT_NOT_CLEAN)


def _tell(seed: int, seconds: float, out: Path, engine: Engine, show: Show) -> bool:
    """Run and report. Data and logs of the brokers are kept only if the verdict is not clean."""
    out.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="pleach-demo-"))
    is_kept = True
    try:
        performance = _performed(place, seed, seconds, show)
        with show.auditing() as on_step:
            judged = judgement(performance, out, seed, engine, on_step)
        is_kept = not judged.is_clean
        report = write_report(performance, judged, out)
        if show.quiet:
            typer.echo(msgspec.json.encode(_summary(performance, judged, report)).decode())
        else:
            show_judgement(show.console, performance, judged, report)
    except KeyboardInterrupt:
        is_kept = False
        raise
    finally:
        if is_kept and any(place.iterdir()):
            show.console.print(f"logs and data of the brokers: {place}", highlight=False, soft_wrap=True)
        else:
            shutil.rmtree(place, ignore_errors=True)
    return judged.is_clean


def _performed(place: Path, seed: int, seconds: float, show: Show) -> Performance:
    performances: list[Performance] = []

    async def work() -> None:
        async with show:
            performances.append(await perform(ACTS, place, show, seed=seed, seconds_per_act=seconds))

    if not run_until_interrupted(work()):
        show.console.print("interrupted: all brokers are stopped")
        raise KeyboardInterrupt
    return performances[0]


def _summary(performance: Performance, judged: Judgement, report: Path) -> dict[str, object]:
    acts = [
        {
            "act": scene.act.name,
            "began_at": scene.began_at,
            "change_seconds": scene.changed_at - scene.began_at,
            "delivered": delivered,
            "gap_seconds": gap.seconds,
            "gap_client": gap.client,
            "notes": list(scene.notes),
        }
        for scene, gap, delivered in zip(performance.scenes, judged.gaps, judged.delivered, strict=True)
    ]
    return {
        "clean": judged.is_clean,
        "engine": judged.engine.value,
        "note": judged.note,
        "shortcomings": list(judged.shortcomings),
        "longest_gap_seconds": judged.longest_gap.seconds,
        "acts": acts,
        "report": str(report),
        "trace": str(judged.trace) if judged.trace else None,
        "verdict": judged.verdict.to_dict(),
    }


def _simulate(seed: int) -> int:
    console = Console()
    source = files("pleach.scenario").joinpath("demo.toml")
    scenario = parse_scenario(source.read_text(), file="demo.toml")
    console.print("[bold]Nine brokers, three zones, clients that publish, answer, subscribe and leave.[/]\n")
    show_tree(console, scenario)
    with progress_of_run(scenario.duration, quiet=False) as on_progress:
        result = run_scenario(scenario, seed, on_progress=on_progress)
    verdict = judge(result.records)
    console.print()
    show_result(console, result, None)
    show_verdict(console, verdict, explaining(verdict, result.records))
    return EXIT_CODES[verdict.outcome]


# Output in a terminal -------------------------------------------------------------------------------------------------


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
