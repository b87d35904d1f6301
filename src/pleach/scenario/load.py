"""The doors of the scenario language: a text comes in, a checked Scenario goes out, or one ScenarioError."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path as FilePath
from typing import Any

import msgspec

from pleach.core.events.event import INTEGER_MAX, INTEGER_MIN
from pleach.errors import ScenarioError
from pleach.scenario.link_tables import read_latency, read_loss
from pleach.scenario.model import Scenario
from pleach.scenario.positions import FlawError, Locator, Path
from pleach.scenario.read import read_scenario, spelled
from pleach.scenario.stabilise_settings import check_stabilising
from pleach.scenario.timeline import check_steps, in_order
from pleach.scenario.validate import check_clients, check_settings, check_tree, with_brokers

SCENARIO_CHARACTERS_MAX = 4 * 1_048_576
NESTING_MAX = 32  # of lists and tables; a legal file needs 7

TOO_DEEP = f"lists and tables are nested too deeply; at most {NESTING_MAX} levels are allowed"

_TOMLLIB_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def load_scenario(path: str | FilePath) -> Scenario:
    """The scenario in a file; raises ScenarioError where there is none that could run."""
    file = FilePath(path)
    try:
        text = file.read_bytes().decode()
    except OSError as error:
        raise ScenarioError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ScenarioError("the text is not UTF-8; save it as UTF-8", file=str(path), line=line) from None
    return parse_scenario(text, file=str(path))


def parse_scenario(text: str, file: str = "") -> Scenario:
    """The scenario in a text; `file` is the name that errors give."""
    if len(text) > SCENARIO_CHARACTERS_MAX:
        reason = f"more than {SCENARIO_CHARACTERS_MAX:,} characters: generate such scenarios in code"
        raise ScenarioError(reason, file=file)
    tables = _parse_toml(text, file)
    if _is_nested_deeper_than(NESTING_MAX, tables):
        raise ScenarioError(TOO_DEEP, file=file)
    try:
        return _checked(tables)
    except FlawError as flaw:
        raise ScenarioError(flaw.reason, file=file, line=Locator(text).line(flaw.path)) from None


def _parse_toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ScenarioError(TOO_DEEP, file=file) from None
    except ValueError as error:  # a TOMLDecodeError, or an integer of thousands of digits
        reason = str(error)
        place = _TOMLLIB_PLACE.search(reason)
        if not place:
            raise ScenarioError(f"not TOML: {reason}", file=file) from None
        line = int(place[1]) if place[1] else text.count("\n") + 1
        column = f" (column {place[2]})" if place[2] else " (the text ends too early)"
        raise ScenarioError(f"not TOML: {reason[: place.start()]}{column}", file=file, line=line) from None


def _is_nested_deeper_than(levels: int, value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_is_nested_deeper_than(levels - 1, item) for item in inner)


def _checked(tables: dict[str, Any]) -> Scenario:
    """From the whole to the parts: each check relies on those before it."""
    _check_numbers(tables, ())
    scenario = with_brokers(read_scenario(tables))
    check_tree(scenario)
    check_settings(scenario)
    check_clients(scenario)
    check_steps(scenario)
    complete = msgspec.structs.replace(
        scenario,
        latency=read_latency(tables.get("latency", {}), scenario),
        loss=read_loss(tables.get("loss", {}), scenario),
        steps=in_order(scenario.steps),
    )
    check_stabilising(complete)
    return complete


def _check_numbers(value: Any, path: Path) -> None:
    """TOML has inf, nan and integers of any size; nothing here has a use for them."""
    match value:
        case dict():
            for key, item in value.items():
                _check_numbers(item, (*path, key))
        case list():
            for index, item in enumerate(value):
                _check_numbers(item, (*path, index))
        case float() if not math.isfinite(value):
            raise FlawError(path, f"`{spelled(path)}` is {value}; a finite number is wanted")
        case int() if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise FlawError(path, f"`{spelled(path)}` does not fit 64 bits; a smaller number is wanted")
