"""What a client asks for, looked at before it is parsed: a filter may not cost a broker more than its text.

Client libraries send filters in their normal form: conjunctions joined by OR, and within parentheses the ranges of one
attribute. Anything else a hostile client has written, since normalising `(a OR b) AND (c OR d) AND …` takes time that
doubles with each pair, and all links of the broker would wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from pleach.errors import FilterError
from pleach.events.normalise import CONJUNCTIONS_MAX
from pleach.events.tokens import Sort, tokens_of

TEXT_BYTES_MAX = 262_144
ALTERNATIVES_MAX = 4 * CONJUNCTIONS_MAX  # every OR of a text
TAG_BYTES = 24  # within which the name of a message's type stands
TAGS = (b"Subscribe", b"Advertise")

_untyped = msgspec.msgpack.Decoder()


def why_not(payload: bytes) -> str:
    """Why a client's message is not to be parsed; empty where it may be."""
    head = payload[:TAG_BYTES]
    if TAGS[0] not in head and TAGS[1] not in head:
        return ""
    try:
        texts = [part for part in _parts(_untyped.decode(payload)) if isinstance(part, str)]
        return next(filter(None, map(_complaint, texts[2:])), "")  # behind the type and the name
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, FilterError):
        return ""  # parsing it will say so, and better


def _parts(message: Any) -> Iterator[Any]:
    yield from message if isinstance(message, list) else ()


def _complaint(text: str) -> str:
    if len(text) > TEXT_BYTES_MAX:
        return f"a filter of {len(text):,} characters; {TEXT_BYTES_MAX:,} are possible"
    flat, inside = 1, 0
    groups: list[set[str]] = []  # the attributes named within each open parenthesis
    for token in tokens_of(text):
        match token.sort, token.value:
            case Sort.MARK, "(":
                groups.append(set())
            case Sort.MARK, ")" if groups:
                groups.pop()
            case Sort.NAME, name if groups:
                groups[-1].add(name)
            case Sort.KEYWORD, "OR" if groups:
                inside += 1
            case Sort.KEYWORD, "OR":
                flat += 1
        if len(groups) > 1 or (groups and len(groups[-1]) > 1):
            return "a filter that is not in its normal form: alternatives of several attributes in parentheses"
    if flat > CONJUNCTIONS_MAX or flat + inside > ALTERNATIVES_MAX:
        return f"a filter of {flat + inside:,} alternatives; {CONJUNCTIONS_MAX} are possible"
    return ""
