"""docs/protocols/: the page of each exchange protocol has its table of transitions, as the code has it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import pytest

from pleach.core.overlay.exchange.contract import Start, TimerDue
from pleach.core.overlay.registry import CYCLES

PAGES = Path(__file__).parents[4] / "docs" / "protocols"
PROTOCOLS = ("strawman", "deferred", "coordinated", "informed", "path", "advanced-coordinated")
ROLES = {"HEAD": "between u and x", "TAIL": "between y and v"}
WORDS = {Start: "all are locked", TimerDue: "timer"}
HEAD = "| at | phase | input | next phase |\n|---|---|---|---|\n"


def words(cause):
    if isinstance(cause, Enum):
        return "`Separator` " + cause.name.lower().replace("_", " ")
    return WORDS.get(cause) or f"`{cause.__name__}`"


def rendered(transitions):
    """One line for all roles that do the same."""
    lines = {}
    for (role, phase, cause), after in transitions.items():
        lines.setdefault((phase, cause, after), []).append(ROLES.get(role.name, role.name.lower()))
    rows = [
        (", ".join(roles), phase, words(cause), " or ".join(after)) for (phase, cause, after), roles in lines.items()
    ]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_page_has_the_table_of_the_code(protocol):
    assert rendered(CYCLES[protocol].TRANSITIONS) in (PAGES / f"{protocol}.md").read_text()
