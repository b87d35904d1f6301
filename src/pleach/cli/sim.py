"""`pleach sim`: run a scenario in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pleach.cli.show import explaining, progress_of_run, show_leases, show_result, show_tree, show_verdict
from pleach.cli.terminal import Console
from pleach.lake.arrow import load_arrow
from pleach.scenario.initial_tree import OUTLINE, initial_tree
from pleach.scenario.load import load_scenario
from pleach.scenario.stabilise_settings import stabilisation_of
from pleach.sim.replay import load_schedule, replay
from pleach.sim.run import SimResult, run_scenario
from pleach.trace import RecordKind, Verdict, judge, write_trace
from pleach.trace.store import About

EXIT_VIOLATIONS = 1


def sim(
    file: Annotated[Path, typer.Argument(help="A scenario file (TOML).", show_default=False)],
    seed: Annotated[int, typer.Option(help="The same seed gives the same run, byte for byte.")] = 1,
    trace: Annotated[Path | None, typer.Option(help="Write the trace into this lake, a directory.")] = None,
    schedule: Annotated[
        Path | None, typer.Option(help="Replay a schedule that `pleach explore --out` wrote, step by step.")
    ] = None,
    sends: Annotated[bool, typer.Option(help="Also record every hop of every message.")] = True,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if the verdict is not clean.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a scenario in the simulator and print the verdict.

    Example: `pleach sim examples/churn.toml --seed 7 --trace runs/` then `pleach audit runs/`
    """
    scenario = load_scenario(file)
    if trace:
        load_arrow()  # a missing library is reported before the run
    console = Console()
    kinds = None if sends else frozenset(RecordKind) - {RecordKind.SEND}
    if schedule:
        result = replay(scenario, load_schedule(schedule))
    else:
        with progress_of_run(scenario.duration, quiet=as_json) as on_progress:
            result = run_scenario(scenario, seed, kinds=kinds, on_progress=None if as_json else on_progress)
    verdict = judge(result.records)
    about: About = {"scenario": scenario.name, "seed": result.seed, OUTLINE: initial_tree(scenario)}
    path = write_trace(result.records, trace, result.records[0].run, about=about) if trace else None
    if as_json:
        typer.echo(msgspec.json.encode(_summary(result, verdict, path)).decode())
    else:
        show_tree(console, scenario)
        show_leases(console, scenario)
        show_result(console, result, path)
        show_verdict(console, verdict, explaining(verdict, result.records))
    if check and not verdict.clean:
        raise typer.Exit(EXIT_VIOLATIONS)


def _summary(result: SimResult, verdict: Verdict, path: Path | None) -> dict[str, object]:
    return {
        "scenario": result.scenario.name,
        "seed": result.seed,
        "hops": result.hops,
        "ended_at": result.ended_at,
        "quiet": result.quiet,
        "refusals": [{"at": r.at, "step": r.step, "reason": r.reason} for r in result.refusals],
        "trace": str(path) if path else None,
        "stabilises_within": stabilisation_of(result.scenario) if result.scenario.stabilise else None,
        "verdict": verdict.to_dict(),
    }
