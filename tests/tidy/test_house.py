"""The house rules that a linter does not know."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
CORE = sorted((ROOT / "src" / "pleach" / "core").rglob("*.py"))
FUNCTION_LINES_MAX = 60
TYPES = re.compile(r"^([A-Z_]+): frozenset\[type.*\] = ([^#\n]+)", re.MULTILINE)  # a name, and what it stands for


def functions(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_there_is_something_to_check():
    assert len(SOURCES) > 30
    assert len(CORE) > 15


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_functions_are_short(path):
    long = [
        f"{f.name}: {f.end_lineno - f.lineno + 1}"
        for f in functions(path)
        if f.end_lineno - f.lineno >= FUNCTION_LINES_MAX
    ]
    assert not long


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_nothing_prints_but_the_command_line(path):
    calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    assert not [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]


@pytest.mark.parametrize("path", CORE, ids=str)
def test_the_core_reads_no_clock_and_draws_no_random_number(path):
    """The import contract says so too; this also sees imports inside functions and `__import__`."""
    forbidden = {
        "asyncio",
        "time",
        "random",
        "socket",
        "secrets",
        "uuid",
        "datetime",
        "threading",
        "os",
        "numpy",
        "pyspark",
    }
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Name):
            assert node.id != "__import__"
    assert not imported & forbidden


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_no_module_is_named_after_nothing(path):
    assert path.stem not in {"utils", "util", "helpers", "common", "misc", "manager"}


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_hosts_and_ports_are_told_apart_in_one_place(path):
    """`[::1]:7000` has more than one colon, and brackets that are no part of its host."""
    if path.parts[-2:] != ("net", "addresses.py"):
        assert not re.search(r"""rpartition\(["']:["']\)|rsplit\(["']:["']""", path.read_text())


def test_a_set_of_message_types_has_one_name_and_a_name_one_set():
    """Those that several modules ask about are in core/messages/kinds.py."""
    sets = [found for path in SOURCES for found in TYPES.findall(path.read_text())]
    assert len(sets) > 10
    for each in zip(*sets, strict=True):
        assert sorted(set(each)) == sorted(each)


def test_every_example_is_named_in_the_documentation():
    documented = "".join(p.read_text() for p in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
    missing = [p.name for p in sorted((ROOT / "examples").glob("*.toml")) if p.name not in documented]
    assert not missing


def test_links_between_documents_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
