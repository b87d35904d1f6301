"""The parts of the reference that are made from the code: `python tools/reference.py` writes them anew.

A page has places for them, `<!-- begin NAME -->` … `<!-- end NAME -->`; all else in it is written by hand. A test says
which place has gone stale (tests/docs/test_reference_pages.py).
"""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType

import msgspec
import typer.main
from typer.core import TyperCommand, TyperGroup, TyperOption

from pleach.cli.main import app
from pleach.server.metrics import COUNTER_HELP, GAUGES
from pleach.server.profile import PROFILE
from pleach.server.settings import ENVIRONMENT_PREFIX, LASTING, RELOADABLE, TABLES, BrokerSettings

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
# Flags that are called otherwise than their keys.
FLAGS = MappingProxyType(
    {
        "peers": "peer",
        "neighbours": "neighbour",
        "components": "component",
        "after": "standby_after",
        "found": "ring",
        "kind": "stabilise",
        "dry_run": "improve_dry_run",
        "directory": "tls",
    }
)
# Of the profile.
PROFILE_TABLES = MappingProxyType(
    {
        "stabilise": "Leases",
        "standby": "A copy on another machine",
        "improve": "The council",
        "relay": "Ways around links that are cut",
    }
)
TWO_NUMBERS = "two numbers"
TYPES = MappingProxyType(
    {"str": "text", "int": "integer", "float": "number", "bool": "boolean", "Node": "name", "Path": "path"}
)


def table(head: str, rows: Iterator[list[str]]) -> str:
    columns = head.split("|")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(_cell(c) for c in row) + " |" for row in rows)])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# Configuration -------------------------------------------------------------------------------------------------


def settings_table() -> str:
    return table("key|type|default|environment|flag|meaning|when it changes", _settings())


def _settings() -> Iterator[list[str]]:
    for key in BrokerSettings.__struct_fields__:
        if key not in TABLES:
            name, kind, default, variable, flag, meaning = _row(BrokerSettings, key, ENVIRONMENT_PREFIX)
            yield [name, kind, default, variable, flag, meaning, _moment(key)]


def profile_table() -> str:
    return table("what|setting|how to do without", _profile())


def _profile() -> Iterator[list[str]]:
    yield ["A data directory", f'`data_dir = "{PROFILE.data_dir}/NAME"`', '`--without data-dir`, `data_dir = ""`']
    for name, what in PROFILE_TABLES.items():
        values = ", ".join(f"{key} = {value!r}" for key, value in getattr(PROFILE, name).items())
        setting = f"`{name} = {{ {values} }}`".replace("'", '"') if values else f"`{name} = {{}}`"
        yield [what, setting, f"`--without {name}`, `{name} = false`"]
    yield ["Links that follow costs, not the ring", "`ring.weave = false`", "goes with the council"]
    yield ["A broker that is stopped comes back", "`ring.leave = false`", "goes with the data directory"]


def inner_table(name: str) -> str:
    """Of a setting that is a table itself."""
    prefix, struct = TABLES[name]
    return table(
        "key|type|default|environment|flag|meaning", (_row(struct, k, prefix) for k in struct.__struct_fields__)
    )


def _row(struct: type[msgspec.Struct], key: str, prefix: str) -> list[str]:
    flag = _flags("broker").get(FLAGS.get(key, key))
    meaning = _meaning(field_comments(struct).get(key, ""), flag.help or "" if flag else "")
    kind = field_types(struct)[key]
    variable = "" if kind == TWO_NUMBERS else f"`{prefix}{key.upper()}`"  # the environment has no spelling for them
    return [f"`{key}`", kind, _default_of(struct, key), variable, f"`{flag.opts[0]}`" if flag else "", meaning]


def _default_of(struct: type[msgspec.Struct], key: str) -> str:
    field = next(field for field in msgspec.structs.fields(struct) if field.name == key)
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f"`{msgspec.json.encode(value).decode()}`"


def _meaning(comment: str, flag_help: str) -> str:
    """The comment says more than the flag's help, but where it is only about a value."""
    if comment.startswith("empty:"):
        return f"{flag_help} {_sentence(comment)}"
    return _sentence(comment) or flag_help


def _moment(key: str) -> str:
    if key in LASTING:
        return "fixed when the data directory is created"
    return "SIGHUP" if key in RELOADABLE else "restart"


def field_comments(struct: type[msgspec.Struct]) -> dict[str, str]:
    """What stands behind a field, where something does."""
    fields = re.finditer(r"^    (\w+): [^#\n]*  # (.*)$", _source(struct), re.MULTILINE)
    return {field[1]: field[2] for field in fields}


def field_types(struct: type[msgspec.Struct]) -> dict[str, str]:
    spelled = re.findall(r"^    (\w+): ([^=#\n]+?)(?: +[=#].*)?$", _source(struct), re.MULTILINE)
    return {name: _type(text) for name, text in spelled}


