"""Two sessions and every order of what can happen to them: a search over all reachable states.

Moves: either side says its next payload; the next frame of a direction arrives; both connect, when neither is; and, as
often as `faults` allows, the connection is cut, a side crashes and comes back from its disk, or is reborn without one.

A batch is one move here, so a crash before the commit is a crash before the move, and one between commit and transmit
is a crash after it: a cut and a crash lose all that is in flight. No connection loses anything out of its middle, so no
session may ever hang up. Then every path ends, and where none goes on, all that was owed must have come.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pleach.core.links.frames import Frame
from pleach.core.links.session import (
    Arrived,
    Fenced,
    Hangup,
    PeerReset,
    Session,
    SessionConfig,
    SessionEffect,
    SessionPhase,
    SessionState,
    Transmit,
    Up,
)

CONFIG = SessionConfig(window=2)
NAMES = ("a", "b")
Lane: TypeAlias = tuple[Frame, ...]
Texts: TypeAlias = tuple[bytes, ...]


@dataclass(frozen=True)
class State:
    """Index 0 is a's, 1 is b's: the lanes towards it, what it said, what came to it, what it still owes the other."""

    sessions: tuple[Session, Session]
    faults: int
    lanes: tuple[Lane, Lane] = ((), ())
    said: tuple[int, int] = (0, 0)
    came: tuple[Texts, Texts] = ((), ())
    owed: tuple[Texts, Texts] = ((), ())

    def key(self) -> tuple[Any, ...]:
        sessions = tuple(_key(session) for session in self.sessions)
        return (sessions, self.faults, self.lanes, self.said, self.came, self.owed)


def _key(session: Session) -> tuple[Any, ...]:
    outbox = tuple(session._outbox)
    numbers = (session.introduction.epoch, session.peer_epoch, session.received, session.first, session._next_to_send)
    return (session.phase, numbers, outbox)


def _copied(session: Session) -> Session:
    other = copy.copy(session)
    other._outbox = deque(session._outbox)
    return other


def _with(pair: tuple[Any, Any], side: int, value: Any) -> tuple[Any, Any]:
    return (value, pair[1]) if side == 0 else (pair[0], value)


class Search:
    def __init__(self, payloads: tuple[int, int], faults: tuple[str, ...], faults_max: int) -> None:
        self.payloads = payloads
        self.faults = faults
        self.faults_max = faults_max
        self.problems: list[str] = []
        self.ends = 0

    def run(self) -> int:
        """Visit all states; returns how many there are."""
        sessions = tuple(Session(NAMES[i], NAMES[1 - i], SessionState(1), CONFIG) for i in (0, 1))
        start = State((sessions[0], sessions[1]), self.faults_max)
        seen, waiting = {start.key()}, [start]
        while waiting and not self.problems:
            state = waiting.pop()
            followers = list(self.moves(state))
            if not followers:
                self._judge_end(state)
            for follower in (*followers, *self.breaks(state)):
                self._judge(follower)
                key = follower.key()
                if key not in seen:
                    seen.add(key)
                    waiting.append(follower)
        return len(seen)

    # Verdicts ------------------------------------------------------------------------------------------------

    def _judge(self, state: State) -> None:
        for came in state.came:
            if list(came) != sorted(set(came)):
                self.problems.append(f"doubled or out of order: {came}")

    def _judge_end(self, state: State) -> None:
        self.ends += 1
        for side in (0, 1):
            missing = set(state.owed[side]) - set(state.came[1 - side])
            if missing or state.sessions[side].unconfirmed or state.sessions[side].phase is not SessionPhase.UP:
                self.problems.append(f"the end, and {NAMES[side]} still owes {sorted(missing)}: {state}")

    # Moves ---------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[State]:
        for side in (0, 1):
            if state.said[side] < self.payloads[side]:
                yield self._say(state, side)
            if state.lanes[side]:
                yield self._arrive(state, side)
        if all(session.phase is SessionPhase.DOWN for session in state.sessions):
            yield self._connect(state)

    def breaks(self, state: State) -> Iterator[State]:
        if state.faults:
            for fault in self.faults:
                yield self._fault(replace(state, faults=state.faults - 1), fault)

    def _say(self, state: State, side: int) -> State:
        number = state.said[side] + 1
        payload = b"%s%d" % (NAMES[side].encode(), number)
        session = _copied(state.sessions[side])
        effects = session.send(payload, now=0.0)
        state = replace(
            state,
            sessions=_with(state.sessions, side, session),
            said=_with(state.said, side, number),
            owed=_with(state.owed, side, (*state.owed[side], payload)),
        )
        return self._carry_out(state, side, effects)

    def _arrive(self, state: State, side: int) -> State:
        frame, *rest = state.lanes[side]
        session = _copied(state.sessions[side])
        effects = session.receive(frame, now=0.0)
        state = replace(
            state, sessions=_with(state.sessions, side, session), lanes=_with(state.lanes, side, tuple(rest))
        )
        return self._carry_out(state, side, effects)

    def _connect(self, state: State) -> State:
        for side in (0, 1):
            session = _copied(state.sessions[side])
            effects = session.connected(now=0.0)
            state = self._carry_out(replace(state, sessions=_with(state.sessions, side, session)), side, effects)
        return state

    def _carry_out(self, state: State, side: int, effects: Sequence[SessionEffect]) -> State:
        other = 1 - side
        for effect in effects:
            match effect:
                case Transmit(frame):
                    state = replace(state, lanes=_with(state.lanes, other, (*state.lanes[other], frame)))
                case Arrived(payload):
                    state = replace(state, came=_with(state.came, side, (*state.came[side], payload)))
                case PeerReset():
                    state = replace(state, owed=_with(state.owed, side, ()))
                case Hangup() | Fenced():
                    self.problems.append(f"{NAMES[side]}: {effect}: {state}")
                case Up():
                    pass
        return state

    def _fault(self, state: State, fault: str) -> State:
        what, _, who = fault.partition(" ")
        sessions = tuple(_copied(session) for session in state.sessions)
        for session in sessions:
            session.disconnected()
        state = replace(state, lanes=((), ()), sessions=(sessions[0], sessions[1]))
        if what == "cut":
            return state
        side = NAMES.index(who)
        saved = sessions[side].capture() if what == "crash" else SessionState(sessions[side].introduction.epoch + 1)
        fresh = Session(NAMES[side], NAMES[1 - side], saved, CONFIG)
        state = replace(state, sessions=_with(state.sessions, side, fresh))
        return state if what == "crash" else replace(state, owed=_with(state.owed, side, ()))
