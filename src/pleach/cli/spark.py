"""`pleach spark`: demonstrations of Spark streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pleach.cli.terminal import Console

if TYPE_CHECKING:
    from pleach.spark.source.demo import QuoteRow

EXIT_INCOMPLETE = 1
ROWS_SHOWN_MAX = 3  # of each batch

app = typer.Typer(help="Streams in and out of the broker network, on Spark.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """A group with one command needs a callback to keep the command's name."""


@app.command("source-demo")
def source_demo(
    seconds: Annotated[float, typer.Option(min=1.0, max=3_600.0, help="How long the publisher runs.")] = 10.0,
    master: Annotated[str, typer.Option(help="Spark's master URL.")] = "local[2]",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Read live events into a Spark stream while a link of the broker tree is swapped.

    Starts three brokers and a publisher, prints what arrives, and stops everything. The exit code is 0 if every event
    that matches the stream has arrived exactly once. Example: `pleach spark source-demo --seconds 5`
    """
    from pleach.spark.session import load_spark  # noqa: PLC0415 an optional part, and slow to load

    load_spark()
    from pleach.spark.source.demo import DemoReporter, run_demo  # noqa: PLC0415

    console, status = Console(), Console(stderr=True).status("", spinner="dots")

    def show(number: int, rows: Sequence[QuoteRow]) -> None:
        if rows and not as_json:
            some = ", ".join(f"{row.symbol} {row.price}" for row in rows[:ROWS_SHOWN_MAX])
            console.print(f"batch {number}: {len(rows)} events: {some}{', …' if len(rows) > ROWS_SHOWN_MAX else ''}")

    with status:
        outcome = run_demo(seconds, master, DemoReporter(status.update, show))
    if as_json:
        typer.echo(msgspec.json.encode({**msgspec.to_builtins(outcome), "once": outcome.is_good}).decode())
    else:
        judged = "each once" if outcome.is_good else "[bold red]not each once[/]"
        counts = f"{len(outcome.wanted)} of {outcome.published} events match; {len(outcome.arrived)} arrived"
        console.print(f"{counts}, in {outcome.batches} batches: {judged}")
    if not outcome.is_good:
        raise typer.Exit(EXIT_INCOMPLETE)
