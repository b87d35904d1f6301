"""`pleach`: the entry point. Each command is in the module of its name; errors become one line and exit code 2."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.markup import escape

from pleach import __version__
from pleach.cli.on_demand import GroupOnDemand
from pleach.errors import PleachError

EXIT_UNUSABLE = 2


class PleachCommands(GroupOnDemand):
    names = (
        "demo",
        "sim",
        "audit",
        "explore",
        "model",
        "bench",
        "doctor",
        "broker",
        "pub",
        "sub",
        "live",
        "dashboard",
        "overlay",
        "client",
        "component",
        "spark",
        "lab",
    )


app = typer.Typer(
    name="pleach",
    cls=PleachCommands,
    help="Content-based publish/subscribe with a tree of brokers that is reconfigured while events flow.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"pleach {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def run() -> None:
    """Run a command; print a PleachError as one line on stderr."""
    try:
        app(prog_name="pleach")
    except PleachError as error:
        Console(stderr=True, highlight=False).print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(EXIT_UNUSABLE)
