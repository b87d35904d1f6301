"""`pleach`: the entry point. Errors become one line and exit code 2.

Each command is in the module of its name, which is loaded when the command is called: a command starts without the
modules of the others.
"""

from __future__ import annotations

import logging
import sys
from collections import UserDict
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from pleach import __version__
from pleach.cli.actions import add_login
from pleach.cli.terminal import Console, Unrepeated
from pleach.errors import PleachError

COMMANDS = (
    "demo",
    "sim",
    "audit",
    "explore",
    "model",
    "bench",
    "doctor",
    "network",
    "broker",
    "standby",
    "certs",
    "pub",
    "sub",
    "live",
    "soak",
    "dashboard",
    "overlay",
    "client",
    "component",
    "spark",
    "lab",
)  # in the order in which `--help` shows them


class Commands(UserDict[str, Any]):
    """Commands by name; each is the `app` or `command` of the module of its name, or the function of its name there."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(dict.fromkeys(names))

    def __getitem__(self, name: str) -> Any:
        if super().__getitem__(name) is None:
            self[name] = _load(name)
        return super().__getitem__(name)


class PleachCommands(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands(COMMANDS)


def _load(name: str) -> Any:
    module = import_module(f"pleach.cli.{name}")
    inner, command = getattr(module, "app", None), getattr(module, "command", None)
    if command is None:
        if inner is None:
            inner = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
            inner.command(name)(getattr(module, name))
        command = typer.main.get_command(inner)
    command.name = name
    add_login(command)
    return command


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
    if logging.lastResort is not None:  # what commands without logs of their own say by the way
        logging.lastResort.addFilter(Unrepeated())
    try:
        app(prog_name="pleach")
    except PleachError as error:
        Console(stderr=True, highlight=False).print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
        sys.exit(error.exit_code)
