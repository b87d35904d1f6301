"""`pleach live`: run a scenario on real processes."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pleach.cli.show import explaining, show_leases, show_tree, show_verdict
from pleach.cli.terminal import Console
from pleach.harness.run import LiveResult, run_live
from pleach.harness.scenario_faults import for_processes
from pleach.lake.arrow import load_arrow
from pleach.scenario.initial_tree import OUTLINE, initial_tree
from pleach.scenario.load import load_scenario
from pleach.scenario.stabilise_settings import stabilisation_of
from pleach.trace import Verdict, judge, write_trace
from pleach.trace.store import About

EXIT_VIOLATIONS = 1


def live(
    file: Annotated[Path, typer.Argument(help="A scenario file (TOML).", show_default=False)],
    seed: Annotated[int, typer.Option(help="Seed of the clients' random choices; timing is real.")] = 1,
    trace: Annotated[Path | None, typer.Option(help="Write the trace into this lake, a directory.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep logs and data directories here.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if the verdict is not clean.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Start one process per broker, run a scenario on them over TCP, and print the verdict.

    A crash is `kill -9`; a switch between the processes makes latency, cuts and slow links. All is stopped at the
    end, also after Ctrl-C. Example: `pleach live examples/crash-restart.toml --trace runs/` then `pleach audit runs/`
    """
    scenario = load_scenario(file)
    if trace:
        load_arrow()
    console = Console()
    if not as_json:
        show_tree(console, scenario)
        show_leases(console, for_processes(scenario))
    with tempfile.TemporaryDirectory(prefix="pleach-live-") as scratch:
        place = keep or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        status = Console(stderr=True).status(f"running for about {scenario.duration:g} s", spinner="dots")
        with status:
            result = asyncio.run(run_live(scenario, place, seed=seed))
    verdict = judge(result.records)
    about: About = {"scenario": scenario.name, "seed": seed, OUTLINE: initial_tree(scenario)}
    path = write_trace(result.records, trace, result.records[0].run, about=about) if trace else None
    if as_json:
        typer.echo(msgspec.json.encode(_summary(result, verdict, path)).decode())
    else:
        for refusal in result.refusals:
            console.print(f"[yellow]refused[/] {refusal}")
        show_verdict(console, verdict, explaining(verdict, result.records))
    if check and not verdict.clean:
        raise typer.Exit(EXIT_VIOLATIONS)


def _summary(result: LiveResult, verdict: Verdict, path: Path | None) -> dict[str, object]:
    return {
        "scenario": result.scenario.name,
        "ended_at": result.ended_at,
        "quiet": result.quiet,
        "refusals": list(result.refusals),
        "trace": str(path) if path else None,
        "stabilises_within": stabilisation_of(result.scenario) if result.scenario.stabilise else None,
        "verdict": verdict.to_dict(),
    }
