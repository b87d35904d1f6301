"""The page of what became of a draw: docs/results/mutants.md, from the rows beside it and the reasons of survivors.

mutants.csv has a row for each mutant, mutants.toml says of each that is alive why: `equivalent`, where no test could
tell it from the code, or `gap`, where one could and none does.
"""

from __future__ import annotations

import csv
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path

from mutation.campaign import DEAD, Campaign, Stage
from mutation.draw import Mutant
from mutation.execution import Outcome, Verdict

RESULTS = Path(__file__).parents[2] / "docs" / "results"
ROWS, REASONS, PAGE = RESULTS / "mutants.csv", RESULTS / "mutants.toml", RESULTS / "mutants.md"
TEXT_MAX = 90  # characters of code in a table


class Why(StrEnum):
    EQUIVALENT = "equivalent"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class Row:
    number: int
    path: str
    line: int
    scope: str
    operator: str
    before: str
    after: str
    verdict: str  # killed, timeout, alive
    stage: str
    test: str
    round: int  # 1: by the tests that there were; later ones: by those written since

    @property
    def room(self) -> str:
        return str(Path(self.path).parent)

    @property
    def is_dead(self) -> bool:
        return self.verdict in DEAD


@dataclass(frozen=True, slots=True)
class Reason:
    why: Why
    because: str


def rows_of(campaigns: Iterable[Campaign]) -> list[Row]:
    """Every mutant of the first draw; what a later one says of its survivors counts instead."""
    found = dict[int, Row]()
    for number, campaign in enumerate(campaigns, start=1):
        dead = campaign.dead()
        found.update({each: _row(mutant, dead.get(each), number) for each, mutant in campaign.mutants.items()})
    return [found[number] for number in sorted(found)]


def _row(mutant: Mutant, dead: Verdict | None, number: int) -> Row:
    site = mutant.site
    verdict = dead or Verdict(mutant.number, Outcome.ALIVE)
    texts = (" ".join(text.split()) for text in (site.before, site.after))
    return Row(
        mutant.number, site.path, site.line, site.scope, site.operator, *texts, verdict.outcome, verdict.stage,
        verdict.test.partition("[")[0] or verdict.said, number,
    )  # fmt: skip


