"""The locator agrees with tomllib on what there is, and knows on which line."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.scenario.positions import Locator

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))

TRICKY = '''\
# a comment with [brackets] and "quotes"
title = "a # is no comment here"
"quoted key" = 'literal \\'
dotted.inner . key = 1
text = """
[not.a.table]
x = 1 \\""" still inside"""""
after = \'\'\'
[[neither]]
\'\'\'\'
moment = 1979-05-27 07:32:00
list = [ # comment ] in an array
  1, 2,
  [3, [ 4 ]],
  { deep = true, "odd }" = ["]", '}'] },
]
[table] # header
a = {}
[table.sub]
b = []
[[rows]]
id = 1
[rows.inner]
c = 1
[[rows.cells]]
d = 1
[[rows.cells]]
d = 2
[[rows]]
id = 2
[[rows.cells]]
d = 3
'''


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2),
        (("quoted key",), 3),
        (("dotted",), 4),
        (("dotted", "inner", "key"), 4),
        (("text",), 5),
        (("after",), 8),
        (("moment",), 11),
        (("list",), 12),
        (("list", 1), 13),
        (("list", 2, 1, 0), 14),
        (("list", 3, "deep"), 15),
        (("list", 3, "odd }", 1), 15),
        (("table", "a"), 18),
        (("table", "sub", "b"), 20),
        (("rows",), 21),
        (("rows", 0, "id"), 22),
        (("rows", 0, "inner", "c"), 24),
        (("rows", 0, "cells", 0, "d"), 26),
        (("rows", 0, "cells", 1, "d"), 28),
        (("rows", 1), 29),
        (("rows", 1, "cells", 0, "d"), 32),
    ],
)
def test_lines_of_a_tricky_text(path, line):
    assert Locator(TRICKY).line(path) == line


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_path_of_tomllib_is_known(newline):
    texts = [TRICKY, *(file.read_text() for file in EXAMPLES)]
    for text in texts:
        document = text.replace("\n", newline)
        known = Locator(document)._lines
        assert set(known) | {()} == set(paths(tomllib.loads(document)))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_a_key_stands_on_its_line(file):
    lines = file.read_text().splitlines()
    for path, line in Locator(file.read_text())._lines.items():
        if isinstance(path[-1], str):
            assert path[-1] in lines[line - 1], path


def test_what_is_not_there_is_found_at_its_surroundings():
    locator = Locator("a = 1\n[t]\nb = { c = 1 }\n")
    assert locator.line(()) == 1
    assert locator.line(("missing",)) == 1
    assert locator.line(("t", "missing", "b")) == 2
    assert locator.line(("t", "b", "missing")) == 3


def test_one_table_stands_for_a_list_of_one():
    assert Locator("x = 1\np = { every = 1 }\n").line(("p", 0, "every")) == 2
    assert Locator("p = [\n{ every = 1 },\n{ every = 2 }]\n").line(("p", 1, "every")) == 3


@settings(max_examples=200)
@given(st.lists(st.sampled_from(TRICKY.splitlines(keepends=True)), max_size=40).map("".join))
def test_whatever_tomllib_accepts_is_scanned(text):
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(Locator(text)._lines) | {()} == set(paths(document))
