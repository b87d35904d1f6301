"""`pleach demo`: the short way to see Pleach at work."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

import typer
from rich.console import Console

from pleach.cli.show import explaining, progress_of_run, show_result, show_tree, show_verdict
from pleach.scenario.load import parse_scenario
from pleach.sim.run import run_scenario
from pleach.trace import judge

EXIT_CODES = {"clean": 0, "violated": 1, "unusable": 2}


def demo(seed: Annotated[int, typer.Option(help="Another seed, another run.")] = 1) -> None:
    """Run a network of nine brokers in three zones under load, in virtual time, and print the verdict.

    Example: `pleach demo --seed 3`. The exit code is 0 if nothing was lost, doubled or out of order.
    """
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
    raise typer.Exit(EXIT_CODES[verdict.outcome.value])
