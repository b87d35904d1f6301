"""The house rules that a linter does not know: one test for each, which names every place that breaks it."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import rooms

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pleach"
SOURCES = sorted(PACKAGE.rglob("*.py"))
CORE = sorted((PACKAGE / "core").rglob("*.py"))
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
FUNCTION_LINES_MAX = 60
ATTRIBUTES_MAX = 15
TYPES = re.compile(r"^([A-Z_]+): frozenset\[type.*\] = ([^#\n]+)", re.MULTILINE)  # a name, and what it stands for
IMPURE = {"asyncio", "time", "random", "socket", "secrets", "uuid", "datetime", "threading", "os", "numpy", "pyspark"}


@cache
def parsed(path):
    return ast.parse(path.read_text())


def nodes(paths, *kinds):
    """Where it is, and the node."""
    for path in paths:
        for node in ast.walk(parsed(path)):
            if isinstance(node, kinds):
                yield str(path.relative_to(PACKAGE)), node


def test_there_is_something_to_check():
    assert len(SOURCES) > 30
    assert len(CORE) > 15


def test_functions_are_short():
    found = nodes(SOURCES, ast.FunctionDef, ast.AsyncFunctionDef)
    assert not [f"{where}: {f.name}" for where, f in found if f.end_lineno - f.lineno >= FUNCTION_LINES_MAX]


def test_classes_have_few_attributes():
    found = nodes(SOURCES, ast.ClassDef)
    assert not [f"{where}: {c.name}" for where, c in found if len(attributes(c)) > ATTRIBUTES_MAX]


def attributes(node):
    """Fields of a class, and what its methods assign to `self`."""
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    found = {each.target.id for each in fields if "ClassVar" not in ast.unparse(each.annotation)}
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            found |= {each.attr for each in ast.walk(method) if is_stored_in_self(each)}
    return found


def is_stored_in_self(node):
    is_stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    return is_stored and isinstance(node.value, ast.Name) and node.value.id == "self"


def test_a_public_class_name_stands_for_one_thing():
    paths = [path for path in SOURCES if path.relative_to(PACKAGE).parts[0] in {"core", "server", "client"}]
    names = Counter(n.name for path in paths for n in parsed(path).body if isinstance(n, ast.ClassDef))
    assert not [name for name, count in sorted(names.items()) if count > 1 and not name.startswith("_")]


def test_nothing_prints_but_the_command_line():
    calls = nodes(SOURCES, ast.Call)
    assert not [f"{where}:{c.lineno}" for where, c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]


def test_the_core_reads_no_clock_and_draws_no_random_number():
    """The import contract says so too; this also sees imports inside functions and `__import__`."""
    imported = [(where, alias.name) for where, node in nodes(CORE, ast.Import) for alias in node.names]
    imported += [(where, node.module or "") for where, node in nodes(CORE, ast.ImportFrom)]
    assert not [f"{where}: {module}" for where, module in imported if module.partition(".")[0] in IMPURE]
    assert not [where for where, node in nodes(CORE, ast.Name) if node.id == "__import__"]


def test_a_test_module_has_a_name_of_its_own():
    """Tests are no packages, so that two modules of one name cannot be collected together."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name, count in sorted(names.items()) if count > 1]


def test_no_module_is_named_after_nothing():
    assert not [path for path in SOURCES if path.stem in {"utils", "util", "helpers", "common", "misc", "manager"}]


def test_hosts_and_ports_are_told_apart_in_one_place():
    """`[::1]:7000` has more than one colon, and brackets that are no part of its host."""
    split = re.compile(r"""rpartition\(["']:["']\)|rsplit\(["']:["']""")
    assert [path for path in SOURCES if split.search(path.read_text())] == [PACKAGE / "net" / "addresses.py"]


def test_a_set_of_message_types_has_one_name_and_a_name_one_set():
    """Those that several modules ask about are in core/messages/kinds.py."""
    sets = [found for path in SOURCES for found in TYPES.findall(path.read_text())]
    assert len(sets) > 10
    for each in zip(*sets, strict=True):
        assert sorted(set(each)) == sorted(each)


def test_packages_say_what_is_in_them_and_what_they_may_import():
    unsaid = {
        str(path.parent.relative_to(PACKAGE)) for path in SOURCES if path.name == "__init__.py" and says_little(path)
    }
    assert sorted(unsaid) == [], "a docstring of two sentences at least"


def says_little(path):
    return len(re.findall(r"[.!?](?:\s|$)", ast.get_docstring(parsed(path)) or "")) < 2


def test_the_tree_in_the_architecture_is_that_of_the_code():
    """`python tools/rooms.py tree` prints it."""
    shown, real = rooms.tree_in((ROOT / "ARCHITECTURE.md").read_text()), rooms.tree()
    assert sorted(set(real) - set(shown)) == [], "not shown"
    assert shown == sorted(set(shown)), "shown twice"
    assert sorted(set(shown) - set(real)) == [], "shown, and not there"


def test_the_printed_tree_is_read_back():
    assert rooms.tree_in(f"before\n\n{rooms.tree_block()}\nafter\n") == rooms.tree()
    rows = ["  core/   pure", "    broker.py   one broker", "    events/  filters", "      · event.py", "  · errors.py"]
    drawn = "\n".join(["```text", "src/pleach/", *rows, "```", ""])
    assert rooms.tree_in(drawn) == ["core/", "core/broker.py", "core/events/", "core/events/event.py", "errors.py"]


def test_every_example_is_named_in_the_documentation():
    documented = "".join(p.read_text() for p in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
    missing = [p.name for p in sorted((ROOT / "examples").glob("*.toml")) if p.name not in documented]
    assert not missing


def test_links_between_documents_lead_somewhere():
    named = [(page, target) for page in PAGES for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())]
    assert not [f"{page.name}: {target}" for page, target in named if not (page.parent / target).exists()]
