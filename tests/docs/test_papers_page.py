"""docs/explanation/papers.md: every test and example that is to show something is there."""

import re

from pleach.lab.registry import EXPERIMENTS
from support.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "explanation" / "papers.md").read_text()


def test_what_is_named_as_evidence_exists():
    named = re.findall(r"\b(?:tests|examples)/[\w/.-]+\.(?:py|toml)\b", PAGE)
    assert len(named) > 15
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_experiments_named_exist():
    named = re.findall(r"pleach lab run ([\w-]+)", PAGE)
    assert len(named) > 4
    assert not [name for name in named if name not in EXPERIMENTS]


def test_every_refutation_names_what_shows_it():
    rows = re.search(r"## What does not hold\n\n(.*?)\n\n## ", PAGE, re.DOTALL)[1].splitlines()[2:]
    assert len(rows) > 20
    assert not [row for row in rows if not re.search(r"`|\]\(|the same", row.split(" | ")[2])]
