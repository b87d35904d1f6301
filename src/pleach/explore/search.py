"""A depth-first search through every state of a scenario.

Every move consumes something (a message, an action), so states form an acyclic graph. Once all moves of a state have
been tried, its continuations are known: how many schedules there are, how long the shortest and longest are, and how
far the nearest failure is. A state that is reached again is not searched again.

At every quiet state, also where scripts are not at their end, the oracle judges what clients observed on the path to
it (a *violation*), and the invariants of brokers are checked (a *flaw*, as is a machine that raises). Clients can
observe a violation, so it is the better counterexample: a flaw is reported only where there is no violation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from pleach.core.messages import Layer, Node
from pleach.errors import LivenessError
from pleach.explore.counterexample import records_of, steps_of
from pleach.explore.world import BrokenError, State, World
from pleach.scenario.model import Scenario
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.scenario.schedule import ExploreOptions, Schedule
from pleach.scenario.script import script_of
from pleach.trace import Record, Rule, Verdict, judge

TABLES_DISAGREE = "tables disagree"
NEVER_ANSWERED = "never answered"
NEVER_ENDED = "never ended"
STILL_LOCKED = "still locked"


FLAWS = (TABLES_DISAGREE, NEVER_ANSWERED, NEVER_ENDED, STILL_LOCKED)


STATES_MAX = 2_000_000
PROGRESS_STATES = 4_096  # between two reports
RAISED = "raised"
UNUSABLE = "unusable"
KINDS = (*(rule.value for rule in Rule), *FLAWS, RAISED, UNUSABLE)  # of failures
FAR = 1 << 30  # the distance to a failure where there is none

OnProgress = Callable[[int, int], None]  # states so far, present depth


class ExploreOutcome(StrEnum):
    CLEAN = "clean"
    FAILING = "failing"
    UNKNOWN = "unknown"  # the search stopped at its bound, without a failure so far


@dataclass(frozen=True)
class Counterexample:
    """A failure and a schedule that leads to it: the shortest one, if the search is complete."""

    kinds: tuple[str, ...]
    reason: str
    schedule: Schedule
    records: list[Record] = field(repr=False)
    verdict: Verdict | None  # of the oracle; None where only an invariant of brokers is violated


@dataclass(frozen=True)
class Exploration:
    """`schedules` are the paths from the start to a state without moves."""

    scenario: str
    plant: str
    complete: bool
    states: int
    transitions: int
    quiet: int
    failing: int
    kinds: dict[str, int]  # failing states by what failed
    schedules: int = 0  # these three are known only if `complete`
    shortest: int = 0
    longest: int = 0
    finding: Counterexample | None = None

    @property
    def outcome(self) -> ExploreOutcome:
        if self.finding:
            return ExploreOutcome.FAILING
        return ExploreOutcome.CLEAN if self.complete else ExploreOutcome.UNKNOWN


class Continuations(NamedTuple):
    """Summary of the paths from a state on; lengths and distances in moves."""

    schedules: int
    shortest: int
    longest: int
    to_violation: int
    to_flaw: int


_to_violation = attrgetter("to_violation")
_to_flaw = attrgetter("to_flaw")


def explore(
    scenario: Scenario,
    *,
    plant: str = "",
    options: ExploreOptions | None = None,
    states_max: int = STATES_MAX,
    only: str = "",
    on_progress: OnProgress | None = None,
) -> Exploration:
    """Try every interleaving; raises ScenarioError for what needs a clock.

    `only`: the kind of failure that counts; all of them if it is empty.
    """
    world = World(script_of(scenario, options), plant)
    return Search(world, scenario.name, plant, states_max, only=only, on_progress=on_progress).run()


class _Frame:
    """A state whose moves are being tried."""

    __slots__ = ("key", "longest", "moves", "schedules", "shortest", "state", "taken", "to_flaw", "to_violation")

    def __init__(self, key: bytes, state: State, moves: list[int]) -> None:
        self.key = key
        self.state = state
        self.moves = moves  # left to try; the last one is the next
        self.taken = -1  # the move that is being tried
        self.schedules = 0 if moves else 1
        self.shortest = FAR if moves else 0
        self.longest = 0
        self.to_violation = FAR
        self.to_flaw = FAR

    def add(self, behind: Continuations) -> None:
        """Add the continuations of the move that is being tried."""
        self.schedules += behind.schedules
        self.shortest = min(self.shortest, behind.shortest + 1)
        self.longest = max(self.longest, behind.longest + 1)
        self.to_violation = min(self.to_violation, behind.to_violation + 1)
        self.to_flaw = min(self.to_flaw, behind.to_flaw + 1)

    def tally(self) -> Continuations:
        return Continuations(self.schedules, self.shortest, self.longest, self.to_violation, self.to_flaw)


class Search:
    def __init__(
        self,
        world: World,
        scenario: str,
        plant: str,
        states_max: int,
        *,
        only: str = "",
        on_progress: OnProgress | None = None,
    ) -> None:
        self.verdicts: dict[int, Verdict] = {}  # by history: equal histories have equal verdicts
        self._flaws: dict[State, dict[str, str]] = {}  # by the states of the brokers
        self._world = world
        self._scenario = scenario
        self._plant = plant
        self._states_max = states_max
        self._counted = frozenset((only,) if only else KINDS)
        self._on_progress = on_progress
        self._known: dict[bytes, Continuations | None] = {}  # None: being searched
        self._stack: list[_Frame] = []
        self._transitions = 0
        self._quiet = 0
        self._failing = 0
        self._kinds: Counter[str] = Counter()
        self._first_failure: list[int] = []  # moves; used if the search does not complete

    def run(self) -> Exploration:
        self._enter(self._world.key(self._world.start), self._world.start)
        while self._stack and len(self._known) <= self._states_max:
            self._step()
        return self._exploration(complete=not self._stack)

    # Walking -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Try the next move of the state on top of the stack, or pop it."""
        frame = self._stack[-1]
        if not frame.moves:
            self._leave()
            return
        frame.taken = frame.moves.pop()
        self._transitions += 1
        try:
            state = self._world.take(frame.state, frame.taken)
        except BrokenError:
            if RAISED in self._counted:
                self._note_failure({RAISED})
                frame.to_flaw = 1
            return
        key = self._world.key(state)
        if key not in self._known:
            self._enter(key, state)
            return
        behind = self._known[key]
        if behind is None:
            raise LivenessError("a state is its own successor: a protocol loops")
        frame.add(behind)

    def _enter(self, key: bytes, state: State) -> None:
        self._known[key] = None
        frame = _Frame(key, state, self._world.moves(state)[::-1])
        self._stack.append(frame)
        if self._world.is_quiet(state):
            self._judge(frame)
        if self._on_progress and len(self._known) % PROGRESS_STATES == 0:
            self._on_progress(len(self._known), len(self._stack))

    def _leave(self) -> None:
        frame = self._stack.pop()
        tally = self._known[frame.key] = frame.tally()
        if self._stack:
            self._stack[-1].add(tally)

    def _path(self) -> list[int]:
        """The moves that are being tried, from the start on."""
        return [frame.taken for frame in self._stack if frame.taken >= 0]

    # Judging -------------------------------------------------------------------------------------------------

    def _judge(self, frame: _Frame) -> None:
        self._quiet += 1
        violations = self._counted.intersection(kinds_of(self._verdict(frame.state)))
        flaws = self._counted.intersection(self._flaws_in(frame.state))
        if violations:
            frame.to_violation = 0
        if flaws:
            frame.to_flaw = 0
        if violations or flaws:
            self._note_failure({*violations, *flaws})

    def _verdict(self, state: State) -> Verdict:
        history = self._world.history(state)
        if history not in self.verdicts:
            self.verdicts[history] = judge(records_of(self._world, self._path()))
        return self.verdicts[history]

    def _flaws_in(self, state: State) -> dict[str, str]:
        tables = self._world.tables(state)
        if tables not in self._flaws:
            self._flaws[tables] = self._invariants_of(state)
        return self._flaws[tables]

    def _invariants_of(self, state: State) -> dict[str, str]:
        world = self._world
        return check(world.brokers(state), world.under_way(state), is_waiting=world.waits_for_timers(state))

    def _note_failure(self, kinds: set[str]) -> None:
        self._failing += 1
        self._kinds.update(kinds)
        path = self._path()
        if not self._first_failure or len(path) < len(self._first_failure):
            self._first_failure = path

    # The result ----------------------------------------------------------------------------------------------

    def _exploration(self, *, complete: bool) -> Exploration:
        total = self._known[self._world.key(self._world.start)] if complete else None
        return Exploration(
            self._scenario,
            self._plant,
            complete,
            states=len(self._known),
            transitions=self._transitions,
            quiet=self._quiet,
            failing=self._failing,
            kinds=dict(sorted(self._kinds.items())),
            schedules=total.schedules if total else 0,
            shortest=total.shortest if total else 0,
            longest=total.longest if total else 0,
            finding=self._finding(total) if self._failing else None,
        )

    def _finding(self, total: Continuations | None) -> Counterexample:
        moves = self._shortest_failure(total) if total else self._first_failure
        schedule = Schedule(self._scenario, self._plant, steps_of(self._world, moves), self._world.script.options)
        try:
            state = self._walk(moves)
        except BrokenError as error:
            return Counterexample((RAISED,), str(error), schedule, records_of(self._world, moves[:-1]), None)
        records = records_of(self._world, moves)
        verdict = judge(records)
        flaws = self._invariants_of(state)
        kinds = (*kinds_of(verdict), *flaws)
        if not self._counted.intersection(kinds_of(verdict)):
            return Counterexample(kinds, "; ".join(flaws.values()), schedule, records, None)
        return Counterexample(kinds, str((*verdict.violations, verdict.unusable)[0]), schedule, records, verdict)

    def _walk(self, moves: list[int]) -> State:
        state = self._world.start
        for number in moves:
            state = self._world.take(state, number)
        return state

    def _shortest_failure(self, total: Continuations) -> list[int]:
        """Follow the moves along which the distance to the nearest failure falls by one."""
        distance_of = _to_violation if total.to_violation < FAR else _to_flaw
        moves: list[int] = []
        state = self._world.start
        for left in range(distance_of(total), 0, -1):
            number, state = self._nearer(state, distance_of, left - 1)
            moves.append(number)
        return moves

    def _nearer(self, state: State, distance_of: Callable[[Continuations], int], distance: int) -> tuple[int, State]:
        for number in self._world.moves(state):
            try:
                after = self._world.take(state, number)
            except BrokenError:
                if distance == 0 and distance_of is _to_flaw:
                    return number, state
                continue
            behind = self._known[self._world.key(after)]
            if behind is not None and distance_of(behind) == distance:
                return number, after
        raise AssertionError("no move has the recorded distance")


