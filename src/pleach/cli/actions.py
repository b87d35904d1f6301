"""Commands that run something, and have actions besides: `pleach broker --name b`, and `pleach broker move b`.

The first word decides: whatever is called like an action is told by an option (`pleach broker --name move`). The module
of an action is loaded when the action is called.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand


class Actions(UserDict[str, Any]):
    """Commands by name; at first, the modules that have functions of these names."""

    def __getitem__(self, name: str) -> Any:
        if isinstance(found := super().__getitem__(name), str):
            found = self[name] = _command(getattr(import_module(found), name), TyperCommand)
            add_login(found)
        return found


class CommandWithActions(TyperCommand):
    actions: Actions

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if args and args[0] in self.actions:
            action, *rest = args
            return self.actions[action].make_context(f"{info_name} {action}", rest, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def with_actions(run: Callable[..., None], **modules: str) -> TyperCommand:
    """The command of a function, and actions, by the modules that they are in."""
    command = _command(run, CommandWithActions)
    assert isinstance(command, CommandWithActions)
    command.actions = Actions(modules)
    return command


def _command(function: Callable[..., None], kind: type[TyperCommand]) -> TyperCommand:
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.command(function.__name__, cls=kind)(function)
    made = typer.main.get_command(app)
    assert isinstance(made, TyperCommand)
    return made


def add_login(command: Any) -> None:
    """Commands that ask brokers (`--via`) take `--tls` and `--token-file`, all in the same way."""
    for inner in getattr(command, "commands", {}).values():
        add_login(inner)
    names = [parameter.name for parameter in command.params]
    if "via" in names and "tls" not in names:
        from pleach.cli.arguments import login_options  # noqa: PLC0415 - such a command has loaded it

        command.params.extend(login_options())
