"""`KEY=VALUE` arguments: values are written like the literals of a filter, and text needs no quotes."""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.events.event import Value
from pleach.core.events.tokens import Sort, Token, tokens_of
from pleach.errors import EventError, FilterError


def parse_attributes(pairs: Sequence[str]) -> dict[str, Value]:
    attributes: dict[str, Value] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise EventError(f"{pair!r} is not an attribute; write KEY=VALUE, as in price=5")
        if key in attributes:
            raise EventError(f"attribute {key!r} is given twice")
        attributes[key] = parse_value(text)
    return attributes


def parse_value(text: str) -> Value:
    """5 is an integer, 5.0 a float, true a boolean, x'0aff' bytes, '5' and everything else text."""
    try:
        tokens = tokens_of(text)
    except FilterError:
        return text  # not a literal: a path, an address, a sentence
    match tokens:
        case [Token(Sort.LITERAL, value, shown), _] if shown == text:
            # A filter compares numbers by value and has 5.0 as 5; an attribute keeps the type that was written.
            was_float = isinstance(value, int) and not text.lstrip("+-").isdecimal()
            literal: Value = float(text) if was_float else value
            return literal
        case [Token(Sort.KEYWORD, "TRUE" | "FALSE" as word, shown), _] if shown == text:
            return bool(word == "TRUE")
        case _:
            return text