def write_rows(rows: Iterable[Row]) -> None:
    with ROWS.open("w", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def read_rows() -> list[Row]:
    with ROWS.open(newline="") as file:
        numbers = ("number", "line", "round")
        return [Row(**{**row, **{name: int(row[name]) for name in numbers}}) for row in csv.DictReader(file)]


def read_reasons() -> tuple[Mapping[str, object], dict[int, Reason]]:
    """What the file says of the draw itself, and the reasons by mutant."""
    found = tomllib.loads(REASONS.read_text())
    reasons = {row["number"]: Reason(Why(row["why"]), " ".join(row["because"].split())) for row in found["mutant"]}
    return found["draw"], reasons


def renewed() -> str:
    """The page, as the files beside it have it."""
    draw, reasons = read_reasons()
    return page_of(draw, read_rows(), reasons)


def page_of(draw: Mapping[str, object], rows: list[Row], reasons: Mapping[int, Reason]) -> str:
    alive = [row for row in rows if not row.is_dead]
    equivalent = [row for row in alive if row.number in reasons and reasons[row.number].why is Why.EQUIVALENT]
    gaps = [row for row in alive if row.number in reasons and row not in equivalent]
    undecided = [row for row in alive if row.number not in reasons]
    killed = len(rows) - len(alive)
    changing = killed + len(gaps)
    before = sum(row.is_dead and row.round == 1 for row in rows)
    counts = {"count": len(rows), "killed": killed, "changing": changing, "equivalent": len(equivalent)}
    shares = {"share": 100 * killed / changing, "before": before, "share_before": 100 * before / changing}
    least = 100 * killed / (changing + len(undecided))
    parts = [
        OPENING.format(**draw, **counts, **shares),
        *([UNDECIDED.format(undecided=len(undecided), least=least)] if undecided else []),
        CLOSING.format(**draw),
        "## How they were killed\n",
        _table(("", "mutants"), _ways(rows)),
        "## By room\n",
        _table(("room", "drawn", "killed", "equivalent", "other"), _by(rows, equivalent, "room")),
        "## By operator\n",
        _table(("operator", "drawn", "killed", "equivalent", "other"), _by(rows, equivalent, "operator")),
        "## Alive, and a test could tell\n",
        _table(("", "where", "change", "why nothing notices"), _survivors(gaps, reasons)),
        "## Alive, and no test could tell\n",
        _table(("", "where", "change", "because"), _survivors(equivalent, reasons)),
        "## Not decided\n",
        _table(("", "where", "change"), [(row.number, _where(row), _change(row)) for row in undecided]),
        "## Killed by tests that were written for them\n",
        _table(("", "where", "change", "test"), _later(rows)),
    ]
    return "\n".join(parts)


OPENING = """# Mutants

How strong are the tests? {count} small changes were drawn from `core/` and `server/` by seed {seed}, spread over rooms
and operators, and tests of `make test` run against each. Of {changing} that change what the code does, tests
notice {killed}: **{share:.1f}%**. Those that there were at the draw noticed {before}, {share_before:.1f}%; for the rest
tests were written since. {equivalent} more change nothing that a test could see.
"""
UNDECIDED = """Another **{undecided} are not decided**: tests that were tried pass, or none was tried yet. If none
noticed them, {least:.1f}% would be killed.
"""
CLOSING = """{about}

`tools/mutants.py` draws and runs ([CONTRIBUTING.md](../../CONTRIBUTING.md)); its `page` makes this page from
[mutants.csv](mutants.csv), all rows, and [mutants.toml](mutants.toml), the reasons.
"""


def _ways(rows: list[Row]) -> list[tuple[object, ...]]:
    killed = Counter((row.verdict, row.stage) for row in rows if row.is_dead)
    names = {
        Stage.QUICK: "tests of `make check`",
        Stage.PURE: "further tests that only compute",
        Stage.LIVE: "tests of real brokers",
    }
    found = [(f"killed by {names[stage]}", killed[Outcome.KILLED, stage]) for stage in Stage]
    endless = sum(killed[Outcome.TIMEOUT, stage] for stage in Stage)
    return [*found, ("a test did not end", endless), ("alive, or not decided", sum(not row.is_dead for row in rows))]


def _by(rows: list[Row], equivalent: list[Row], name: str) -> list[tuple[object, ...]]:
    def count(those: Iterable[Row]) -> Counter[str]:
        return Counter(getattr(row, name) for row in those)

    drawn, killed, same = count(rows), count(row for row in rows if row.is_dead), count(equivalent)
    left = drawn - killed - same
    return [(f"`{key}`", drawn[key], killed[key], same[key], left[key]) for key in sorted(drawn)]


def _survivors(rows: list[Row], reasons: Mapping[int, Reason]) -> list[tuple[object, ...]]:
    return [
        (row.number, _where(row), _change(row), reasons[row.number].because if row.number in reasons else "")
        for row in rows
    ]


def _later(rows: list[Row]) -> list[tuple[object, ...]]:
    return [(row.number, _where(row), _change(row), f"`{row.test}`") for row in rows if row.is_dead and row.round > 1]


def _where(row: Row) -> str:
    return f"`{row.path}` `{row.scope}`"


def _change(row: Row) -> str:
    texts = [text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…" for text in (row.before, row.after)]
    return " → ".join(f"`` {text} ``".replace("|", "\\|") for text in texts)


def _table(names: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    if not rows:
        return "None.\n"
    lines = [names, ("---",) * len(names), *rows]
    return "".join(f"| {' | '.join(str(cell) for cell in line)} |\n" for line in lines)
