"""The code blocks of a page: which there are, and what is to be done with each.

    ```sh, ```python      run, in the order of the page, in one folder
    ```console            what follows `$ ` is run, and the rest is what it prints (`…` stands for anything)
    ```toml               a scenario is simulated and judged; settings of a broker are validated
    ```json               is JSON
    ```text, ``` and any other language: not code of ours

A comment right before a block changes that:

    <!-- not run: REASON -->       is left out
    <!-- slow: REASON -->          is left to the long tests
    <!-- run first: … -->          is itself a block of sh that readers do not see
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
RUN = frozenset({"sh", "python", "console"})
CHECKED = frozenset({"toml", "json"})
COMMANDS = re.compile(r"^\s*(\$ |(nice |sudo )*(pleach|python3?|make|pip|curl) )", re.MULTILINE)

PIECES = re.compile(
    r"^<!-- run first:\n(?P<hidden>.*?)^-->$"
    r"|^<!-- (?P<word>not run|slow):(?P<reason>[^>]*)-->\n+(?=```|    ```)"
    r"|^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


class Fate(StrEnum):
    RUN = "run"
    SLOW = "slow"
    NOT_RUN = "not run"


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str
    fate: Fate
    reason: str

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page):
    """In order; hidden ones are of language `sh`."""
    text = page.read_text()
    found, fate, reason = [], Fate.RUN, ""
    for piece in PIECES.finditer(text):
        line = text.count("\n", 0, piece.start()) + 1
        if piece["word"]:
            fate, reason = Fate(piece["word"]), piece["reason"].strip()
            continue
        language = "sh" if piece["hidden"] is not None else piece["language"]
        body = piece["text"] if piece["hidden"] is None else piece["hidden"]
        found.append(Block(page, line, language, body, fate, reason))
        fate, reason = Fate.RUN, ""
    return found