def _source(struct: type[msgspec.Struct]) -> str:
    """Of a struct and of those that it extends."""
    bases = [each for each in struct.__mro__ if issubclass(each, msgspec.Struct) and each is not msgspec.Struct]
    return "\n".join(map(inspect.getsource, bases))


def _type(text: str) -> str:
    match text.partition("[")[0]:
        case "dict":
            return "table of addresses" if "Node" in text else "table of texts"
        case "tuple" if "Node" in text:
            return "list of names"
        case "tuple":
            return "list of addresses" if "str" in text else TWO_NUMBERS
        case "LogLevel":
            return "debug, info, warning, error"
        case "StabiliseKind":
            return "leases, rebuild"
    return TYPES.get(text, text)


def _sentence(text: str) -> str:
    text = text.removesuffix(" …").removeprefix("… ").strip()
    return text[:1].upper() + text[1:]


# Commands ------------------------------------------------------------------------------------------------------


def commands() -> str:
    return "\n\n".join(_command(name, command) for name, command in walk())


def walk() -> Iterator[tuple[str, TyperCommand]]:
    """Every command that does something, with its full name."""
    yield from _walk("pleach", typer.main.get_command(app))


def _walk(name: str, command: object) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(command, TyperGroup):
        for word, inner in command.commands.items():
            yield from _walk(f"{name} {word}", inner)
    else:
        yield name, typing.cast("TyperCommand", command)
        for word, inner in getattr(command, "actions", {}).items():
            yield from _walk(f"{name} {word}", inner)


def parameters(command: TyperCommand) -> list[TyperOption]:
    """Arguments too: they have all that is asked for here."""
    return typing.cast("list[TyperOption]", command.params)


def _command(name: str, command: TyperCommand) -> str:
    usage = " ".join([name, *(shown_name(p) for p in parameters(command) if _is_argument(p)), "[OPTION]..."])
    about = inspect.cleandoc(command.help or "")
    rows = ([_names(p), _kind(p), _default(p), p.help or ""] for p in parameters(command))
    return f"## `{name}`\n\n`{usage}`\n\n{about}\n\n" + table("option|value|default|meaning", rows)


def _is_argument(parameter: TyperOption) -> bool:
    return parameter.param_type_name == "argument"


def shown_name(argument: TyperOption) -> str:
    shown = (argument.metavar or argument.name or "").upper().strip("[].")
    shown += "..." if argument.nargs == -1 else ""
    return shown if argument.required else f"[{shown}]"


def _names(parameter: TyperOption) -> str:
    if _is_argument(parameter):
        return f"`{shown_name(parameter)}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _kind(parameter: TyperOption) -> str:
    if getattr(parameter, "is_flag", False):
        return "a flag"
    kind: type = parameter.type_descriptor.annotation
    several = typing.get_args(kind)
    return f"{_kind_name(several[0])}, may be repeated" if several else _kind_name(kind)


def _kind_name(kind: type) -> str:
    if issubclass(kind, Enum):
        return ", ".join(f"`{member.value}`" for member in kind)
    return TYPES.get(kind.__name__, kind.__name__)


def _default(parameter: TyperOption) -> str:
    if parameter.required:
        return "required"
    value = getattr(parameter.default, "value", parameter.default)
    is_nothing = value is None or value is False or value in ((), [], "")  # 0 is something
    return "" if is_nothing or callable(value) else f"`{value}`"


@cache
def _flags(name: str) -> dict[str, TyperOption]:
    command = dict(walk())[f"pleach {name}"]
    return {option.name or "": option for option in parameters(command)}


# Metrics -------------------------------------------------------------------------------------------------------


def metrics_table() -> str:
    return table("name|kind|labels|meaning", _metrics())


def _metrics() -> Iterator[list[str]]:
    for name, gauge in GAUGES.items():
        yield [f"`{name}`", "gauge", f"`{gauge.label}`" if gauge.label else "", gauge.help]
    for field, text in COUNTER_HELP.items():
        yield [f"`pleach_{field}_total`", "counter", "", text]


# Pages ---------------------------------------------------------------------------------------------------------

PLACES: Mapping[str, tuple[str, Callable[[], str]]] = MappingProxyType(
    {
        "settings": ("configuration.md", settings_table),
        **{name: ("configuration.md", partial(inner_table, name)) for name in TABLES},
        "profile": ("configuration.md", profile_table),
        "commands": ("cli.md", commands),
        "metrics": ("metrics.md", metrics_table),
    }
)


def renewed(text: str, name: str, made: str) -> str:
    """The page with one place made anew."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"there is no place {begin} … {end} for {name}")
    return f"{before}{begin}\n{made}\n{end}{after}"


def main() -> None:
    for name, (page, make) in PLACES.items():
        file = PAGES / page
        file.write_text(renewed(file.read_text(), name, make()))
        sys.stdout.write(f"{page}: {name}\n")


if __name__ == "__main__":
    main()
