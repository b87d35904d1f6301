"""A change put into functions that were imported already.

A process that has imported everything and collected the tests forks once for each mutant: milliseconds, where a fresh
one needs seconds. It holds for what is inside functions only, and where they did nothing yet (see `reach`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

Place = tuple[str, int]  # qualified name, first line


class NotSwappableError(Exception):
    """The change is not inside functions alone, or alters what a function shares with the one around it."""


def swap_in(filename: str, mutated: str) -> None:
    """Give all functions of a file the code that they have in the mutated source."""
    original = dict(_codes(compile(Path(filename).read_text(), filename, "exec", dont_inherit=True)))
    changed = {
        place: code
        for place, code in _codes(compile(mutated, filename, "exec", dont_inherit=True))
        if place not in original or original[place] != code
    }
    if ("<module>", 1) in changed and _own(changed["<module>", 1]) != _own(original["<module>", 1]):
        raise NotSwappableError(filename)
    functions = [each for each in gc.get_objects() if isinstance(each, FunctionType)]
    touched = [each for each in functions if each.__code__.co_filename == filename and _place(each.__code__) in changed]
    if any(each.__name__ == "<lambda>" for each in touched):  # there may be two of them in a line
        raise NotSwappableError(filename)
    for function in touched:
        new = changed[_place(function.__code__)]
        if new.co_freevars != function.__code__.co_freevars:
            raise NotSwappableError(function.__qualname__)
        function.__code__ = new
    if not touched:
        raise NotSwappableError(filename)


def _place(code: CodeType) -> Place:
    return code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[tuple[Place, CodeType]]:
    yield _place(code), code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _own(code: CodeType) -> tuple[bytes, tuple[object, ...]]:
    """What a code does itself, without what it defines."""
    return code.co_code, tuple(each for each in code.co_consts if not isinstance(each, CodeType))
