"""The glossary names code that is there, and stays short enough to be read."""

import re
from importlib import import_module
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs/reference/glossary.md").read_text()
LINES_MAX = 90  # two screens
NAMES = sorted({name for name in re.findall(r"`([a-z_]+(?:\.[A-Za-z_]+)*)`", PAGE) if name != "shift"})
RETIRED = r"\b(roads|kinsfolk|mourners?|doom|lodgings|suffering|lifeline|strands?|_at_home|hear_birth|Layers)\b"


def test_it_is_short():
    assert len(PAGE.splitlines()) <= LINES_MAX


def test_what_it_names_can_be_imported():
    assert len(NAMES) > 30
    for name in NAMES:
        module, _, last = f"pleach.{name}".rpartition(".")
        if last[0].isupper():
            assert hasattr(import_module(module), last), name
        else:
            import_module(f"pleach.{name}")


def test_words_that_it_replaces_are_gone_from_the_code():
    source = Path(__file__).parents[2] / "src"
    found = {path.name: re.findall(RETIRED, path.read_text()) for path in source.rglob("*.py")}
    assert not {name: words for name, words in found.items() if words}