def kinds_of(verdict: Verdict) -> tuple[str, ...]:
    """The kinds of failure in a verdict, sorted; empty if it is clean."""
    if verdict.violations:
        return tuple(sorted({violation.rule.value for violation in verdict.violations}))
    return (UNUSABLE,) if verdict.unusable else ()


# Invariants between brokers in quiet states, which clients cannot observe ---------------------------------------------


def check(
    brokers: Mapping[Node, BrokerMachine], under_way: Sequence[str] = (), *, is_waiting: bool = False
) -> dict[str, str]:
    """The violated invariants by kind, each with an explanation.

    The two ends of a link agree on the entries that were sent over it, every request has been answered, no operation is
    stuck, and no broker is locked for one that has ended. `is_waiting`: a timer is set, so that nothing is stuck.
    """
    found: dict[str, str] = {}
    if under_way and not is_waiting:
        found[NEVER_ENDED] = f"operation {under_way[0]} neither ends nor waits for a timer"
    for name in sorted(brokers):
        operation = brokers[name].operation
        if operation and not under_way:
            found.setdefault(STILL_LOCKED, f"{name} stays locked for operation {operation}, which has ended")
        disagreement = _disagreement(brokers, name)
        if disagreement:
            found.setdefault(TABLES_DISAGREE, disagreement)
        waiting = _unanswered(brokers[name])
        if waiting:
            found.setdefault(NEVER_ANSWERED, waiting)
    return found


def _disagreement(brokers: Mapping[Node, BrokerMachine], name: Node) -> str:
    router = brokers[name].router
    for neighbour in router.neighbours:
        for layer in Layer:
            told = router.told(layer, neighbour)
            known = frozenset(brokers[neighbour].router.received_from(layer, name))
            if told != known:
                missing = ", ".join(e.filter.text for e in sorted(told - known)) or "nothing"
                stale = ", ".join(e.filter.text for e in sorted(known - told)) or "nothing"
                where = f"{layer.name.lower()} told by {name} to {neighbour}"
                return f"{where}: {neighbour} lacks {missing} and should have dropped {stale}"
    return ""


def _unanswered(broker: BrokerMachine) -> str:
    state = broker.router.capture()
    for layer in (state.subscriptions, state.advertisements):
        for neighbour, numbers in sorted(layer.unanswered.items()):
            if numbers:
                return f"{broker.name} waits forever for {neighbour} to confirm install {numbers[0]}"
        if layer.waits:
            return f"{broker.name} never confirms {layer.waits[0][0].token!r} to {layer.waits[0][0].requester}"
    return ""
