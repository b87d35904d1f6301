"""The long runs that documents name exist, with the options that they are given there."""

import re
from pathlib import Path

import pytest

from long_run import AREAS, parsed
from support.long_runs import output

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "Makefile", *ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
NAMED = re.compile(r"tests/long_run\.py ([a-z][^`\n#;|)]*)")


def commands():
    return sorted({found.strip() for page in PAGES for found in NAMED.findall(page.read_text())})


def test_documents_name_long_runs():
    assert len(commands()) > 20


@pytest.mark.parametrize("command", [pytest.param(command, id=command) for command in commands()])
def test_a_command_of_a_document_is_understood(command):
    assert parsed(command.split()).area in AREAS


@pytest.mark.parametrize("area", AREAS)
def test_an_area_has_options_and_a_run(area):
    if area != "pictures":
        assert parsed([area]).area == area
    else:
        assert parsed([area, "docs/images"]).folder == Path("docs/images")


def test_a_replay_command_is_understood():
    words = output.replay_command("overlay", 4711, "--exchange", "swaplink-published").split()
    assert words[:2] == ["python", "tests/long_run.py"]
    assert (options := parsed(words[2:])).first == 4711
    assert options.seeds == 1
