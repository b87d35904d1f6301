"""`pleach`: the entry point. Each command lives in a module of its own; errors become one line and exit code 2."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.markup import escape

from pleach import __version__
from pleach.cli import (
    audit,
    bench,
    broker,
    client,
    component,
    dashboard,
    demo,
    doctor,
    explore,
    lab,
    live,
    model,
    overlay,
    pub,
    sim,
    spark,
    sub,
)
from pleach.errors import PleachError

EXIT_UNUSABLE = 2

app = typer.Typer(
    name="pleach",
    help="Content-based publish/subscribe whose broker tree re-weaves itself while events flow.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("sim")(sim.sim)
app.command("audit")(audit.audit)
app.command("explore")(explore.explore)
app.command("model")(model.model)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)
app.command("broker")(broker.broker)
app.command("pub")(pub.pub)
app.command("sub")(sub.sub)
app.command("live")(live.live)
app.command("dashboard")(dashboard.dashboard)
app.add_typer(overlay.app, name="overlay")
app.add_typer(client.app, name="client")
app.add_typer(component.app, name="component")
app.add_typer(spark.app, name="spark")
app.add_typer(lab.app, name="lab")


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"pleach {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Say which."),
) -> None:
    pass


def run() -> None:
    """Run a command and turn what it raises on purpose into a line on stderr."""
    try:
        app(prog_name="pleach")
    except PleachError as error:
        Console(stderr=True, highlight=False).print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(EXIT_UNUSABLE)
