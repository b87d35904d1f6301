"""Which tests come past a change: a copy of the sources reports it while the tests run once.

Before the statement of each change stands a call that notes its number, and nothing else is changed: the copy runs as
fast as the original, in processes that tests start as well. What is noted while pleach is imported is kept apart: such
a change needs a fresh process. What is outside functions counts as reached wherever a function of its module is.
"""

from __future__ import annotations

import ast
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from mutation.draw import Mutant

IMPORT = "import"  # stands for a test, in notes of what is done while the package is imported
NOTES = "mutation_notes"
NOTES_SOURCE = '''"""Notes which changed statements were reached, and in which test."""

import os

DIRECTORY = os.environ.get("PLEACH_MUTATION_NOTES", "")
_seen = set()


def reached(number):
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if (number, test) not in _seen and DIRECTORY:
        _seen.add((number, test))
        with open(f"{DIRECTORY}/{os.getpid()}", "a") as notes:
            notes.write(f"{number}\\t{test}\\n")
'''


def copy_with_notes(drawn: Iterable[Mutant], source: Path, target: Path) -> None:
    """A copy of src/ that reports; to be put on PYTHONPATH."""
    copied(source, target)
    (target / f"{NOTES}.py").write_text(NOTES_SOURCE)
    by_path = defaultdict[str, list[Mutant]](list)
    for mutant in drawn:
        by_path[mutant.site.path].append(mutant)
    for path, mutants in by_path.items():
        module = target / "pleach" / path
        module.write_text(_with_notes(module.read_text(), mutants))


def copied(source: Path, target: Path) -> None:
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))


def _with_notes(source: str, mutants: list[Mutant]) -> str:
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    before = defaultdict[int, list[str]](list)
    for mutant in mutants:
        statements = [_statement(tree, mutant.site.line, lines)]
        if not _is_in_function(tree, mutant.site.line):
            statements += _first_statements(tree)
        for each in statements:
            line = _first_line(each)
            indent = lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())]
            before[line].append(f'{indent}__import__("{NOTES}").reached({mutant.number})\n')
    return "".join("".join([*before[at], line]) for at, line in enumerate(lines, start=1))


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return int(min([node.lineno, *(each.lineno for each in decorators)]))


def _statement(tree: ast.Module, line: int, lines: list[str]) -> ast.stmt:
    """The innermost statement around a line before which another may stand."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _spans(node, line)]
    return max(
        (node for node in around if not lines[node.lineno - 1].lstrip().startswith("elif ")),
        key=lambda node: (node.lineno, -(node.end_lineno or 0), node.col_offset),
    )


def _spans(node: ast.stmt, line: int) -> bool:
    return _first_line(node) <= line <= (node.end_lineno or node.lineno)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _is_in_function(tree: ast.Module, line: int) -> bool:
    return any(_spans(inner, line) for function in _functions(tree) for inner in function.body)


def _first_statements(tree: ast.Module) -> list[ast.stmt]:
    """Of each function the first statement that is no docstring."""
    bodies = [function.body for function in _functions(tree)]
    return [next((each for each in body if not _is_text(each)), body[0]) for body in bodies]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def notes_in(directory: Path) -> dict[int, set[str]]:
    """Tests by mutant; what is reached while tests are collected has an empty name."""
    found = defaultdict[int, set[str]](set)
    for path in directory.iterdir():
        for line in path.read_text().splitlines():
            number, _, test = line.partition("\t")
            found[int(number)].add(test.rpartition(" (")[0])
    return found
