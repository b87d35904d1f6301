"""Every judgement of a member that depends on time; the explorer puts its own in place of them, and makes all of them.

Rule 1: a machine is heard if it answers: then both directions work. What it says unasked proves one of them.
Rule 2: the primary is heard by an Alive that says that a majority answers it, or by its answer.
Rule 3: time in which this process did not run is held against nobody.
Rule 4: a copy, or a machine that is filled to become one, is stalled if it is behind and gets no further: its disk is
        full, or records do not reach it. Answers alone do not make a copy.
Rule 5: a machine is a candidate until it has not been one for a while, so that a list that changes to and fro moves
        no copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pleach.core.standby.composition import Candidate
from pleach.core.standby.views import Machine

PAUSE_SHARE = 0.5  # of `after`: a longer time without a tick or a message is a pause of this process
BACK_OFF_SHARE = 0.25  # the pause after a proposal that failed
START_SHARE = 10.0  # a primary may take so long to open its store, or longer if the driver says so
STALL_SHARE = 3.0
CANDIDATE_SHARE = 5.0
ASK_SHARE = 4.0  # the pause between questions of who has left a view


class CopyProgress(NamedTuple):
    """Where a machine is, since when it gets no further, and when it was brought up again for that."""

    reached: int
    since: float
    retried: float


class MemberTiming:
    def __init__(self, after: float, now: float) -> None:
        self.after = after
        self.now = now  # the last time that was told
        self.heard: dict[Machine, float] = {}  # when each machine has answered last
        self._since = now
        self._primary_at = now  # when the primary was heard
        self._retry_at = now
        self._attempt_at = now
        self._starts_until = now + START_SHARE * after
        self._progress: dict[Machine, CopyProgress] = {}
        self._candidates: dict[Machine, tuple[Candidate, float]] = {}  # and when it was one last

    def ran(self, now: float) -> None:
        """This process runs now (rule 3)."""
        pause = now - self.now
        if pause > PAUSE_SHARE * self.after:
            self._primary_at += pause
            self._since += pause
            self._attempt_at += pause
            self._starts_until += pause
            self.heard = {machine: at + pause for machine, at in self.heard.items()}
            self._progress = {each: p._replace(since=p.since + pause) for each, p in self._progress.items()}
        self.now = now

    # Who is heard --------------------------------------------------------------------------------------------

    def note_heard(self, machine: Machine, now: float) -> None:
        self.heard[machine] = now

    def is_silent(self, machine: Machine, now: float) -> bool:
        return now - self.heard.get(machine, self._since) >= self.after

    def keep_only(self, machines: Iterable[Machine]) -> None:
        """Forget machines that have nothing to do with the broker any more."""
        known = set(machines)
        for machine in [each for each in self.heard if each not in known]:
            del self.heard[machine]

    def note_primary(self, now: float) -> None:
        self._primary_at = now

    def is_primary_silent(self, now: float, *, patience: float = 1.0) -> bool:
        """`patience`: how many times `after` it takes."""
        return now - self._primary_at >= patience * self.after

    # Attempts to choose a view -------------------------------------------------------------------------------

    def begin_attempt(self, now: float) -> None:
        self._attempt_at = now

    def is_attempt_over(self, now: float) -> bool:
        return now - self._attempt_at >= self.after

    def may_attempt(self, now: float) -> bool:
        return now >= self._retry_at

    def back_off(self, now: float, turn: int) -> None:
        """Machines try again at different times: `turn` is from 1."""
        self._retry_at = now + turn * BACK_OFF_SHARE * self.after

    def give_way(self, now: float) -> None:
        """Let another machine's attempt come to its end."""
        self._retry_at = now + self.after

    def ask_later(self, now: float) -> None:
        self._retry_at = now + ASK_SHARE * self.after

    def view_installed(self, now: float) -> None:
        """Its primary has time to be heard, or to begin."""
        self._primary_at = self._retry_at = now
        self.note_start(now)

    # A primary that is being started -------------------------------------------------------------------------

    def note_start(self, now: float) -> None:
        self._starts_until = now + START_SHARE * self.after

    def end_start(self) -> None:
        self._starts_until = self.now

    def is_starting(self, now: float) -> bool:
        return now < self._starts_until

    # Copies that get no further ------------------------------------------------------------------------------

    def note_progress(self, machine: Machine, reached: int, written: int, now: float) -> None:
        """Rule 4: where a machine is, and where the primary is."""
        before = self._progress.get(machine, CopyProgress(reached, now, now))
        is_further = reached > before.reached or reached >= written
        since = now if is_further else before.since
        self._progress[machine] = CopyProgress(reached, since, max(since, before.retried))

    def note_filling(self, machine: Machine, now: float) -> None:
        if machine in self._progress:
            self._progress[machine] = CopyProgress(self._progress[machine].reached, now, now)

    def is_stalled(self, machine: Machine, now: float) -> bool:
        return machine in self._progress and now - self._progress[machine].since >= STALL_SHARE * self.after

    def is_due_again(self, machine: Machine, now: float) -> bool:
        """Whether a machine that is stalled should be brought up again; as often as it takes to be stalled."""
        progress = self._progress[machine]
        if now - progress.retried < STALL_SHARE * self.after:
            return False
        self._progress[machine] = progress._replace(retried=now)
        return True

    def follow_only(self, machines: Iterable[Machine]) -> None:
        known = set(machines)
        self._progress = {machine: at for machine, at in self._progress.items() if machine in known}

    # Candidates ----------------------------------------------------------------------------------------------

    def candidates(self, named: Sequence[Candidate], now: float) -> list[Candidate]:
        """Those that are named, and then those that were not long ago (rule 5)."""
        self._candidates |= {each.machine: (each, now) for each in named}
        oldest = now - CANDIDATE_SHARE * self.after
        self._candidates = {machine: known for machine, known in self._candidates.items() if known[1] > oldest}
        return [*named, *(each for each, _ in self._candidates.values() if each not in named)]
