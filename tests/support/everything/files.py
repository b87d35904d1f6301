"""Cases as files: the scenario as TOML, as `pleach sim` reads it, with a table `[beside]` where it has anything there.

A file without that table is an ordinary scenario. `read_case` reads both; the seed stands in a comment.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from pleach.scenario.load import parse_scenario
from pleach.scenario.model import PerLink, Scenario
from pleach.scenario.values import Choice, Sequence, Span, Uniform
from support.everything.case import NOTHING, Beside, Case

SEED = re.compile(r"^# seed = (\d+)$", re.MULTILINE)
BESIDE = "[beside]"
INLINE = ("publish", "reply", "attributes", "with")  # tables that stand in one line


def write_case(case: Case, path: Path) -> None:
    path.write_text(case_text(case))


def case_text(case: Case) -> str:
    about = [f"# features: {', '.join(case.features)}"] if case.features else []
    parts = [f"# seed = {case.seed}", *about, scenario_text(case.scenario)]
    if case.beside != NOTHING:
        parts.append(f"{BESIDE}\n" + _assignments(_plain(case.beside)))
    return "\n".join(parts)


def read_case(path: Path) -> Case:
    text = path.read_text()
    described, has_beside, rest = text.partition(BESIDE)
    beside = msgspec.convert(tomllib.loads(has_beside + rest).get("beside", {}), Beside)
    seed = SEED.search(text)
    return Case(seed=int(seed[1]) if seed else 1, scenario=parse_scenario(described, str(path)), beside=beside)


def scenario_text(scenario: Scenario) -> str:
    """Only what differs from the defaults."""
    scalars, tables = {}, []
    for field in msgspec.structs.fields(scenario):
        value = getattr(scenario, field.name)
        if value in (field.default, None, ()):
            continue
        match field.name:
            case "latency" | "loss":
                tables.append(f"[{field.name}]\n{_assignments(_per_link(value))}")
            case "clients" | "steps":
                tables += [f"[[{field.name}]]\n{_assignments(_plain(each))}" for each in value]
            case _ if isinstance(value, msgspec.Struct):
                tables.append(f"[{field.name}]\n{_assignments(_plain(value))}")
            case _:
                scalars[field.name] = _plain(value)
    return "\n".join([_assignments(scalars), *tables])


def _per_link(values: PerLink[Any]) -> dict[str, Any]:
    return {"default": _plain(values.default), **{f"{a}-{b}": _plain(each) for a, b, each in values.links}}


def _plain(value: Any) -> Any:
    """As a file says it: generators by their names, spans as pairs, structs without what is at its default."""
    match value:
        case Uniform(low, high):
            return {"uniform": [low, high]}
        case Choice(values):
            return {"choice": list(values)}
        case Sequence():
            return {"sequence": True}
        case Span(low, high):
            return low if low == high else [low, high]
        case msgspec.Struct():
            tag = value.__struct_config__.tag
            given = {} if tag is None else {str(value.__struct_config__.tag_field): tag}
            return given | {
                field.encode_name: _plain(getattr(value, field.name))
                for field in msgspec.structs.fields(value)
                if getattr(value, field.name) not in (_default(field), None, ())
            }
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case tuple() | list():
            return [_plain(each) for each in value]
        case _:
            return value


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else msgspec.UNSET


def _assignments(table: dict[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_shown(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_]+", key) else json.dumps(key)


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{_key(key)} = {_shown(each)}" for key, each in value.items()) + " }"
        case list():
            return "[" + ", ".join(map(_shown, value)) + "]"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return repr(value)
