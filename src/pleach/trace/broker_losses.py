"""What was lost with brokers that never returned, told from what was lost otherwise: from the trace alone.

When broker x dies for good, the trace has the tree as it was (`state` records of nodes, each with a neighbour as peer:
`linked when x died`) and each copy of an event that x had sent and nobody got (`fault` records of x, with the receiver
y as peer: `died with it`). When x gets its stand-in it has each event that somebody had sent to x without a
confirmation (`state` records of that node, with x as peer: `still has it`). Then

    lost(c, e) is set apart if a copy of e died with some x on its way to y, c is behind y as seen from x or is y,
    and nobody still had e for x after that; or else its stand-in gave e up for the sake of order (`given up`).

So what healing should have saved is never set apart: somebody still had it. The rule is the oracle's; it changes
nothing in a trace without deaths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Rule, Verdict, Violation

DIED: Final = "died with it"
HELD: Final = "still has it"
NEVER: Final = -1
GIVEN_UP: Final = "given up"  # how the detail, and the reason of a violation, begin


LINKED: Final = "linked when "  # how the detail begins of who was whose neighbour


def linked_when_died(broker: str) -> str:
    return f"{LINKED}{broker} died"


@dataclass
class Deaths:
    """What a trace says of them."""

    died: defaultdict[str, list[tuple[str, str, int]]] = field(default_factory=lambda: defaultdict(list))  # x, y, index
    held: dict[tuple[str, str], int] = field(default_factory=dict)  # by x and event, the index of the last record
    given_up: set[tuple[str, str]] = field(default_factory=set)  # x, event
    links: defaultdict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))  # by detail

    @classmethod
    def read(cls, records: Iterable[tuple[int, Record]]) -> Deaths:
        """`records`: with their indices, in order; those that tell of deaths suffice."""
        deaths = cls()
        for index, record in records:
            if record.kind == RecordKind.FAULT and record.detail == DIED:
                deaths.died[record.event].append((record.node, record.peer, index))
            elif record.kind == RecordKind.STATE and record.detail == HELD:
                deaths.held[record.peer, record.event] = index
            elif record.kind == RecordKind.STATE and record.peer:
                deaths.links[record.detail] |= {(record.node, record.peer), (record.peer, record.node)}
            elif record.kind == RecordKind.STATE and record.detail.startswith(GIVEN_UP):
                deaths.given_up.add((record.node, record.event))
        return deaths

    def excuse(self, violation: Violation) -> str:
        """Why a loss is not held against the network; empty if it is."""
        event = violation.event
        if violation.rule is not Rule.LOST:
            return ""
        dead = [(x, index) for x, y, index in self.died[event] if self._is_behind(x, y, violation.client)]
        for x, index in dead:
            if self.held.get((x, event), NEVER) < index:
                return f"it sat solely on broker {x}, which never returned"
        for x, _ in dead:
            if (x, event) in self.given_up:
                return f"{GIVEN_UP} for the sake of order when broker {x} died"
        return ""

    def _is_behind(self, x: str, y: str, client: str) -> bool:
        links = self.links[linked_when_died(x)]
        found, waiting = {x}, [y]
        while waiting:
            here = waiting.pop()
            if here not in found:
                found.add(here)
                waiting += [b for a, b in links if a == here]
        return client in found


def without_departed(records: Sequence[Record], verdict: Verdict) -> Verdict:
    """The verdict with such losses set apart."""
    return set_apart(Deaths.read(enumerate(records)), verdict) if verdict.violations else verdict


def set_apart(deaths: Deaths, verdict: Verdict) -> Verdict:
    reasons = [(violation, deaths.excuse(violation)) for violation in verdict.violations]
    departed = tuple(msgspec.structs.replace(violation, reason=reason) for violation, reason in reasons if reason)
    return msgspec.structs.replace(
        verdict,
        violations=tuple(violation for violation, reason in reasons if not reason),
        departed=departed,
        counts=msgspec.structs.replace(verdict.counts, departed=len(departed)),
    )
