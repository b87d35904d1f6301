"""`pleach audit`: judge traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from pleach.cli.show import show_verdict
from pleach.trace import Outcome, judge, read_traces

EXIT_CODES = {Outcome.CLEAN: 0, Outcome.VIOLATED: 1, Outcome.UNUSABLE: 2}


def audit(
    path: Annotated[Path, typer.Argument(help="A trace file, or a directory with traces.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per run.")] = False,
) -> None:
    """Say what was lost, doubled, spurious, or out of FIFO or causal order.

    Exits with 0 if every run is clean, 1 if one is violated, 2 if one cannot be judged. Example: `pleach audit runs/`
    """
    console = Console()
    outcomes = []
    for run, records in read_traces(path):
        verdict = judge(records)
        outcomes.append(verdict.outcome)
        if as_json:
            typer.echo(msgspec.json.encode(verdict.to_dict()).decode())
        else:
            console.rule(run, align="left", style="dim")
            show_verdict(console, verdict, records)
    if Outcome.VIOLATED in outcomes:
        raise typer.Exit(EXIT_CODES[Outcome.VIOLATED])
    raise typer.Exit(max(EXIT_CODES[outcome] for outcome in outcomes))
