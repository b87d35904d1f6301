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

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from math import fsum
from typing import NamedTuple, TypeAlias

from pleach.messages import Node
from pleach.optimise.cost import Costs
from pleach.optimise.heuristics import cycle_links
from pleach.optimise.indirect import opened

LOCAL = ""  # the side of a broker's own clients; no broker has this name
Sides: TypeAlias = frozenset[Node]  # where an event came from and went to: neighbours, LOCAL
Ledger: TypeAlias = Mapping[str, Sides]  # of one broker, by event
Touched: TypeAlias = frozenset[int]  # places on the path


class Stretch(NamedTuple):
    """Events that touch the same brokers of a cycle."""

    touched: Touched
    events: float


def is_sampled(event_id: str, one_in: int) -> bool:
    """Whether ledgers have the event: the same answer everywhere. With `one_in` 1 they have all."""
    digest = blake2b(event_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % one_in == 0


def touching(ledger: Ledger, around: Iterable[Node]) -> list[str]:
    """The events that touch a broker whose neighbours on the cycle are `around`."""
    beside = frozenset(around)
    return [event for event, sides in ledger.items() if sides - beside]


def stretches(ledgers: Sequence[Ledger], path: Sequence[Node]) -> list[Stretch]:
    """What a request has gathered at the end of its path; `ledgers` in the order of the path."""
    touched: dict[str, list[int]] = {}
    for place, ledger in enumerate(ledgers):
        for event in touching(ledger, _beside(path, place)):
            touched.setdefault(event, []).append(place)
    counts: dict[Touched, float] = {}
    for places in touched.values():
        counts[frozenset(places)] = counts.get(frozenset(places), 0.0) + 1.0
    return [Stretch(each, events) for each, events in counts.items()]


def _beside(path: Sequence[Node], place: int) -> list[Node]:
    """Neighbours along the path. Its ends are none of each other's yet."""
    return [path[i] for i in (place - 1, place + 1) if 0 <= i < len(path)]


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


def rewritten(ledgers: Sequence[Ledger], path: Sequence[Node], removed: int) -> list[dict[str, Sides]]:
    """The ledgers of the brokers on the path once the link behind place `removed` is exchanged for the new one."""
    after = [_off_cycle(ledger, _beside(path, place)) for place, ledger in enumerate(ledgers)]
    touched: dict[str, set[int]] = {}
    for place, ledger in enumerate(after):
        for event in ledger:
            touched.setdefault(event, set()).add(place)
    line = opened(range(len(path)), removed)
    for event, places in touched.items():
        for a, b in pairwise(_used(line, frozenset(places))):
            after[a][event] = after[a].get(event, frozenset()) | {path[b]}
            after[b][event] = after[b].get(event, frozenset()) | {path[a]}
    return after


def _off_cycle(ledger: Ledger, around: Iterable[Node]) -> dict[str, Sides]:
    beside = frozenset(around)
    return {event: sides - beside for event, sides in ledger.items() if sides - beside}


def savings(path: Sequence[Node], found: Sequence[Stretch], costs: Costs) -> dict[tuple[Node, Node], float]:
    """How much each link of the path saves if it is exchanged for the new one."""
    *without, now = costs_without(path, found, costs)
    return {each: now - then for each, then in zip(cycle_links(path), without, strict=False)}
