"""`pleach demo`: a short demonstration of Pleach."""

from __future__ import annotations

import shutil
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from pleach.cli.demo_show import Show, show_judgement
from pleach.cli.interrupt import run_until_interrupted
from pleach.cli.show import explaining, progress_of_run, show_result, show_tree, show_verdict
from pleach.demo.acts import ACTS
from pleach.demo.report import write_report
from pleach.demo.run import Performance, perform
from pleach.demo.verdict import Engine, Judgement, judgement
from pleach.scenario.load import parse_scenario
from pleach.sim.run import run_scenario
from pleach.trace import VerdictOutcome, judge

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

    A link is swapped, a broker added, another removed, one killed with `kill -9`, clients are moved, a distant link
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
