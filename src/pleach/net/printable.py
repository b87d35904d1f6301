"""Text of peers, as it may stand in a log or on a terminal.

A name, a filter or a reason may contain line ends, which forge lines, and escape sequences, which control a terminal;
and characters that turn the direction of writing, so that a line reads as another one.
"""

from __future__ import annotations


def printable(text: str, *, keep: str = "") -> str:
    """The text with everything escaped that is not printed as itself, but for the characters in `keep`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in keep else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
