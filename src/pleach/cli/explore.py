"""`pleach explore`: check every order in which messages can arrive."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic
from typing import Annotated

import msgspec
import typer
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from pleach.cli.explore_standby import explore_standby
from pleach.cli.show import progress_bar
from pleach.cli.terminal import Console, escape
from pleach.core.overlay.registry import EXCHANGES
from pleach.errors import InvalidInputError, ScheduleError
from pleach.explore import search
from pleach.explore.search import KINDS, STATES_MAX, Counterexample, Exploration, ExploreOutcome
from pleach.scenario.load import load_scenario
from pleach.scenario.planted_bugs import PLANTS
from pleach.scenario.read import instead
from pleach.scenario.schedule import ExploreOptions, schedule_text
from pleach.trace import explain

EXIT_CODES = {ExploreOutcome.CLEAN: 0, ExploreOutcome.FAILING: 1, ExploreOutcome.UNKNOWN: 2}
COLOURS = {ExploreOutcome.CLEAN: "green", ExploreOutcome.FAILING: "red", ExploreOutcome.UNKNOWN: "yellow"}
SCHEDULE_FILE = "schedule.json"  # in the hint, where no --out was given


def explore(
    file: Annotated[Path | None, typer.Argument(help="A small scenario file (TOML).", show_default=False)] = None,
    exchange: Annotated[str, typer.Option(help=f"The protocol, instead of the file's: {', '.join(EXCHANGES)}.")] = "",
    plant: Annotated[str, typer.Option(help=f"Plant a bug: {', '.join(sorted(PLANTS))}.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write the failing schedule to this file.")] = None,
    instant_clients: Annotated[bool, typer.Option("--instant-clients", help="Links of clients have no delay.")] = False,
    timers: Annotated[bool, typer.Option("--timers", help="Timers may fire at any moment.")] = False,
    states: Annotated[int, typer.Option(min=1, help="Give up after this many states.")] = STATES_MAX,
    only: Annotated[str, typer.Option(help=f"Count one kind of failure only: {', '.join(KINDS)}.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    standby: Annotated[bool, typer.Option("--standby", help="The rules of standbys, without a scenario.")] = False,
) -> None:
    """Check every order of deliveries and actions, judge every quiet state, print the shortest failing schedule.

    Times in the scenario only order the actions of one client. Exits with 0 if nothing fails, 1 if something does, 2 if
    the bound was reached first or the scenario cannot be explored.

    Example: `pleach explore examples/chain-of-three.toml --plant overtaking-unsubscription --out schedule.json`
    then `pleach sim examples/chain-of-three.toml --schedule schedule.json`

    With `--standby` the members of one broker (primary, standby, witness) meet losses, crashes, deaths and any opinion
    of who is silent: `pleach explore --standby --states 20000`, `pleach explore --standby --plant confirm-by-few`
    """
    if standby:
        explore_standby(plant, states, as_json=as_json)
    if file is None:
        raise InvalidInputError("give a scenario file, or --standby")
    scenario = load_scenario(file)
    if exchange and exchange not in EXCHANGES:
        raise InvalidInputError(f"--exchange: unknown protocol {exchange!r}{instead(exchange, EXCHANGES)}")
    if exchange:
        scenario = msgspec.structs.replace(scenario, exchange=exchange)
    if only and only not in KINDS:
        raise InvalidInputError(f"--only: unknown kind of failure {only!r}{instead(only, KINDS)}")
    with _progress(quiet=as_json) as on_progress:
        options = ExploreOptions(instant_clients=instant_clients, timers=timers)
        result = search.explore(
            scenario,
            plant=plant,
            options=options,
            states_max=states,
            only=only,
            on_progress=None if as_json else on_progress,
        )
    if out and result.finding:
        _write(out, schedule_text(result.finding.schedule))
    if as_json:
        typer.echo(msgspec.json.encode(_summary(result)).decode())
    else:
        _show(Console(), result, file, out)
    raise typer.Exit(EXIT_CODES[result.outcome])


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise ScheduleError(f"{path}: cannot be written: {error.strerror or error}") from None


def _summary(result: Exploration) -> dict[str, object]:
    finding = result.finding
    return {
        "scenario": result.scenario,
        "plant": result.plant,
        "outcome": result.outcome.value,
        "complete": result.complete,
        "states": result.states,
        "transitions": result.transitions,
        "schedules": str(result.schedules),  # may have more digits than a JSON number keeps
        "quiet": result.quiet,
        "failing": result.failing,
        "kinds": result.kinds,
        "shortest": result.shortest,
        "longest": result.longest,
        "reason": finding.reason if finding else "",
        "schedule": finding.schedule if finding else None,
        "verdict": finding.verdict.to_dict() if finding and finding.verdict else None,
    }


def _show(console: Console, result: Exploration, file: Path, out: Path | None) -> None:
    planted = f" with {result.plant} planted" if result.plant else ""
    console.print(f"{escape(result.scenario)}{planted}: {result.states:,} states, {result.transitions:,} transitions")
    if result.complete:
        length = f"{result.shortest} to {result.longest} steps" if result.longest else "no steps"
        console.print(f"{result.schedules:,} schedules of {length}")
    else:
        console.print("[yellow]not all states were visited[/]: raise --states, or make the scenario smaller")
    failures = ", ".join(f"{kind} {count:,}" for kind, count in result.kinds.items())
    console.print(f"{result.quiet:,} quiet states judged, {result.failing:,} failing {failures}".rstrip())
    console.print(f"verdict: [bold {COLOURS[result.outcome]}]{result.outcome.value}[/]")
    if result.finding:
        _show_finding(console, result.finding, complete=result.complete)
        _show_replay(console, result.finding, file, out)


def _show_finding(console: Console, finding: Counterexample, *, complete: bool) -> None:
    steps = finding.schedule.steps
    console.print(f"\n[bold]{'A shortest' if complete else 'A'} failing schedule[/], {len(steps)} steps:")
    width = len(str(len(steps)))
    for number, step in enumerate(steps, start=1):
        console.print(f"  {number:>{width}}  {escape(str(step))}", soft_wrap=True, highlight=False)
    shown = explain(finding.verdict, finding.records) if finding.verdict else finding.reason
    console.print(f"\n{escape(shown)}", soft_wrap=True, highlight=False)


def _show_replay(console: Console, finding: Counterexample, file: Path, out: Path | None) -> None:
    if out is None:
        console.print("\nwrite it with --out to replay it:", end=" ")
    else:
        console.print("\nreplay it:", end=" ")
    command = f"pleach sim {file} --schedule {out or SCHEDULE_FILE}"
    console.print(escape(command), soft_wrap=True, highlight=False)
    if finding.verdict is None:
        console.print("(the replay shows no violation: only internal state of brokers is wrong)")


def _progress(*, quiet: bool) -> AbstractContextManager[Callable[[int, int], None]]:
    """States, depth and rate."""
    text = TextColumn("exploring: {task.completed:,.0f} states, depth {task.fields[depth]}, {task.fields[rate]:,.0f}/s")
    started = monotonic()

    def shown(states: int, depth: int) -> dict[str, float]:
        return {"completed": states, "depth": depth, "rate": states / max(monotonic() - started, 1e-9)}

    return progress_bar(SpinnerColumn(), text, TimeElapsedColumn(), quiet=quiet, shown=shown, depth=0, rate=0.0)
