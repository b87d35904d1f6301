"""`pleach bench`: benchmarks, each against a reference that is timed in the same run."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from pleach.bench import BENCHES, WITH_PEERS, WITH_TLS
from pleach.bench.measurement import Measurement, line
from pleach.cli.terminal import Console, progress_on_stderr
from pleach.errors import InvalidInputError

EXIT_BAR_MISSED = 1


def bench(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(BENCHES)}.", show_default=False)],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions; ends within 40 seconds.")] = False,
    peers: Annotated[
        bool, typer.Option("--peers", help=f"Also measure other systems that are installed ({', '.join(WITH_PEERS)}).")
    ] = False,
    tls: Annotated[
        bool, typer.Option("--tls", help=f"TLS beside plain connections, instead ({', '.join(WITH_TLS)}).")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the workload.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per measurement.")] = False,
) -> None:
    """Run a benchmark. Exits with 1 if a measurement misses its bar.

    Example: `pleach bench match --quick --json`
    """
    benches, which = (WITH_TLS, "bench with --tls") if tls else (BENCHES, "bench")
    if peers:
        benches, which = WITH_PEERS, "bench with --peers"
    if name not in benches:
        raise InvalidInputError(f"unknown {which} {name!r}; choose one of {', '.join(benches)}")
    measurements = []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with progress_on_stderr(*columns) as progress:
        task = progress.add_task(f"bench {name}")
        for measurement in benches[name](quick=quick, seed=seed):
            measurements.append(measurement)
            progress.update(task, description=f"bench {name}: {measurement.case}")
            if as_json:
                typer.echo(line(measurement))
    if not as_json:
        _print(measurements)
    if not all(measurement.ok for measurement in measurements):
        raise typer.Exit(EXIT_BAR_MISSED)


def _print(measurements: list[Measurement]) -> None:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("", "case", "value", "unit", "against", "ratio", "bar"):
        table.add_column(column, justify="right" if column in ("value", "ratio", "bar") else "left")
    for m in measurements:
        mark = "[green]✓[/]" if m.ok else "[red]✗[/]"
        bar = "" if m.bar is None else f"{m.bar:g}"
        table.add_row(mark, m.case, f"{m.value:,.1f}", m.unit, m.against, f"{m.ratio:,.2f}", bar)
    Console().print(table)
