"""The matrix of features, docs/reference/matrix.md: every pair in every world, made from what the tests use.

`python tools/matrix.py` writes it anew (`make reference`); a test says when it has gone stale.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.everything.covering import rows  # noqa: E402
from support.everything.explored import NOT_EXPLORED, explored_pairs  # noqa: E402
from support.everything.features import Feature, Pair, why_not  # noqa: E402
from support.everything.live import NOT_LIVE, live_pairs, live_rows  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "matrix.md"
BEGIN, END = "<!-- begin matrix -->\n", "<!-- end matrix -->\n"

NUMBERS = """\
Any {plain} seeds in a row have every pair that goes together without standbys, any {replicated} every one with them,
and {live} scenarios every one that processes may have.
"""

Cell = Callable[[Pair], str]


class Reasons:
    """Reasons by number, in the order in which they are first given."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, reason: str) -> str:
        return str(self._numbers.setdefault(reason, len(self._numbers) + 1))

    def lines(self) -> Iterator[str]:
        yield from (f"{number}. {reason}" for reason, number in self._numbers.items())


def page(text: str) -> str:
    """The page with its generated part made anew; all else is written by hand."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + _tables() + END + rest.partition(END)[2]


def _tables() -> str:
    reasons = Reasons()
    columns = (_simulated(reasons), _elsewhere(reasons, explored_pairs(), NOT_EXPLORED, lambda _: "e"), _live(reasons))
    plain, replicated = len(rows(standby=False)), len(rows(standby=True))
    parts = [NUMBERS.format(plain=plain, replicated=replicated, live=len(live_rows()))]
    for index, feature in enumerate(Feature):
        others = list(Feature)[index + 1 :]
        if others:
            lines = (_line(frozenset({feature, other}), other, columns) for other in others)
            table = "\n".join(["| with | simulator | explorer | live |", "|---|---|---|---|", *lines])
            parts.append(f"## {feature}\n\n{table}\n")
    parts.append("## Reasons\n\n" + "\n".join(reasons.lines()) + "\n")
    return "\n".join(parts)


def _line(pair: Pair, other: Feature, columns: tuple[Cell, ...]) -> str:
    return f"| {other} | " + " | ".join(cell(pair) for cell in columns) + " |"


def _first_row(pair: Pair, array: tuple[frozenset[Feature], ...]) -> int | None:
    return next((number for number, row in enumerate(array) if pair <= row), None)


def _simulated(reasons: Reasons) -> Cell:
    def cell(pair: Pair) -> str:
        if reason := why_not(pair):
            return reasons.number(reason)
        plain, replicated = (_first_row(pair, rows(standby=standby)) for standby in (False, True))
        return f"s{plain}" if plain is not None else f"t{replicated}"

    return cell


def _elsewhere(reasons: Reasons, tested: tuple[Pair, ...], left_out: dict[Feature, str], tell: Cell) -> Cell:
    def cell(pair: Pair) -> str:
        if pair in tested:
            return tell(pair)
        reason = why_not(pair) or next((left_out[each] for each in sorted(pair) if each in left_out), "")
        assert reason, f"{pair} is not tested, and nothing says why"
        return reasons.number(reason)

    return cell


def _live(reasons: Reasons) -> Cell:
    return _elsewhere(reasons, live_pairs(), NOT_LIVE, lambda pair: f"r{_first_row(pair, live_rows())}")


def all_pairs() -> Iterator[Pair]:
    return map(frozenset, combinations(Feature, 2))


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
