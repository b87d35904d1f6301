"""Mutation testing itself: which changes there are, how they are drawn, put in, reached, judged, and reported."""

import importlib.util
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mutation import page
from mutation.campaign import Campaign, Reach, Stage
from mutation.draw import Mutant, draw, found_again, modules, write
from mutation.execution import Timed
from mutation.reach import copy_with_notes
from mutation.sites import sites
from mutation.swap import NotSwappableError, swap_in

PACKAGE = Path(__file__).parents[2] / "src" / "pleach"

CHANGES = [
    ("if a: b()", "negate", "a", "(not (a))"),
    ("x = not (a or b)", "negate", "not (a or b)", "(a or b)"),
    ("x = [a for a in b if c]", "negate", "c", "(not (c))"),
    ("x = (a + b) < c", "compare", "a + b) < c", "a + b) <= c"),
    ("x = a is not b", "compare", "a is not b", "a is b"),
    ("x = a not in (b, c)", "element", "(b, c)", "(c,)"),
    ("x = a or (b and c)", "and/or", "a or (b and c", "a and (b and c"),
    ("x = a + 'b'", "arithmetic", "a + 'b'", "a - 'b'"),
    ("x = any(a)", "twin", "any", "all"),
    ("x = f(a, *b, c)", None, None, None),
    ("x = f(a, b, c)", "arguments", "a, b", "b, a"),
    ("x = {a, b}", "element", "{a, b}", "{b,}"),
    ("x = {a: b, **c}", "element", "{a: b, **c}", "{**c}"),
    ("f(a)", "drop", "f(a)", "pass"),
    ("raise f(a, b)", "drop", "raise f(a, b)", "pass"),
    ("def f(): self.x = a", "drop", "self.x = a", "pass"),
    ("def f(): yield a", "drop", "yield a", "pass"),
    ("def f(): return a", "return", "a", "None"),
    ("def f(): return a[1]", "constant", "1", "2"),
    ("x = False", "constant", "False", "True"),
    ("for x in y: break", "loop", "break", "continue"),
    ("match a:\n case b.C(): f\n case _: g", "case", "b.C()", "b.C() if False"),
    ("match a:\n case b() if c: f", "case", "c", "False"),
    ("match a:\n case b() | c(): f", "element", "b() | c()", "(c())"),
]

LEFT_OUT = [
    '"""A text, with 1 and True."""',
    "x: frozenset[A, B]",
    "x: TypeAlias = A | B",
    "log.info(a, b)",
    "assert a + b",
    "assert_never(a)",
    "NUMBER_MAX = 7",
    "class A:\n    least: int = 7",
    "x = f'{a + b}'",
    "if TYPE_CHECKING: f(a, b)",
    "a, b = b, a",
    "def f(a: A[1]) -> B[2]: pass",
    "class A:\n    def __repr__(self): return f(a, b)",
]


@pytest.mark.parametrize(("source", "operator", "before", "after"), CHANGES)
def test_each_operator_finds_its_place(source, operator, before, after):
    found = [(each.operator, each.before, each.after) for each in sites("m.py", source)]
    assert (operator, before, after) in found or (operator is None and not found)


@pytest.mark.parametrize("source", LEFT_OUT)
def test_what_no_test_should_have_to_notice_is_left_alone(source):
    assert sites("m.py", source) == []


def test_a_change_keeps_the_lines_and_is_another_program():
    stream = random.Random(1)
    for path, source in stream.sample(sorted(modules(PACKAGE).items()), 8):
        for site in stream.sample(found := sites(path, source), min(10, len(found))):
            assert site.applied(source).count("\n") == source.count("\n"), site
            assert site.applied(source) != source


def test_letters_of_two_bytes_move_nothing():
    (site,) = [each for each in sites("m.py", "x = 'ä→' + y; f(a)") if each.operator == "drop"]
    assert site.applied("x = 'ä→' + y; f(a)") == "x = 'ä→' + y; pass"


# The draw --------------------------------------------------------------------------------------------------------


def test_a_seed_draws_the_same_again_from_every_room():
    drawn = draw(PACKAGE, 5, 60)
    assert drawn == draw(PACKAGE, 5, 60)
    assert drawn != draw(PACKAGE, 6, 60)
    assert len({each.number for each in drawn}) == 60
    assert {each.room for each in drawn} == {str(Path(path).parent) for path in modules(PACKAGE)}
    assert max(Counter((each.site.path, each.site.line) for each in drawn).values()) == 1


def test_a_mutant_is_found_again_where_its_file_has_changed(tmp_path):
    (tmp_path / "core").mkdir()
    module = tmp_path / "core" / "m.py"
    module.write_text("def f(a):\n    return a + 1\n\n\ndef g(a):\n    return a + 1\n")
    (site,) = [s for s in sites("core/m.py", module.read_text()) if (s.scope, s.operator) == ("g", "arithmetic")]
    mutant = Mutant(1, site)
    module.write_text("import os\n\n" + module.read_text())
    assert found_again(mutant, tmp_path).site.line == mutant.site.line + 2
    module.write_text("def f(a):\n    return a + 1\n")
    assert found_again(mutant, tmp_path) is None


# Putting it in ---------------------------------------------------------------------------------------------------


