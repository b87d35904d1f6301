"""Commands that are loaded when they are called, so that each starts without the modules of the others."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup


class Commands(UserDict[str, Any]):
    """Commands by name; each is the `app` of the module of its name, or the function of its name there."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(dict.fromkeys(names))

    def __getitem__(self, name: str) -> Any:
        if super().__getitem__(name) is None:
            self[name] = _load(name)
        return super().__getitem__(name)


class GroupOnDemand(TyperGroup):
    names: ClassVar[Sequence[str]] = ()  # in the order in which `--help` shows them

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands(self.names)


def _load(name: str) -> Any:
    module = import_module(f"pleach.cli.{name}")
    inner = getattr(module, "app", None)
    if inner is None:
        inner = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
        inner.command(name)(getattr(module, name))
    command = typer.main.get_command(inner)
    command.name = name
    return command
