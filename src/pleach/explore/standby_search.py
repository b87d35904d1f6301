"""Breadth-first search through the states of a broker's members, and long random schedules."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from pleach.explore.standby_invariants import BrokenInvariantError
from pleach.explore.standby_world import StandbyMove, StandbySetting, StandbyWorld, WorldState

NO_PARENT = -1
PACES = (0.05, 0.5, 1.0, 1.0)
SLOW, CUT_SHARE, PHASE_STEPS = 0.001, 0.8, 60
WEIGHTS = {"deliver": 4.0, "write": 4.0, "lead": 2.0, "publish": 0.3, "crash": 0.03, "die": 0.02, "break": 0.1}


@dataclass(frozen=True)
class StandbyExploration:
    """`broken`: which invariant, if any, and `schedule` is how."""

    states: int
    transitions: int
    depth: int
    complete: bool
    beyond: int
    broken: str = ""
    schedule: tuple[str, ...] = ()


class StandbySearch:
    def __init__(self, setting: StandbySetting, states_max: int) -> None:
        self.world = StandbyWorld(setting)
        self._states_max = states_max
        self._index: dict[WorldState, int] = {self.world.start: 0}
        self._parents = array("q", [NO_PARENT])
        self._frontier: list[WorldState] = [self.world.start]
        self._tried: StandbyMove | None = None
        self._transitions = 0
        self._depth = 0

    def run(self, on_state: Callable[[WorldState], None] | None = None) -> StandbyExploration:
        while self._frontier and len(self._index) < self._states_max:
            frontier, self._frontier = self._frontier, []
            for state in frontier:
                try:
                    self._expand(state)
                except BrokenInvariantError as error:
                    return self._result(str(error), state)
                if on_state is not None:
                    on_state(state)
                if len(self._index) >= self._states_max:
                    break
            self._depth += 1
        return self._result("", None)

    def _expand(self, state: WorldState) -> None:
        parent = self._index[state]
        for move in self.world.moves(state):
            self._tried = move
            for after in self.world.ends(state, move):
                self._transitions += 1
                if after not in self._index:
                    self._index[after] = len(self._parents)
                    self._parents.append(parent)
                    self._frontier.append(after)

    def _result(self, broken: str, state: WorldState | None) -> StandbyExploration:
        last = (self.world.told(self._tried),) if self._tried is not None else ()
        schedule = (*self._schedule(state), *last) if state is not None else ()
        return StandbyExploration(
            len(self._index),
            self._transitions,
            self._depth,
            not self._frontier and not broken,
            self.world.beyond,
            broken,
            schedule,
        )

    def told(self, state: WorldState) -> str:
        """How a state is reached."""
        return "\n".join(self._schedule(state))

    def _schedule(self, state: WorldState) -> tuple[str, ...]:
        states = list(self._index)
        path = [state]
        while (parent := self._parents[self._index[path[-1]]]) != NO_PARENT:
            path.append(states[parent])
        path.reverse()
        return tuple(self._told(before, after) for before, after in pairwise(path))

    def _told(self, before: WorldState, after: WorldState) -> str:
        return self.world.told(next(move for move, state in self.world.successors(before) if state == after))


def walk(world: StandbyWorld, seed: int, steps: int) -> tuple[int, str, tuple[str, ...]]:
    """One random schedule: how many steps it took, which invariant broke, if any, and the schedule if so."""
    random = Random(seed)  # noqa: S311 - a seed that can be given again
    state = world.start
    taken: list[StandbyMove] = []
    pace = Pace(random, len(world.machines))
    for step in range(steps):
        moves = list(world.moves(state))
        if not moves:
            break
        if step % PHASE_STEPS == 0:
            pace.change()
        taken.append(random.choices(moves, [pace.of(move) * WEIGHTS.get(move.what, 1.0) for move in moves])[0])
        try:
            ends = list(world.ends(state, taken[-1]))
        except BrokenInvariantError as error:
            return len(taken), str(error), tuple(map(world.told, taken))
        state = random.choice(ends) if ends else state
    return len(taken), "", ()


class Pace:
    """How fast channels and machines are; often a machine is cut off from most others, so that it meets newer views."""

    def __init__(self, random: Random, machines: int) -> None:
        self._random = random
        self._machines = machines
        self._island = 0
        self._known: dict[tuple[bool, int, int], float] = {}

    def change(self) -> None:
        self._known.clear()
        self._island = self._random.randrange(2 * self._machines)  # half of the time there is none

    def of(self, move: StandbyMove) -> float:
        is_message = move.what == "deliver"
        key = (is_message, move.place, move.other if is_message else 0)
        if key not in self._known:
            is_cut = is_message and self._island in key[1:] and self._random.random() < CUT_SHARE
            self._known[key] = SLOW if is_cut else self._random.choice(PACES)
        return self._known[key]
