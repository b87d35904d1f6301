"""Who should be in a view: a pure choice by the primary, from who answers, who has the data, and who is preferred.

Rule 1: a copy that answers and keeps up stays, unless it is no candidate any more and another machine has all data by
        now.
Rule 2: a copy that is silent or stalled goes once enough others have all data; a view never shrinks below two copies
        again. Who confirmed with one copy could not know whether the other is lost or only cut off: one death more, and
        what was confirmed meanwhile would be on no living disk.
Rule 3: there are 2f + 1 members for f + 1 wanted copies, as far as machines are known. A silent machine keeps its vote
        while nobody else can have it: it may return, and a vote that nobody has helps nobody.
Rule 4: a view of one copy has no witnesses: it is left for one of two copies, and nobody has to agree to that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from pleach.core.standby.views import Machine, View

COPIES_MIN = 2  # with which a primary serves


class Candidate(NamedTuple):
    """A machine that may hold a copy or a vote, and the address of its host process."""

    machine: Machine
    address: str


class Availability(NamedTuple):
    """What the primary knows of the machines around it."""

    live: Collection[Machine]  # who have answered of late, the primary among them
    whole: Collection[Machine]  # who have all that was confirmed, the primary among them
    candidates: Sequence[Candidate]  # the best first; empty: not known, and nobody is unfit
    copies: int  # wanted
    stalled: Collection[Machine] = ()  # who answer, and get no further

    def is_fit(self, machine: Machine) -> bool:
        return not self.candidates or any(machine == each.machine for each in self.candidates)

    def can_copy(self, machine: Machine) -> bool:
        """Whether a machine is able to hold a copy, as far as is known."""
        return machine in self.live and machine not in self.stalled


def missing(view: View, available: Availability, learners: Sequence[Machine]) -> list[Machine]:
    """The machines to be filled so that there are enough copies.

    `learners` that are being filled come first, those that are stalled last.
    """
    kept = [
        copy for copy in view.copies if available.can_copy(copy) and (copy == view.primary or available.is_fit(copy))
    ]
    named = [each.machine for each in available.candidates if each.machine != view.primary]
    possible = [*(each for each in learners if each in named), *(each for each in named if each not in learners)]
    found = [each for each in possible if each in available.live and each not in kept]
    found.sort(key=lambda each: each in available.stalled)
    return found[: max(0, available.copies - len(kept))]


def composed(view: View, available: Availability, learners: Sequence[Machine]) -> View:
    """The view that should follow; `is_like` the present one if nothing is to be changed."""
    copies = tuple(_copies(view, available, learners))
    if len(copies) < min(COPIES_MIN, available.copies):
        return msgspec.structs.replace(view, number=view.number + 1)
    votes = max(2 * available.copies - 1 - len(copies), 0)
    witnesses = [each for each in _witnesses(view, available) if each not in copies]
    known = {each.machine: each.address for each in available.candidates}
    chosen = sorted([*dict.fromkeys(witnesses)][:votes])
    addresses = {each: known.get(each) or view.addresses.get(each, "") for each in (*copies, *chosen)}
    return View(view.broker, view.number + 1, copies, tuple(chosen), addresses)


def _copies(view: View, available: Availability, learners: Sequence[Machine]) -> Iterator[Machine]:
    able = [copy for copy in view.copies if available.can_copy(copy)]
    fit = [copy for copy in able if copy == view.primary or available.is_fit(copy)]
    ready = [each for each in learners if each in available.whole and each in available.live and each not in fit]
    taken = [*fit, *ready][: max(available.copies, len(fit))]
    yield from taken
    unfit = [copy for copy in able if copy not in taken]
    yield from unfit[: max(0, available.copies - len(taken))]


def _witnesses(view: View, available: Availability) -> Iterator[Machine]:
    yield from (each for each in view.witnesses if each in available.live and available.is_fit(each))
    yield from (each.machine for each in available.candidates if each.machine in available.live)
    yield from (each for each in view.witnesses if each in available.live)
    yield from view.members
