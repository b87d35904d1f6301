"""`pleach explore --standby`: the rules of standbys against an adversary."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import msgspec
import typer

from pleach.cli.terminal import Console, escape
from pleach.errors import InvalidInputError
from pleach.explore.standby_plants import STANDBY_PLANTS
from pleach.explore.standby_search import StandbyExploration, StandbySearch
from pleach.explore.standby_world import STANDBY_WORLDS
from pleach.scenario.read import instead

EXIT_CLEAN, EXIT_FAILING, EXIT_UNKNOWN = 0, 1, 2


def explore_standby(plant: str, states_max: int, *, as_json: bool) -> NoReturn:
    """Explore one world after the other, up to so many states each, and stop at the first failure."""
    if plant and plant not in STANDBY_PLANTS:
        raise InvalidInputError(f"--plant: unknown bug {plant!r}{instead(plant, STANDBY_PLANTS)}")
    console = Console(quiet=as_json)
    results: dict[str, StandbyExploration] = {}
    for name, setting in STANDBY_WORLDS.items():
        planted = replace(setting, rules=STANDBY_PLANTS[plant]) if plant else setting
        results[name] = result = StandbySearch(planted, states_max).run()
        extent = "all of them" if result.complete else "and there are more"
        console.print(
            f"{name}: {result.states:,} states, {result.transitions:,} transitions, {extent}", highlight=False
        )
        if result.broken:
            _show_schedule(console, result)
            break
    if as_json:
        typer.echo(msgspec.json.encode(results).decode())
    raise typer.Exit(_exit_code(results))


def _show_schedule(console: Console, result: StandbyExploration) -> None:
    console.print(f"[bold red]{escape(result.broken)}[/]\n\n[bold]A shortest schedule[/]:")
    for number, step in enumerate(result.schedule, start=1):
        console.print(f"  {number:>3}  {escape(step)}", soft_wrap=True, highlight=False)


def _exit_code(results: dict[str, StandbyExploration]) -> int:
    if any(result.broken for result in results.values()):
        return EXIT_FAILING
    return EXIT_CLEAN if all(result.complete for result in results.values()) else EXIT_UNKNOWN