@pytest.fixture
def imported(tmp_path):
    """A module of a few functions, imported."""
    path = tmp_path / "swapped.py"
    path.write_text("LEAST = 1 + 1\n\n\ndef above(a):\n    return [b for b in a if b > LEAST]\n")
    spec = importlib.util.spec_from_file_location("swapped", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, module


def changed(path, operator):
    source = path.read_text()
    return next(site for site in sites(path.name, source) if site.operator == operator).applied(source)


def test_functions_that_others_hold_already_do_what_is_changed(imported):
    path, module = imported
    held = module.above
    assert held([1, 2, 3]) == [3]
    swap_in(str(path), changed(path, "compare"))
    assert held([1, 2, 3]) == [2, 3]


def test_what_a_module_did_when_it_was_imported_cannot_be_changed_afterwards(imported):
    path, _ = imported
    with pytest.raises(NotSwappableError):
        swap_in(str(path), changed(path, "arithmetic"))


# A campaign ------------------------------------------------------------------------------------------------------


def test_tests_that_cost_little_and_reach_little_come_first():
    reach = Reach({1: {"all", "slow", "own", "failed"}, 2: {"all"}, 3: {"all"}}, {"all": 0.1, "slow": 9, "own": 0.1})
    assert reach.order(1) == [Timed("own", 0.1), Timed("all", 0.1), Timed("slow", 9)]


SOURCE = """LEAST = f(2, 1) if (f := max) else 0


def above(a):
    if a is None:
        raise ValueError
    return a > LEAST


def greeting(a):
    return "hello" if a else "hello"
"""
TESTS = """import os
import pytest
from pleach.core.m import above, greeting

def test_above():
    assert above(3) and not above(2)

def test_greeting():
    assert greeting(1) == "hello"

def test_that_fails_anyway():
    assert above(3) and os.environ.get("never")
"""


@pytest.fixture
def campaign(tmp_path):
    """All changes of a module of two functions, with its tests."""
    package = tmp_path / "tree" / "src" / "pleach"
    for folder in (package, package / "core", package / "server"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    (package / "core" / "m.py").write_text(SOURCE)
    (tmp_path / "tree" / "tests").mkdir()
    (tmp_path / "tree" / "tests" / "test_m.py").write_text(TESTS)
    (tmp_path / "tree" / "pytest.ini").write_text("[pytest]\nmarkers = live\n browser\n spark\n slow\n")
    write([Mutant(n, site) for n, site in enumerate(sites("core/m.py", SOURCE), start=1)], tmp_path / "drawn.jsonl")
    return Campaign(tmp_path)


@pytest.mark.heavy
def test_a_campaign_says_who_killed_what(campaign):
    campaign.run(Stage.PURE, workers=1)
    by_scope = Counter(
        (campaign.mutants[number].site.scope, verdict.test) for number, verdict in campaign.dead().items()
    )
    above = "tests/test_m.py::test_above"
    assert by_scope["above", above] == 4  # negated, compared otherwise, nothing returned, and with `is not`
    assert by_scope["", above] == 1  # what is done at import, in a process of its own
    alive = campaign.mutants.keys() - campaign.dead().keys()
    kinds = Counter((campaign.mutants[number].site.scope, campaign.mutants[number].site.operator) for number in alive)
    assert kinds == {("above", "drop"): 1, ("greeting", "negate"): 1, ("", "arguments"): 1}
    assert not [verdict for verdict in campaign.verdicts() if "fails_anyway" in verdict.test]
    before = campaign.verdicts()
    campaign.run(Stage.PURE, workers=1)
    assert campaign.verdicts() == before  # nothing is done twice


def test_a_copy_that_notes_what_is_reached_is_otherwise_the_same(tmp_path):
    drawn = [mutant for mutant in draw(PACKAGE, 3, 40) if mutant.site.path.startswith("core")]
    copy_with_notes(drawn, PACKAGE.parent, tmp_path)
    for path in {mutant.site.path for mutant in drawn}:
        text = (tmp_path / "pleach" / path).read_text()
        compile(text, path, "exec")
        noted = re.compile(r"^ *__import__\(\"mutation_notes\"\)\.reached\(\d+\)\n", re.MULTILINE)
        assert noted.search(text)
        assert noted.sub("", text) == (PACKAGE / path).read_text()


# The page --------------------------------------------------------------------------------------------------------


def test_the_page_is_up_to_date():
    assert page.PAGE.read_text() == page.renewed(), "give `python tools/mutants.py page`, and commit what it writes"


def test_reasons_are_given_for_survivors_only():
    _, reasons = page.read_reasons()
    assert reasons.keys() <= {row.number for row in page.read_rows() if not row.is_dead}
    assert not [number for number, reason in reasons.items() if len(reason.because) < 20]


def test_the_page_counts_what_changes_behaviour():
    row = page.Row(1, "core/m.py", 1, "f", "drop", "a | b", "pass", "killed", "quick", "tests/t.py::t", 1)
    rows = [row, replace(row, number=2, verdict="alive"), replace(row, number=3, verdict="timeout", round=2)]
    reasons = {2: page.Reason(page.Why.GAP, "nobody asks")}
    assert "66.7%" in page.page_of({"seed": 1, "about": ""}, rows, reasons)
    text = page.page_of({"seed": 1, "about": ""}, rows, {2: page.Reason(page.Why.EQUIVALENT, "all the same")})
    assert "**100.0%**" in text
    assert "Another" not in text
    assert "Another **1 are not decided**" in page.page_of({"seed": 1, "about": ""}, rows, {})
    assert "a \\| b" in text
