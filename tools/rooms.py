"""The picture and the tree of the code in ARCHITECTURE.md, made from imports and folders.

`python tools/rooms.py` writes the picture (`make reference`), `python tools/rooms.py tree` prints the tree.

Rooms stand in the order of the import contract, top to bottom and left to right. A square in a room's row says that it
imports the room of that column; the more of its modules do, the larger. All squares lie right of the diagonal: imports
go downwards only.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from collections import Counter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "pleach"
DOT, WIDTH = "· ", 150
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
CELL, LEFT, TOP, EDGE = 20, 100, 92, 24
PURE = "The core is pure"  # the contract, by name
SIZES = ((1, 8), (3, 11), (10, 15))  # from how many importing modules on, and how wide
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.grid { stroke: #d0d7de; stroke-width: 0.5 }
.pure { fill: #2f6f4e } .world { fill: #4878a8 } .self { fill: #d0d7de }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .grid { stroke: #30363d }
  .self { fill: #30363d } .pure { fill: #5fb98a } .world { fill: #79a8d8 }
}
"""


def rooms() -> tuple[list[str], set[str]]:
    """All rooms, the highest first, and those that the contract keeps pure."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    names = [room.strip() for layer in layers for room in layer.split("|")]
    pure = next(c["source_modules"] for c in contracts if c["name"] == PURE)
    return [name for name in names if name != "__main__"], {module.removeprefix("pleach.") for module in pure}


def imports() -> Counter[tuple[str, str]]:
    """How many modules of a room import something of another room."""
    graph = grimp.build_graph("pleach", cache_dir=None)
    found = Counter[tuple[str, str]]()
    for module in sorted(graph.modules):
        there = {room_of(imported) for imported in graph.find_modules_directly_imported_by(module)}
        found.update((room_of(module), room) for room in there if room and room != room_of(module))
    return found


def room_of(module: str) -> str:
    return [*module.split("."), ""][1]


def picture() -> str:
    names, pure = rooms()
    counts = imports()
    side = CELL * len(names)
    box = f"0 0 {LEFT + side + EDGE} {TOP + side}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img">',
        "<title>Which room imports which</title>",
        f"<style>{STYLE}</style>",
    ]
    for number, name in enumerate(names):
        at = number * CELL
        parts += [
            f'<path class="grid" d="M{LEFT} {TOP + at}H{LEFT + side}M{LEFT + at} {TOP}V{TOP + side}"/>',
            f'<text x="{LEFT - 6}" y="{TOP + at + 14}" text-anchor="end">{name}</text>',
            f'<text transform="translate({LEFT + at + 14} {TOP - 6}) rotate(-60)">{name}</text>',
            f'<rect class="self" x="{LEFT + at}" y="{TOP + at}" width="{CELL}" height="{CELL}"/>',
        ]
    for row, name in enumerate(names):
        for column, other in enumerate(names):
            if count := counts[name, other]:
                kind = "pure" if name in pure else "world"
                parts.append(_square(row, column, kind, f"{name} imports {other}", count))
    return "\n".join([*parts, "</svg>", ""])


def _square(row: int, column: int, kind: str, says: str, count: int) -> str:
    size = max(width for least, width in SIZES if count >= least)
    x, y = (start + at * CELL + (CELL - size) / 2 for start, at in ((LEFT, column), (TOP, row)))
    place = f'x="{x:g}" y="{y:g}" width="{size}" height="{size}" rx="2"'
    return f'<rect class="{kind}" {place}><title>{says}</title></rect>'


# The tree -------------------------------------------------------------------------------------------------------


def tree() -> list[str]:
    """`tree -L 2 src/pleach`, folders with a slash at the end; inside the core one level more."""
    folders = [PACKAGE, *_packages(PACKAGE), *_packages(PACKAGE / "core")]
    return sorted(str(inner.relative_to(PACKAGE)) + "/" * inner.is_dir() for each in folders for inner in _inside(each))


def _inside(folder: Path) -> list[Path]:
    return [*_packages(folder), *(module for module in folder.glob("*.py") if module.stem[:2] != "__")]


def _packages(folder: Path) -> list[Path]:
    return sorted(inner.parent for inner in folder.glob("*/__init__.py"))


def tree_in(page: str) -> list[str]:
    """The entries of the block of a page that begins with `src/pleach/`.

    A row is a name and its description, or, with a dot in front, names of what is in the folder above.
    """
    block = re.search(r"^```\w*\n(src/pleach/\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    if block is None:
        return []
    entries, above = [], list[tuple[int, str]]()
    for line in block[1].splitlines()[1:]:
        row = line.lstrip()
        indent = len(line) - len(row)
        above = [(left, folder) for left, folder in above if left < indent]
        names = row.removeprefix(DOT).split() if row.startswith(DOT) else row.split(maxsplit=1)[:1]
        entries += ["".join([*(folder for _, folder in above), name]) for name in names]
        above += [(indent, name) for name in names if name.endswith("/") and not row.startswith(DOT)]
    return sorted(entries)


def tree_block() -> str:
    """As it stands in ARCHITECTURE.md: folders with the first sentence of their docstrings, modules by name."""
    entries = tree()
    rows = [entry for entry in entries if entry.count("/") == 1 and entry.endswith("/")] + ["core/broker.py"]
    rows += [entry for entry in entries if entry.startswith("core/") and entry.endswith("/") and entry.count("/") == 2]
    lines = [line for row in sorted(rows) for line in _rows(row, entries, rows)]
    beside = [entry for entry in entries if "/" not in entry]
    return "\n".join(["```", "src/pleach/", *lines, *_dotted(2, beside), "```", ""])


def _rows(folder: str, entries: list[str], rows: list[str]) -> list[str]:
    depth = 2 * folder.rstrip("/").count("/") + 2
    first = f"{' ' * depth + _name(folder):<16}{_first_sentence(folder)}"
    inside = [each for each in entries if each.startswith(folder) and each not in rows and folder.endswith("/")]
    return [
        first,
        *_dotted(depth + 2, [each.removeprefix(folder) for each in inside if "/" not in each[len(folder) : -1]]),
    ]


def _dotted(indent: int, names: list[str]) -> list[str]:
    wrapped = textwrap.wrap(" ".join(names), WIDTH - indent - len(DOT), break_long_words=False, break_on_hyphens=False)
    return [f"{' ' * indent}{DOT}{line}" for line in wrapped]


def _name(entry: str) -> str:
    return entry.rstrip("/").rpartition("/")[2] + "/" * entry.endswith("/")


def _first_sentence(entry: str) -> str:
    module = PACKAGE / entry / "__init__.py" if entry.endswith("/") else PACKAGE / entry
    text = ast.get_docstring(ast.parse(module.read_text())) or ""
    return re.split(r"\.(?:\s|$)|\n\n", text, maxsplit=1)[0].replace("\n", " ")


def main(wanted: str = "picture") -> None:
    if wanted == "tree":
        sys.stdout.write(tree_block())
        return
    PICTURE.write_text(picture())
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
