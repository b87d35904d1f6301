"""What an exchange saves, exactly: brokers keep a ledger of where events went, and add up along the cycle.

(5.12) sums estimates over pairs of brokers; it is not the cost of the tree, and exchanges that lower it may raise the
cost, and be undone by the next. The ledger's sum is the cost, (5.3), so that what is gained is gained for good:

      B0 ── B1 ── B2 ── B3        All that hangs at a broker of the cycle stays there, whichever link is removed.
      :     :           :         So an event costs more or less only by which stretch of the cycle it needs:
      ○     ○           ○         from the first broker to the last that it *touches*.

A broker is touched by an event that goes to, or comes from, its clients or a neighbour off the cycle. It knows that by
itself, for each event in its ledger. A request takes the touched brokers of each event along the path; at its end the
stretches, and so the costs without each of the links, are known.

Ledgers of several brokers can be put together because they have the same events: those with an id whose hash says so.
After an exchange the brokers of the cycle put their ledgers right (`rewritten`); nobody else's have changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from math import fsum
from typing import NamedTuple, TypeAlias

from pleach.core.messages import Node
from pleach.core.optimise.cost import Costs
from pleach.core.optimise.heuristics import cycle_links
from pleach.core.optimise.indirect import opened

LOCAL = ""  # the side of a broker's own clients; no broker has this name
Sides: TypeAlias = frozenset[Node]  # where an event came from and went to: neighbours, LOCAL
Ledger: TypeAlias = Mapping[str, Sides]  # of one broker, by event
Touched: TypeAlias = frozenset[int]  # places on the path
Touches: TypeAlias = Mapping[str, Touched]  # by event: what a request gathers


class Stretch(NamedTuple):
    """Events that touch the same brokers of a cycle."""

    touched: Touched
    events: float


def is_sampled(event_id: str, one_in: int) -> bool:
    """Whether ledgers have the event: the same answer everywhere. With `one_in` 1 they have all."""
    digest = blake2b(event_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % one_in == 0


def gathered(touches: Touches, ledger: Ledger, path: Sequence[Node], place: int) -> dict[str, Touched]:
    """What a request knows when it leaves the broker at `place`: its ledger is all that is needed there."""
    beside = _beside(path, place)
    mine = (event for event, sides in ledger.items() if sides - beside)
    return {**touches, **{event: touches.get(event, frozenset()) | {place} for event in mine}}


def gathered_along(path: Sequence[Node], ledgers: Sequence[Ledger]) -> dict[str, Touched]:
    """What a request knows at the end of its path; `ledgers` in the order of the path."""
    touches: dict[str, Touched] = {}
    for place, ledger in enumerate(ledgers):
        touches = gathered(touches, ledger, path, place)
    return touches


def stretches(touches: Touches) -> list[Stretch]:
    """Events that touch the same brokers are alike, in the order in which they were found."""
    return [Stretch(touched, events) for touched, events in Counter(touches.values()).items()]


def _beside(path: Sequence[Node], place: int) -> Sides:
    """Neighbours along the path. Its ends are none of each other's yet."""
    return frozenset(path[i] for i in (place - 1, place + 1) if 0 <= i < len(path))


def costs_without(path: Sequence[Node], found: Sequence[Stretch], costs: Costs) -> list[float]:
    """What the events cost on the cycle without each of its links, the new one last: as far as it differs."""
    return [_cost_on_line(path, removed, found, costs) for removed in range(len(path))]


def _cost_on_line(path: Sequence[Node], removed: int, found: Sequence[Stretch], costs: Costs) -> float:
    line = opened(range(len(path)), removed)  # places of the path, in the order of the line
    total = []
    for touched, events in found:
        used = _used(line, touched)
        total += [events * costs.processing[path[place]] for place in used]
        total += [events * costs.of_link(path[a], path[b]) for a, b in pairwise(used)]
    return fsum(total)


def _used(line: Sequence[int], touched: Touched) -> Sequence[int]:
    """The part of the line from the first touched place to the last."""
    where = [i for i, place in enumerate(line) if place in touched]
    return line[where[0] : where[-1] + 1]


def rewritten(ledger: Ledger, path: Sequence[Node], place: int, removed: int, touches: Touches) -> dict[str, Sides]:
    """The ledger of the broker at `place` once the link behind place `removed` is exchanged for the new one.

    As if all events had always gone the new way: some now pass a broker that had nothing to do with them.
    """
    beside = _beside(path, place)
    after = {event: sides - beside for event, sides in ledger.items() if sides - beside}
    line = opened(range(len(path)), removed)
    for event, touched in touches.items():
        for a, b in pairwise(_used(line, touched)):
            if place in (a, b):
                other = path[b] if place == a else path[a]
                after[event] = after.get(event, frozenset()) | {other}
    return after


def savings(path: Sequence[Node], found: Sequence[Stretch], costs: Costs) -> dict[tuple[Node, Node], float]:
    """How much each link of the path saves if it is exchanged for the new one."""
    *without, now = costs_without(path, found, costs)
    return {each: now - then for each, then in zip(cycle_links(path), without, strict=False)}
