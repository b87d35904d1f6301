"""The loader: from a text or a file to a checked Scenario, or one ScenarioError."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path as FilePath
from typing import Any, NamedTuple, TypeVar

import msgspec

from pleach.core.events.event import INTEGER_MAX, INTEGER_MIN
from pleach.errors import ScenarioError
from pleach.scenario.model import LATENCY_DEFAULT, PerLink, Scenario
from pleach.scenario.positions import FlawError, Locator, Path
from pleach.scenario.read import Reader, all_known, fraction, read_scenario, read_table, span, spelled
from pleach.scenario.stabilise_settings import check_stabilising
from pleach.scenario.steps import AddBroker, Exchange, MoveClient, RemoveBroker, Swap
from pleach.scenario.timeline import check_steps, in_order
from pleach.scenario.validate import check_clients, check_settings, check_silence, check_tree, with_brokers
from pleach.scenario.values import Span

SCENARIO_CHARACTERS_MAX = 4 * 1_048_576
NESTING_MAX = 32  # of lists and tables; a legal file needs 7

TOO_DEEP = f"lists and tables are nested too deeply; at most {NESTING_MAX} levels are allowed"

_TOMLLIB_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def load_scenario(path: str | FilePath) -> Scenario:
    """The scenario in a file; raises ScenarioError if it is missing or wrong."""
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
    """Run all checks; each relies on those before it."""
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
    check_silence(complete)
    check_stabilising(complete)
    return complete


def _check_numbers(value: Any, path: Path) -> None:
    """Refuse inf, nan and integers beyond 64 bits, which TOML allows."""
    match value:
        case dict():
            for key, item in value.items():
                _check_numbers(item, (*path, key))
        case list():
            for index, item in enumerate(value):
                _check_numbers(item, (*path, index))
        case float() if not math.isfinite(value):
            raise FlawError(path, f"`{spelled(path)}` is {value}; it must be finite")
        case int() if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise FlawError(path, f"`{spelled(path)}` does not fit 64 bits")


# The tables [latency] and [loss]: a value for each link, by keys such as "a-b" ----------------------------------------

T = TypeVar("T")


class _Nodes(NamedTuple):
    """`links`: those of the start or of brokers that join; other links appear only when the tree changes."""

    brokers: frozenset[str]
    clients: frozenset[str]
    links: frozenset[frozenset[str]]
    has_changes: bool


def read_latency(value: Any, scenario: Scenario) -> PerLink[Span]:
    return _read("latency", value, scenario, span, LATENCY_DEFAULT)


def read_loss(value: Any, scenario: Scenario) -> PerLink[float]:
    loss = _read("loss", value, scenario, fraction, 0.0)
    for key, share in [("default", loss.default), *((f"{a}-{b}", share) for a, b, share in loss.links)]:
        if share == 1.0:
            reason = f"`loss.{key}` is 1: no message would arrive; use less than 1, or a `cut` step"
            raise FlawError(("loss", key), reason)
    return loss


def _read(table: str, value: Any, scenario: Scenario, reader: Reader, default: T) -> PerLink[T]:
    given = {key: reader(item, (table, key)) for key, item in read_table(value, (table,)).items()}
    default = given.pop("default", default)
    nodes = _nodes(scenario)
    links: dict[frozenset[str], tuple[str, str, T]] = {}
    for key, setting in given.items():
        a, b = _ends(table, key, nodes)
        if frozenset((a, b)) in links:
            raise FlawError((table, key), f"[{table}] has link {a}-{b} twice; leave one out")
        links[frozenset((a, b))] = (a, b, setting)
    return PerLink(default, tuple(links.values()))


def _nodes(scenario: Scenario) -> _Nodes:
    added = [(step.broker, step.to) for step in scenario.steps if isinstance(step, AddBroker)]
    attachments = [(client.id, client.broker) for client in scenario.clients]
    return _Nodes(
        brokers=frozenset([*scenario.brokers, *(broker for broker, _ in added)]),
        clients=frozenset(client.id for client in scenario.clients),
        links=frozenset(frozenset(link) for link in [*scenario.links, *added, *attachments]),
        has_changes=scenario.improve is not None
        or any(isinstance(s, (Swap, Exchange, RemoveBroker, MoveClient)) for s in scenario.steps),
    )


def _ends(table: str, key: str, nodes: _Nodes) -> tuple[str, str]:
    """The link that a key means: names may contain the dash, so "a-b-c" can mean a and b-c, or a-b and c."""
    dashes = [i for i, character in enumerate(key) if character == "-"]
    pairs = [(key[:i], key[i + 1 :]) for i in dashes]
    meant = [pair for pair in pairs if frozenset(pair) in nodes.links]
    if not meant and nodes.has_changes:
        meant = [pair for pair in pairs if _could_be_linked(*pair, nodes)]
    if len(meant) > 1:
        shown = " or ".join(f"{a!r} and {b!r}" for a, b in meant)
        raise FlawError((table, key), f'"{key}" in [{table}] is ambiguous: {shown}; rename one of the nodes')
    if not meant:
        known = ["-".join(sorted(link)) for link in nodes.links]
        raise FlawError((table, key), f'"{key}" in [{table}] is not a link{all_known(["default", *known])}')
    return meant[0]


def _could_be_linked(a: str, b: str, nodes: _Nodes) -> bool:
    """Two brokers, or a client and a broker."""
    both_known = a in nodes.brokers | nodes.clients and b in nodes.brokers | nodes.clients
    return both_known and a != b and not (a in nodes.clients and b in nodes.clients)
