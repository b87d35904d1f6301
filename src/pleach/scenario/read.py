"""Readers from TOML tables to structs: each key has the reader of its type, which names what does not fit.

The structs of `model.py` and `steps.py` are the grammar. `READERS` has for each type of their fields the values that a
file may have there, including shorthands (`0.1` for `[0.1, 0.1]`, one table for a list of one).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

import msgspec

from pleach.core.events.event import EVENT_BYTES_MAX, check_attributes
from pleach.core.events.language import parse_filter
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.stabilise.lease_settings import Renewal
from pleach.errors import EventError, FilterError
from pleach.scenario import values
from pleach.scenario.model import (
    Ordering,
    Publishes,
    PublishLoad,
    Replies,
    Reply,
    Routing,
    Scenario,
    ScenarioClient,
    Stabilise,
    Stabiliser,
    StandbyTable,
)
from pleach.scenario.positions import FlawError, Path
from pleach.scenario.steps import STEP_KINDS, Step
from pleach.scenario.values import Choice, Sequence, Span, Uniform

NAME_CHARACTERS_MAX = 100
NAMES_SHOWN_MAX = 20
GENERATORS = ("uniform", "choice", "sequence")

T = TypeVar("T", bound=msgspec.Struct)
Reader: TypeAlias = Callable[[Any, Path], Any]


def read_scenario(tables: dict[str, Any]) -> Scenario:
    """All but [latency] and [loss], whose keys depend on the nodes."""
    known = {field.encode_name for field in msgspec.structs.fields(Scenario)}
    refuse_unknown_keys(tables, known, ())
    rest = {key: value for key, value in tables.items() if key not in ("latency", "loss")}
    return read_struct(Scenario, rest, ())


def read_struct(kind: type[T], value: Any, path: Path) -> T:
    given = read_table(value, path)
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    refuse_unknown_keys(given, fields, path)
    for key, field in fields.items():
        if field.required and key not in given:
            raise FlawError(path, f"`{key}` is missing{_of(path)}")
    return kind(**{fields[k].name: READERS[fields[k].type](v, (*path, k)) for k, v in given.items()})


def read_table(value: Any, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _misfit(value, path, "a table { … }")
    return value


def refuse_unknown_keys(given: Iterable[str], known: Iterable[str], path: Path) -> None:
    for key in given:
        if key not in known:
            raise FlawError((*path, key), f"unknown key `{key}`{_of(path)}{instead(key, known)}")


def instead(wrong: str, known: Iterable[str]) -> str:
    """The end of a sentence about a wrong name: the one probably meant, or all there are."""
    close = get_close_matches(wrong, sorted(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else all_known(known)


def all_known(known: Iterable[str]) -> str:
    names = sorted(known)
    more = ", …" if len(names) > NAMES_SHOWN_MAX else ""
    return f"; known: {', '.join(names[:NAMES_SHOWN_MAX])}{more}" if names else "; there are none"


def _of(path: Path) -> str:
    return f" in `{spelled(path)}`" if path else ""


def spelled(path: Path) -> str:
    """`clients[2].publish`"""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _misfit(value: Any, path: Path, wanted: str) -> FlawError:
    return FlawError(path, f"`{spelled(path)}` is {_shown(value)}; {wanted} is wanted")


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "a table"
        case list():
            return f"a list of {len(value)}"
        case bool():
            return str(value).lower()
        case str() | int() | float():
            text = repr(value)
            return text if len(text) <= 60 else f"{text[:60]}…"
        case _:
            return f"a {type(value).__name__}"


# Scalars ----------------------------------------------------------------------------------------------------


def text(value: Any, path: Path) -> str:
    if not isinstance(value, str) or not value:
        raise _misfit(value, path, "a text")
    return value


def name(value: Any, path: Path) -> str:
    """Names travel in messages, traces and command lines: printable, without blanks, short."""
    if not isinstance(value, str) or not 0 < len(value) <= NAME_CHARACTERS_MAX or not _is_plain(value):
        raise _misfit(value, path, f"a name of 1 to {NAME_CHARACTERS_MAX} printable characters without blanks")
    return value


def _is_plain(value: str) -> bool:
    return value.isprintable() and " " not in value


def flag(value: Any, path: Path) -> bool:
    if not isinstance(value, bool):
        raise _misfit(value, path, "true or false")
    return value


def one_of(kind: type[StrEnum]) -> Reader:
    def read(value: Any, path: Path) -> StrEnum:
        try:
            return kind(value)
        except ValueError:
            known = [member.value for member in kind]
            raise FlawError(path, f"unknown {spelled(path)} {_shown(value)}{instead(str(value), known)}") from None

    return read


def whole(low: int, high: int) -> Reader:
    def read(value: Any, path: Path) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise _misfit(value, path, f"a whole number from {low:,} to {high:,}")
        return value

    return read


def numeric(wanted: str, is_legal: Callable[[float], bool] = lambda _: True) -> Reader:
    def read(value: Any, path: Path) -> float:
        if not _is_number(value) or not is_legal(value):
            raise _misfit(value, path, wanted)
        return float(value)

    return read


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


number = numeric("a number")
fraction = numeric("a number from 0 to 1", lambda value: 0 <= value <= 1)
seconds = numeric("a number of seconds, 0 or more,", lambda value: value >= 0)
positive_seconds = numeric("a number of seconds, more than 0,", lambda value: value > 0)


def filter_text(value: Any, path: Path) -> str:
    try:
        parse_filter(text(value, path))
    except FilterError as error:
        raise FlawError(path, f"`{spelled(path)}` is not a filter: {error}") from None
    return str(value)


# Spans and attributes ---------------------------------------------------------------------------------------


def interval(wanted: str, is_legal: Callable[[float], bool]) -> Reader:
    def read(value: Any, path: Path) -> Span:
        ends = value if isinstance(value, list) else [value, value]
        if len(ends) != 2 or not all(_is_number(end) and is_legal(end) for end in ends):
            raise _misfit(value, path, wanted)
        _refuse_reversed(ends, path)
        return Span(float(ends[0]), float(ends[1]))

    return read


span = interval("a number of seconds, 0 or more, or [low, high],", lambda end: end >= 0)
positive_span = interval("a number of seconds, more than 0, or [low, high],", lambda end: end > 0)


def _refuse_reversed(ends: list[Any], path: Path) -> None:
    low, high = ends
    if low > high:
        raise FlawError(path, f"`{spelled(path)}` is [{low}, {high}]; the lower end comes first: [{high}, {low}]")


def constants(value: Any, path: Path) -> dict[str, values.Constant]:
    given = read_table(value, path)
    return {key: _constant(given[key], (*path, key)) for key in _attribute_names(given, path)}


def attributes(value: Any, path: Path) -> dict[str, values.Attribute]:
    given = read_table(value, path)
    return {key: _attribute(given[key], (*path, key)) for key in _attribute_names(given, path)}


def _attribute_names(given: dict[str, Any], path: Path) -> list[str]:
    """Sorted, so that random numbers are drawn in the same order however the file orders its attributes."""
    try:
        check_attributes(dict.fromkeys(given, 0))
    except EventError as error:
        raise FlawError(path, f"`{spelled(path)}`: {error}") from None
    return sorted(given)


def _constant(value: Any, path: Path) -> values.Constant:
    if not isinstance(value, (str, int, float)):  # a bool is an int
        raise _misfit(value, path, "a text, a number, true or false")
    return value


def _attribute(value: Any, path: Path) -> values.Attribute:
    match value:
        case {"uniform": [low, high], **rest} if not rest and _is_number(low) and _is_number(high):
            _refuse_reversed([low, high], path)
            return Uniform(low, high)
        case {"choice": [_, *_] as options, **rest} if not rest:
            return Choice(tuple(_constant(option, (*path, "choice", i)) for i, option in enumerate(options)))
        case {"sequence": True, **rest} if not rest:
            return Sequence()
        case dict():
            refuse_unknown_keys(value, GENERATORS, path)
            wanted = "one of { uniform = [low, high] }, { choice = [value, …] } and { sequence = true }"
            raise _misfit(value, path, wanted)
        case _:
            return _constant(value, path)


# Lists and structs ------------------------------------------------------------------------------------------


def listed(read: Reader, count: int | None = None) -> Reader:
    wanted = "a list [ … ]" if count is None else f"a list of {count}"

    def read_all(value: Any, path: Path) -> tuple[Any, ...]:
        if not isinstance(value, list) or count not in (None, len(value)):
            raise _misfit(value, path, wanted)
        return tuple(read(item, (*path, i)) for i, item in enumerate(value))

    return read_all


def distinct(read: Reader) -> Reader:
    def read_all(value: Any, path: Path) -> tuple[Any, ...]:
        items: tuple[Any, ...] = read(value, path)
        for i, item in enumerate(items):
            if item in items[:i]:
                raise FlawError((*path, i), f"`{spelled(path)}` names {item!r} twice")
        return items

    return read_all


def one_or_more(kind: type[Any]) -> Reader:
    """A list of tables, or a single one without the list."""

    def read_all(value: Any, path: Path) -> tuple[Any, ...]:
        if isinstance(value, dict):
            return (read_struct(kind, value, path),)
        if not isinstance(value, list):
            raise _misfit(value, path, "a table { … } or a list of them")
        return tuple(read_struct(kind, item, (*path, i)) for i, item in enumerate(value))

    return read_all


def struct(kind: type[Any]) -> Reader:
    return lambda value, path: read_struct(kind, value, path)


def step(value: Any, path: Path) -> Step:
    given = read_table(value, path)
    if "do" not in given:
        raise FlawError(path, f"`do` is missing{_of(path)}; it names the kind of step: {', '.join(STEP_KINDS)}")
    do = given["do"]
    if not isinstance(do, str) or do not in STEP_KINDS:
        raise FlawError((*path, "do"), f"unknown step {_shown(do)}{instead(str(do), STEP_KINDS)}")
    rest = {key: item for key, item in given.items() if key != "do"}
    return read_struct(STEP_KINDS[do], rest, path)


def _sides(value: Any, path: Path) -> tuple[tuple[str, ...], ...]:
    sides: tuple[tuple[str, ...], ...] = listed(distinct(listed(name)))(value, path)
    if not sides or not all(sides):
        raise _misfit(value, path, "a list of one or more lists of names")
    for i, side in enumerate(sides):
        for j, each in enumerate(side):
            if any(each in other for other in sides[:i]):
                raise FlawError((*path, i, j), f"{each!r} is on two sides; leave it out of one")
    return sides


_link = distinct(listed(name, 2))

READERS: dict[Any, Reader] = {
    str: text,
    bool: flag,
    Routing: one_of(Routing),
    Ordering: one_of(Ordering),
    values.Name: name,
    values.Names: distinct(listed(name)),
    values.Link: _link,
    values.Triple: distinct(listed(name, 3)),
    values.Links: listed(listed(name, 2)),
    values.Sides: _sides,
    values.FilterText: filter_text,
    values.FilterTexts: listed(filter_text),
    values.Seconds: seconds,
    values.Seconds | None: seconds,
    values.PositiveSeconds: positive_seconds,
    values.Fraction: fraction,
    values.Count | None: whole(1, 10**9),
    values.Variant: whole(1, 2),
    values.Copies: whole(2, 3),
    Stabiliser: one_of(Stabiliser),
    Renewal: one_of(Renewal),
    Stabilise | None: struct(Stabilise),
    StandbyTable | None: struct(StandbyTable),
    CouncilSettings | None: struct(CouncilSettings),
    float: number,
    int: whole(0, 10**9),
    Span | None: span,
    values.Bytes: whole(0, EVENT_BYTES_MAX),
    values.Constants: constants,
    values.Attributes: attributes,
    Span: span,
    values.PositiveSpan: positive_span,
    Publishes: one_or_more(PublishLoad),
    Replies: one_or_more(Reply),
    tuple[ScenarioClient, ...]: listed(struct(ScenarioClient)),
    tuple[Step, ...]: listed(step),
}
