"""Cases as files: the scenario as TOML, as `pleach sim` reads it, with a table `[beside]` where it has anything there.

A file without that table is an ordinary scenario. `read_case` reads both; the seed stands in a comment.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import msgspec

from pleach.scenario.load import parse_scenario
from pleach.scenario.write import assignments, plain, scenario_text
from support.everything.case import NOTHING, Beside, Case

SEED = re.compile(r"^# seed = (\d+)$", re.MULTILINE)
BESIDE = "[beside]"


def write_case(case: Case, path: Path) -> None:
    path.write_text(case_text(case))


def case_text(case: Case) -> str:
    about = [f"# features: {', '.join(case.features)}"] if case.features else []
    parts = [f"# seed = {case.seed}", *about, scenario_text(case.scenario)]
    if case.beside != NOTHING:
        parts.append(f"{BESIDE}\n" + assignments(plain(case.beside)))
    return "\n".join(parts)


def read_case(path: Path) -> Case:
    text = path.read_text()
    described, has_beside, rest = text.partition(BESIDE)
    beside = msgspec.convert(tomllib.loads(has_beside + rest).get("beside", {}), Beside)
    seed = SEED.search(text)
    return Case(seed=int(seed[1]) if seed else 1, scenario=parse_scenario(described, str(path)), beside=beside)
