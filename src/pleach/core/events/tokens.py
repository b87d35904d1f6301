"""The tokens of the filter language, with their columns."""

from __future__ import annotations

import math
import re
from enum import Enum, auto
from typing import Any, NamedTuple, NoReturn

from pleach.core.events.budget import LITERAL_BYTES_MAX
from pleach.core.events.event import ATTRIBUTE_NAME_BYTES_MAX, INTEGER_MAX, INTEGER_MIN
from pleach.core.events.predicates import canonical_value
from pleach.core.events.spelling import KEYWORDS
from pleach.errors import FilterError

INTEGER_DIGITS_MAX = 40  # more than any 64-bit number has; bounds the conversion
SHOWN_CHARACTERS = 24


class Sort(Enum):
    NAME = auto()
    LITERAL = auto()
    OPERATOR = auto()
    KEYWORD = auto()
    MARK = auto()  # parentheses and commas
    END = auto()


class Token(NamedTuple):
    sort: Sort
    value: Any  # the name, the literal's value, the keyword in capitals, the operator or mark
    shown: str  # the source text
    column: int


_WORDS = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<bytes>[xX]'(?:[^']*)')
  | (?P<string>'(?:[^']|'')*')
  | (?P<quoted>"(?:[^"]|"")*")
  | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
  | (?P<operator><>|!=|<=|>=|=|<|>)
  | (?P<mark>[(),])
    """,
    re.VERBOSE,
)


def tokens_of(text: str) -> list[Token]:
    """All tokens of `text`, an END token last."""
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _WORDS.match(text, position)
        if match is None:
            _refuse_character(text, position)
        if match.lastgroup != "space":
            found.append(_token(match, text))
        position = match.end()
    found.append(Token(Sort.END, None, "", len(text) + 1))
    return found


def shown(token: Token) -> str:
    """A token in error messages."""
    if token.sort is Sort.END:
        return "the end of the text"
    too_long = len(token.shown) > SHOWN_CHARACTERS
    return token.shown[: SHOWN_CHARACTERS - 1] + "…" if too_long else token.shown


def _token(match: re.Match[str], text: str) -> Token:
    written, column = match.group(), match.start() + 1
    value: Any = written
    match match.lastgroup:
        case "bytes":
            sort, value = Sort.LITERAL, _bytes(written, text, column)
            _check_literal(value, text, column)
        case "string":
            sort, value = Sort.LITERAL, written[1:-1].replace("''", "'")
            _check_literal(value.encode(), text, column)
        case "number":
            _refuse_glued(match, text)
            sort, value = Sort.LITERAL, _number(written, text, column)
        case "quoted":
            sort, value = Sort.NAME, _name(written[1:-1].replace('""', '"'), text, column)
        case "word" if written.upper() in KEYWORDS:
            sort, value = Sort.KEYWORD, written.upper()
        case "word":
            sort, value = Sort.NAME, _name(written, text, column)
        case "operator":
            sort, value = Sort.OPERATOR, "<>" if written == "!=" else written
        case _:
            sort = Sort.MARK
    return Token(sort, value, written, column)


def _bytes(written: str, text: str, column: int) -> bytes:
    digits = written[2:-1]
    if len(digits) % 2 or not re.fullmatch(r"[0-9A-Fa-f]*", digits):
        raise FilterError("bytes are written in pairs of hexadecimal digits: X'0aff'", text=text, column=column)
    return bytes.fromhex(digits)


def _check_literal(value: bytes, text: str, column: int) -> None:
    if len(value) > LITERAL_BYTES_MAX:
        reason = f"a literal of {len(value):,} bytes, at most {LITERAL_BYTES_MAX:,} are possible"
        raise FilterError(reason, text=text, column=column)


def _name(name: str, text: str, column: int) -> str:
    if not name:
        raise FilterError("an attribute name cannot be empty", text=text, column=column)
    if len(name.encode()) > ATTRIBUTE_NAME_BYTES_MAX:
        reason = f"attribute names have at most {ATTRIBUTE_NAME_BYTES_MAX} bytes"
        raise FilterError(reason, text=text, column=column)
    return name


def _number(written: str, text: str, column: int) -> int | float:
    if re.fullmatch(r"[+-]?[0-9]+", written):
        value = int(written) if len(written) <= INTEGER_DIGITS_MAX else None
        if value is None or not INTEGER_MIN <= value <= INTEGER_MAX:
            reason = "integers have 64 bits: write a larger number as a float, such as 1e20"
            raise FilterError(reason, text=text, column=column)
        return value
    number = float(written)
    if not math.isfinite(number):
        raise FilterError(f"{written} is beyond all floats (about 1.8e308)", text=text, column=column)
    result: int | float = canonical_value(number)
    return result


def _refuse_glued(match: re.Match[str], text: str) -> None:
    """`5abc` is neither a number nor a name."""
    following = text[match.end() : match.end() + 1]
    if following and (following.isalnum() or following in "_.'\""):
        reason = f"{match.group()}{following}… is neither a number nor a name: put a space between, or quotes"
        raise FilterError(reason, text=text, column=match.start() + 1)


def _refuse_character(text: str, position: int) -> NoReturn:
    character = text[position]
    match character:
        case "'":
            reason = "this string never ends: a closing ' is wanted (within a string write '')"
        case '"':
            reason = 'this quoted name never ends: a closing " is wanted (within a name write "")'
        case _ if character.isalpha():
            reason = f'{character!r} is no letter of a plain name: write it in double quotes, such as "größe"'
        case _:
            reason = f"{character!r} means nothing here: a name, a literal, an operator or a parenthesis is wanted"
    raise FilterError(reason, text=text, column=position + 1)
