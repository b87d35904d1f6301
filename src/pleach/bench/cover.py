"""The speed of the cover index, against a scan of all members with `covers` of the algebra.

Half of the queries are about random filters, which match nothing; the other half about members made narrower ("is it
covered?") or wider ("what does it cover?"), which have answers. The scan is timed on a sample of the members and scaled
to all of them; it does not stop at its first answer, as `any_covering` does. The answers of some queries are checked
against the scan of all members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import NamedTuple

from pleach.bench.measurement import Measurement, collector_paused, compare, seconds_per_item
from pleach.bench.workloads import W1
from pleach.core.events.algebra import covers
from pleach.core.events.constraint import Conjunction, Constraint, TypeConstraint
from pleach.core.events.cover_index import CoverIndex
from pleach.core.events.filter import Filter
from pleach.core.events.ranges import above

BARS = {10_000: 40.0, 100_000: 100.0}  # times the scan, by members

ADDS_LIMIT = 1_000  # per second; reported without a bar


class CoverSize(NamedTuple):
    sizes: tuple[int, ...]
    questions: int
    scanned_questions: int
    scanned_members: int
    checked_questions: int
    rounds: int


QUICK = CoverSize((10_000, 100_000), 60, 6, 2_000, 2, 3)
FULL = CoverSize((10_000, 100_000), 400, 20, 5_000, 6, 5)


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:
    yield from measure(QUICK if quick else FULL, seed)


def measure(effort: CoverSize, seed: int) -> Iterator[Measurement]:
    for size in effort.sizes:
        with collector_paused():
            members = list(islice(W1.filters(Random(seed)), size))
            index = CoverIndex(members)
        unrelated = list(islice(W1.filters(Random(seed + 1)), effort.questions // 2))
        related = Random(seed + 2).sample(members, effort.questions // 2)
        narrow = _alternating(unrelated, [_narrower(member) for member in related])
        wide = _alternating(unrelated, [_wider(member) for member in related])
        bench = _Bench(members, effort)
        yield bench.question("is f covered", narrow, index.any_covering, _scan_for_covering)
        yield bench.question("what does f cover", wide, index.covered, _scan_for_covered)
        yield _adding(index, size, unrelated)


def _adding(index: CoverIndex, size: int, fresh: list[Filter]) -> Measurement:
    rate = 1 / seconds_per_item(index.add, fresh)
    case = f"{size:,} members, adding one"
    return Measurement("cover", case, rate, "adds/s", f"limit of {ADDS_LIMIT:,}/s", rate / ADDS_LIMIT, None, ok=True)


class _Bench:
    def __init__(self, members: list[Filter], effort: CoverSize) -> None:
        self._members = members
        self._effort = effort

    def question(
        self,
        name: str,
        probes: list[Filter],
        ask: Callable[[Filter], Filter | list[Filter] | None],
        scan: Callable[[list[Filter], Filter], list[Filter]],
    ) -> Measurement:
        effort, size = self._effort, len(self._members)
        for probe in probes[: effort.checked_questions]:
            _check(ask(probe), scan(self._members, probe))
        sample = self._members[: effort.scanned_members]
        scanned = probes[: effort.scanned_questions]
        result = compare(ask, probes, lambda probe: scan(sample, probe), scanned, rounds=effort.rounds)
        ratio = result.ratio * size / len(sample)
        bar = BARS.get(size)
        against = f"scan with covers ({len(sample):,} of {size:,} members, scaled)"
        ok = bar is None or ratio >= bar
        case = f"{size:,} members, {name}"
        return Measurement("cover", case, 1 / result.seconds, "questions/s", against, ratio, bar, ok)


def _check(answer: Filter | list[Filter] | None, wanted: list[Filter]) -> None:
    """Check the answers. `answer` is one of the wanted, or all of them."""
    match answer:
        case None:
            assert not wanted, wanted
        case Filter():
            assert answer in wanted, answer
        case _:
            assert answer == wanted, answer


def _scan_for_covering(members: list[Filter], probe: Filter) -> list[Filter]:
    return [member for member in members if member != probe and covers(member, probe)]


def _scan_for_covered(members: list[Filter], probe: Filter) -> list[Filter]:
    return [member for member in members if member != probe and covers(probe, member)]


def _alternating(first: list[Filter], second: list[Filter]) -> list[Filter]:
    return [item for pair in zip(first, second, strict=True) for item in pair]


def _narrower(member: Filter) -> Filter:
    """The member with one more attribute constrained."""
    (conjunction,) = member.conjunctions
    return Filter(
        [Conjunction({**conjunction.constraints, "z": Constraint(TypeConstraint.NUMBER, above(0, inclusive=True))})]
    )


def _wider(member: Filter) -> Filter:
    """The member with one attribute less."""
    (conjunction,) = member.conjunctions
    return Filter([Conjunction(dict(list(conjunction.constraints.items())[1:]))])
