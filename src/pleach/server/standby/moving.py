"""A planned move of a broker to another machine: a copy there, all caught up, and then that machine takes over.

    FINDING ── the machine answers ──▶ COPYING ── it has all ──▶ HANDING_OVER ──▶ the broker is deposed here
       └───────────────── it is silent for too long ──┴──────────────┴──▶ GIVEN_UP

Rule 1: while the machine answers, it is the only candidate for a copy: so it is filled, and is in the next view
        (core/standby/composition.py, rule 1). While it does not, nothing is different from before.
Rule 2: it is asked to take over once it is a copy of the present view and has all that was confirmed; and again, if
        nothing came of it.
Rule 3: the broker serves until then. What is not confirmed yet, peers and clients send again to the machine that has
        taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from pleach.core.standby.composition import Candidate
from pleach.core.standby.effects import MemberEffect
from pleach.core.standby.member import StandbyMember
from pleach.core.standby.views import Machine

SILENT_SECONDS_MAX = 30.0  # of the machine that the broker is to move to
PATIENCE_SECONDS = 5.0  # until others are candidates again: a machine that takes a large copy may be slow to answer
AGAIN_SECONDS = 2.0  # between two requests to take over


class MovePhase(StrEnum):
    FINDING = "waits for the machine to answer"
    COPYING = "copies the data"
    HANDING_OVER = "hands over"
    GIVEN_UP = "given up: the machine does not answer"


def best_heir(usual: Sequence[Candidate], member: StandbyMember, now: float) -> Candidate:
    """Of the candidates of a broker whose machine is leaving: one that answers and has a copy already, if there is any.

    A copy may be on a machine that is lost, and would be waited for in vain.
    """
    standbys = member.view.standbys if member.view is not None else ()
    return min(usual, key=lambda each: (member.timing.is_silent(each.machine, now), each.machine not in standbys))


class BrokerMove:
    def __init__(self, address: str, member: StandbyMember, machine_at: Callable[[str], Machine], now: float) -> None:
        """`address`: of the machine's host process. `machine_at`: which machine answers there; empty: none does yet."""
        self.address = address
        self.phase = MovePhase.FINDING
        self._member = member
        self._machine_at = machine_at
        self._machine: Machine = ""
        self._heard_at = now
        self._asked_at = -AGAIN_SECONDS

    def status(self) -> dict[str, object]:
        return {"to": self.address, "machine": self._machine, "phase": self.phase.value}

    def candidates(self, usual: Sequence[Candidate], now: float) -> Sequence[Candidate]:
        """Rule 1."""
        self._note(now)
        if self.phase in (MovePhase.FINDING, MovePhase.GIVEN_UP):
            more = [Candidate(self._machine, self.address)] if self._machine else []
            return [*usual, *more]  # it is asked whether it is there
        return [Candidate(self._machine, self.address)]

    def _note(self, now: float) -> None:
        if self.phase is MovePhase.GIVEN_UP:
            return
        self._machine = self._machine_at(self.address) or self._machine
        heard = self._member.heard.get(self._machine)
        if heard is not None and now - heard < max(PATIENCE_SECONDS, self._member.config.after):
            self._heard_at = now
            self.phase = MovePhase.COPYING if self.phase is MovePhase.FINDING else self.phase
        elif now - self._heard_at > SILENT_SECONDS_MAX:
            self.phase = MovePhase.GIVEN_UP
        else:
            self.phase = MovePhase.FINDING

    def effects(self, now: float) -> Sequence[MemberEffect]:
        """Rule 2."""
        leadership, view = self._member.leadership, self._member.view
        if self.phase in (MovePhase.FINDING, MovePhase.GIVEN_UP) or leadership is None or view is None:
            return ()
        if self._machine not in view.standbys or not leadership.is_whole(self._machine):
            return ()
        self.phase = MovePhase.HANDING_OVER
        if now - self._asked_at < AGAIN_SECONDS:
            return ()
        self._asked_at = now
        return self._member.step_down(self._machine)
