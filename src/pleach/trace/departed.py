"""What was lost with brokers that never returned, told from what was lost otherwise: from the trace alone.

A copy of an event *died* with broker x on its way to y if x had sent it and y never got it (a `fault` record of x,
with y as peer and the event). Somebody *still had* the event for x if it was sent to x and not confirmed (a `state`
record of that node, made when x got its stand-in). Then

    lost(c, e) is set apart if a copy of e died with some x on its way to y, c was behind y as seen from x,
    and nobody still had e for x; or the stand-in gave e up for the sake of order, and said so.

Who is behind whom, the trace does not say: the tree is given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Rule, Violation

DIED: Final = "died with it"
HELD: Final = "still has it"
GIVEN_UP: Final = "given up"  # how the detail begins

IsBehind: TypeAlias = Callable[[str, str, str], bool]  # as seen from x, is client c behind neighbour y, or is it y?


class Departed(NamedTuple):
    """Violations, parted. `with_brokers`: sat solely on brokers that never returned. `for_order`: given up for it."""

    with_brokers: tuple[Violation, ...]
    for_order: tuple[Violation, ...]
    rest: tuple[Violation, ...]


def set_apart(records: Sequence[Record], violations: Iterable[Violation], is_behind: IsBehind) -> Departed:
    died, held, given_up = _facts(records)
    with_brokers, for_order, rest = [], [], []
    for violation in violations:
        ways = [(x, y) for x, y in died[violation.event] if is_behind(x, y, violation.client)]
        if violation.rule is not Rule.LOST or not ways:
            rest.append(violation)
        elif any((x, violation.event) not in held for x, _ in ways):
            with_brokers.append(violation)
        elif any((x, violation.event) in given_up for x, _ in ways):
            for_order.append(violation)
        else:
            rest.append(violation)
    return Departed(tuple(with_brokers), tuple(for_order), tuple(rest))


def _facts(
    records: Sequence[Record],
) -> tuple[defaultdict[str, list[tuple[str, str]]], set[tuple[str, str]], set[tuple[str, str]]]:
    died: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    held, given_up = set(), set()
    for record in records:
        if record.kind == RecordKind.FAULT and record.detail == DIED:
            died[record.event].append((record.node, record.peer))
        elif record.kind == RecordKind.STATE and record.detail == HELD:
            held.add((record.peer, record.event))
        elif record.kind == RecordKind.STATE and record.detail.startswith(GIVEN_UP):
            given_up.add((record.node, record.event))
    return died, held, given_up
