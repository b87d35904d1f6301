"""Losses with brokers that died for good, separated from other losses by the trace alone.

When broker x dies for good, the trace has the tree of that moment (`state` records of nodes, each with a neighbour as
peer: `linked when x died`) and each copy of an event that x had sent and that did not arrive (`fault` records of x,
with the receiver y as peer: `died with it`). When x gets its stand-in, the trace has each event that a node had sent to
x without a confirmation (`state` records of that node, with x as peer: `still has it`). Then

    lost(c, e) is excused if a copy of e from x to y died with x, c is y or behind y as seen from x, and no node held e
    for x after that; or if the stand-in of x discarded e to keep the order (`given up`).

So a loss that healing should have prevented is never excused: some node still held the event. A trace without deaths is
judged as before.
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
GIVEN_UP: Final = "given up"  # prefix of the detail, and of the reason of a violation


LINKED: Final = "linked when "  # prefix of the detail


def linked_when_died(broker: str) -> str:
    return f"{LINKED}{broker} died"


@dataclass
class Deaths:
    """The records of deaths in a trace."""

    died: defaultdict[str, list[tuple[str, str, int]]] = field(default_factory=lambda: defaultdict(list))  # x, y, index
    held: dict[tuple[str, str], int] = field(default_factory=dict)  # by x and event, the index of the last record
    given_up: set[tuple[str, str]] = field(default_factory=set)  # x, event
    links: defaultdict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))  # by detail

    @classmethod
    def read(cls, records: Iterable[tuple[int, Record]]) -> Deaths:
        """`records`: with their indices, in order; records of deaths suffice."""
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
        """Why a loss is excused; empty if it is not."""
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
    """The verdict without the losses that are excused."""
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
