"""Where in a TOML text does a key stand?

`tomllib` forgets lines. This scanner walks a text that `tomllib` has accepted, so it need not know what is
illegal: it follows tables, keys, arrays and inline tables, skips over scalars, and notes lines by key path.

    [[clients]]              ("clients",) and ("clients", 0)
    id = "p1"                ("clients", 0, "id")
    publish = [              ("clients", 0, "publish")
      { every = 0.1 },       ("clients", 0, "publish", 0) and ("clients", 0, "publish", 0, "every")
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]


class FlawError(Exception):
    """Something wrong at a key path. The loader, which has the text, adds file and line: a ScenarioError."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # the content may end with two quotes of its own
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\])*"'
    r"|'[^']*'",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]+")


class Locator:
    """The lines of a TOML text, by key path."""

    def __init__(self, text: str) -> None:
        self._lines = _Scanner(text).lines

    def line(self, path: Path) -> int:
        """The line of the path, or of the innermost part of it that the text has; 1 for the whole.

        An index that the text does not have is passed over: one table may stand for a list of one.
        """
        known: Path = ()
        for part in path:
            if (*known, part) in self._lines:
                known = (*known, part)
            elif isinstance(part, str):
                break
        return self._lines.get(known, 1)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._text = text
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._at = 0
        self._tables: dict[Path, int] = {}  # arrays of tables, and the index of their latest one
        self._document()

    def _document(self) -> None:
        table: Path = ()
        self._skip_blank()
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip_blank()

    def _header(self) -> Path:
        """`[a.b]` or `[[a.b]]`; a part that is an array of tables means the latest of them."""
        start = self._at
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        *outer, last = self._key()
        self._at += 2 if is_array else 1
        table: Path = ()
        for part in outer:
            table = self._latest((*table, part))
            self._note(table, start)
        table = (*table, last)
        self._note(table, start)
        if is_array:
            self._tables[table] = self._tables.get(table, -1) + 1
            table = self._latest(table)
            self._note(table, start)
        return table

    def _latest(self, table: Path) -> Path:
        return (*table, self._tables[table]) if table in self._tables else table

    def _pair(self, table: Path) -> None:
        start = self._at
        path = table
        for part in self._key():
            path = (*path, part)
            self._note(path, start)
        self._at += 1  # the equals sign
        self._value(path)

    def _key(self) -> list[str]:
        """A dotted key, with the blanks around it."""
        parts = []
        while True:
            self._skip_blank()
            parts.append(self._key_part())
            self._skip_blank()
            if self._text[self._at] != ".":
                return parts
            self._at += 1

    def _key_part(self) -> str:
        if self._text[self._at] not in "\"'":
            return self._take(_BARE_KEY)
        quoted = self._take(_STRING)
        key: str = tomllib.loads(f"key = {quoted}")["key"]
        return key

    def _value(self, path: Path) -> None:
        self._skip_blank()
        match self._text[self._at]:
            case "[":
                self._array(path)
            case "{":
                self._inline_table(path)
            case '"' | "'":
                self._take(_STRING)
            case _:
                self._take(_SCALAR)

    def _array(self, path: Path) -> None:
        self._at += 1
        index = 0
        while not self._closes("]"):
            self._note((*path, index), self._at)
            self._value((*path, index))
            index += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        while not self._closes("}"):
            self._pair(path)

    def _closes(self, end: str) -> bool:
        """Step over blanks and a comma; True where `end` follows, which is stepped over too."""
        self._skip_blank()
        if self._text[self._at] == ",":
            self._at += 1
            self._skip_blank()
        if self._text[self._at] != end:
            return False
        self._at += 1
        return True

    def _skip_blank(self) -> None:
        self._take(_BLANK)

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        assert found, f"{pattern.pattern} is expected at character {self._at}"
        self._at = found.end()
        return found.group()

    def _note(self, path: Path, at: int) -> None:
        self.lines.setdefault(path, bisect_right(self._breaks, at - 1) + 1)
