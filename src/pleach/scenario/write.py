"""Scenarios as files: the TOML that `load.py` reads back as the same scenario."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from pleach.scenario import values
from pleach.scenario.model import PerLink, Scenario
from pleach.scenario.steps import Step
from pleach.scenario.values import Choice, Span, Uniform


class Remark(NamedTuple):
    """What happens at a time, for readers."""

    at: float
    text: str


def scenario_text(scenario: Scenario, remarks: Sequence[Remark] = ()) -> str:
    """Only what differs from the defaults. `remarks` stand as comments between the steps."""
    scalars, tables = {}, []
    for field in msgspec.structs.fields(scenario):
        value = getattr(scenario, field.name)
        if value in (field.default, None, ()):
            continue
        match field.name:
            case "latency" | "loss":
                tables.append(f"[{field.name}]\n{assignments(_per_link(value))}")
            case "steps":
                continue
            case "clients":
                tables += [f"[[clients]]\n{assignments(plain(each))}" for each in value]
            case _ if isinstance(value, msgspec.Struct):
                tables.append(f"[{field.name}]\n{assignments(plain(value))}")
            case _:
                scalars[field.name] = plain(value)
    return "\n".join([assignments(scalars), *tables, *_timeline(scenario.steps, remarks)])


def _timeline(steps: Sequence[Step], remarks: Sequence[Remark]) -> list[str]:
    told = [(step.at, f"[[steps]]\n{assignments(plain(step))}") for step in steps]
    said = [(remark.at, f"# at {remark.at:g} s: {' '.join(remark.text.split())}\n") for remark in remarks]
    return [text for _, text in sorted([*told, *said], key=itemgetter(0))]


def _per_link(found: PerLink[Any]) -> dict[str, Any]:
    return {"default": plain(found.default), **{f"{a}-{b}": plain(each) for a, b, each in found.links}}


def plain(value: Any) -> Any:
    """As a file says it: generators by their names, spans as pairs, structs without what is at its default."""
    match value:
        case Uniform(low, high):
            return {"uniform": [low, high]}
        case Choice(choices):
            return {"choice": list(choices)}
        case values.Sequence():
            return {"sequence": True}
        case Span(low, high):
            return low if low == high else [low, high]
        case msgspec.Struct():
            tag = value.__struct_config__.tag
            given = {} if tag is None else {str(value.__struct_config__.tag_field): tag}
            return given | {
                field.encode_name: plain(getattr(value, field.name))
                for field in msgspec.structs.fields(value)
                if getattr(value, field.name) not in (_default(field), None, ())
            }
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case tuple() | list():
            return [plain(each) for each in value]
        case _:
            return value


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default is not msgspec.NODEFAULT else msgspec.UNSET


def assignments(table: dict[str, Any]) -> str:
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
