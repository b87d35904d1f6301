"""docs/tutorials/own-protocol.md: what it prints is the file that is run, and that is about 50 lines."""

from support.docs.blocks import ROOT, blocks_of

EXAMPLE = ROOT / "examples" / "protocols" / "gates.py"
LINES_MAX = 55


def test_the_page_prints_the_file():
    printed = [b.text for b in blocks_of(ROOT / "docs" / "tutorials" / "own-protocol.md") if b.language == "python"]
    assert printed == [EXAMPLE.read_text()]


def test_it_is_about_fifty_lines():
    assert len([line for line in EXAMPLE.read_text().splitlines() if line.strip()]) <= LINES_MAX
