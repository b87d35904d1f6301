"""The world of one broker's members, for the explorer: hosts, channels, and what an adversary may do to them.

A state is a tuple of small numbers:

    host states …   queue of each channel …   what has happened   what the adversary has left

The adversary delivers the first message of a channel, or lets its connection break (the last message is lost; a break
after another loses more), lets a process crash and start again (its memory is lost, and so are the messages on their
way to it), lets a machine die for good with its disk, lets a member tick with any opinion of who is silent, lets a disk
write, a client publish, an operator ask for a change of primary. Cuts are messages that wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from pleach.core.standby.member import StandbyConfig
from pleach.core.standby.views import Machine, Register, View
from pleach.explore.standby_host import (
    BROKER,
    ChosenTiming,
    Content,
    Envelope,
    HostRules,
    HostStage,
    ModelHost,
    StoredCommit,
)
from pleach.explore.standby_invariants import BrokenInvariantError, Past, first_past, loss, past_after
from pleach.explore.standby_reactions import Outcome, Reactions
from pleach.explore.transitions import Interner

DEAD = 0  # the number of a host that is gone for good

WorldState: TypeAlias = tuple[int, ...]


class Budget(NamedTuple):
    """How often the adversary may still do it."""

    publications: int = 2
    ticks: int = 2  # of primaries, and of others where they ask
    seeks: int = 1  # attempts at promotion
    answers: int = 1  # to heartbeats
    breaks: int = 1
    crashes: int = 1
    deaths: int = 0
    handovers: int = 0
    decrees: int = 0


class Bounds(NamedTuple):
    """States beyond are not visited."""

    view: int = 4
    ballot: int = 3
    queue: int = 5


@dataclass(frozen=True)
class StandbySetting:
    """Who is there at the start: a view that serves, and machines that are fresh.

    `is_reduced`: heartbeats and questions do not travel, as far as they tell nothing of views. A copy seeks promotion
    without asking, a member promises to anyone, and answers a heartbeat whenever the adversary likes: that allows all
    that questions and heartbeats would. Messages that have no effect on the receiver any more are taken out.
    """

    copies: tuple[Machine, ...] = ("p", "s")
    witnesses: tuple[Machine, ...] = ("w",)
    fresh: tuple[Machine, ...] = ()
    wanted: int = 2
    is_reduced: bool = True
    budget: Budget = field(default_factory=Budget)
    bounds: Bounds = field(default_factory=Bounds)
    rules: HostRules = field(default_factory=HostRules)

    @property
    def machines(self) -> tuple[Machine, ...]:
        return (*self.copies, *self.witnesses, *self.fresh)


NOTHING = Budget(publications=0, ticks=0, seeks=0, answers=0, breaks=0, crashes=0)
EVERYTHING = Budget(publications=2, ticks=3, seeks=2, answers=2, breaks=1, crashes=1, deaths=1, handovers=1)
_BUDGETS = {
    "a promotion, two publications, a break": NOTHING._replace(publications=2, seeks=1, breaks=1),
    "a promotion, two publications, a crash": NOTHING._replace(publications=2, seeks=1, crashes=1),
    "a promotion, a publication, two crashes": NOTHING._replace(publications=1, seeks=1, crashes=2),
    "a promotion, a publication, a crash, a death": NOTHING._replace(publications=1, seeks=1, crashes=1, deaths=1),
    "two promotions, a publication": NOTHING._replace(publications=1, seeks=2),
    "an invitation, two publications, a crash": NOTHING._replace(publications=2, handovers=1, crashes=1),
    "a replacement, two publications, a break": NOTHING._replace(publications=2, ticks=2, answers=1, breaks=1),
    "a replacement, a publication, a crash": NOTHING._replace(publications=1, ticks=2, answers=1, crashes=1),
    "a promotion and a replacement, a publication": NOTHING._replace(publications=1, ticks=1, seeks=1, answers=1),
    "all of it": EVERYTHING,
}
STANDBY_WORLDS = MappingProxyType(
    {
        name: StandbySetting(budget=budget, bounds=Bounds(view=8, ballot=8, queue=10))
        for name, budget in _BUDGETS.items()
    }
)


class StandbyMove(NamedTuple):
    """What the adversary does; machines by their places.

    `what`: deliver, break, tick, seek, answer, crash, die, publish, write, lead, hand over, decree. `detail`: the
    message, or how many writes a crash leaves. `cost`: what it takes from the budget.
    """

    what: str
    place: int
    detail: int = 0
    other: int = 0
    cost: str = ""


class StandbyWorld:
    def __init__(self, setting: StandbySetting) -> None:
        self.setting = setting
        self.machines = setting.machines
        self._place = {machine: place for place, machine in enumerate(self.machines)}
        pairs = [(a, b) for a in self.machines for b in self.machines if a != b]
        self.channels: dict[tuple[Machine, Machine], int] = {
            pair: len(self.machines) + place for place, pair in enumerate(pairs)
        }
        self._ways = [(slot, self._place[a], self._place[b]) for (a, b), slot in self.channels.items()]
        self._own_moves: dict[int, list[StandbyMove]] = {}
        self._costs: dict[tuple[int, str], int] = {}
        self._pasts: Interner[Past] = Interner()
        self._budgets: Interner[Budget] = Interner()
        self._queues: Interner[tuple[int, ...]] = Interner()
        self._queues.number(())  # 0: nothing is under way
        self._reactions = Reactions(self.machines, self.channels, is_reduced=setting.is_reduced)
        self._ends: dict[tuple[int, int, int], int] = {}
        self._intact: dict[tuple[int, ...], str] = {}
        self.beyond = 0  # moves that lead beyond the bounds
        self.start = self._begin()

    # The start -----------------------------------------------------------------------------------------------

    def _begin(self) -> WorldState:
        """The primary leads, all copies have one commit, and it is confirmed."""
        setting = self.setting
        members = (*setting.copies, *setting.witnesses)
        view = View(BROKER, 1, setting.copies, setting.witnesses, dict.fromkeys(members, ""))
        content: Content = (StoredCommit(1, "first"),)
        hosts = {machine: self._new_host(machine) for machine in self.machines}
        for machine in view.members:
            hosts[machine].boot(Register(view), content if machine in view.copies else None)
        self._let_lead(hosts, view)
        past = self._pasts.number(first_past(view, content))
        numbers = [self._reactions.number(hosts[machine]) for machine in self.machines]
        return (*numbers, *([0] * len(self.channels)), past, self._budgets.number(setting.budget))

    def _let_lead(self, hosts: dict[Machine, ModelHost], view: View) -> None:
        hosts[view.primary].lead()
        for _ in range(len(view.members)):
            for machine, host in hosts.items():
                for to, message in host.take_sent():
                    hosts[to].handle(machine, message, 0.0)
                    while hosts[to].writing:
                        hosts[to].disk_done()
        for host in hosts.values():
            host.take_sent()
            host.take_seen()

    def _new_host(self, machine: Machine) -> ModelHost:
        setting = self.setting
        config = StandbyConfig(1.0, setting.wanted)
        others = [each for each in self.machines if each != machine]
        return ModelHost(machine, config, others, rules=setting.rules, timing=ChosenTiming(self.machines))

    # Numbers -------------------------------------------------------------------------------------------------

    def host(self, state: WorldState, machine: Machine) -> ModelHost | None:
        """To be looked at only; None: it is gone for good."""
        return self._reactions.hosts[state[self._place[machine]]]

    def copy_of(self, state: WorldState, machine: Machine) -> ModelHost | None:
        number = state[self._place[machine]]
        return self._reactions.cloned(number) if number != DEAD else None

    def queue(self, state: WorldState, sender: Machine, receiver: Machine) -> list[Envelope]:
        numbers = self._queues.value(state[self.channels[sender, receiver]])
        return [self._reactions.messages[number] for number in numbers]

    def past(self, state: WorldState) -> Past:
        return self._pasts.value(state[-2])

    def budget(self, state: WorldState) -> Budget:
        return self._budgets.value(state[-1])

    # Moves ---------------------------------------------------------------------------------------------------

    def successors(self, state: WorldState) -> Iterator[tuple[StandbyMove, WorldState]]:
        """Raises BrokenInvariantError where a move breaks one."""
        for move in self.moves(state):
            for end in self.ends(state, move):
                yield move, end

    def moves(self, state: WorldState) -> Iterator[StandbyMove]:
        budget = self.budget(state)
        for slot, sender, receiver in self._ways:
            if state[slot] and state[receiver] != DEAD:
                queue = self._queues.value(state[slot])
                yield StandbyMove("deliver", receiver, queue[0], sender)
                if budget.breaks:
                    yield StandbyMove("break", sender, queue[-1], receiver, "breaks")
        for place, number in enumerate(state[: len(self.machines)]):
            if number == DEAD:
                continue
            if number not in self._own_moves:
                self._own_moves[number] = [*self._moves_of(place, number)]
            for move in self._own_moves[number]:
                if not move.cost or (getattr(budget, move.cost) and self._is_possible(state, move)):
                    yield move

    def _moves_of(self, place: int, number: int) -> Iterator[StandbyMove]:
        """What a host may do, whatever else there is."""
        host = self._reactions.hosts[number]
        assert host is not None
        if host.writing:
            yield StandbyMove("write", place)
        elif host.stage is HostStage.STARTING and host.store is not None:
            yield StandbyMove("lead", place)
        if host.member.is_primary or not self.setting.is_reduced:
            yield StandbyMove("tick", place, cost="ticks")
        elif host.member.view is not None:
            if host.may_be_promoted:
                yield StandbyMove("seek", place, cost="seeks")
            primary = self._place[host.member.view.primary]
            yield StandbyMove("answer", place, other=primary, cost="answers")
        if host.is_serving:
            yield StandbyMove("publish", place, cost="publications")
            for each in host.standbys:
                yield StandbyMove("hand over", place, self._place[each], cost="handovers")
        if host.may_be_promoted:
            yield StandbyMove("decree", place, cost="decrees")
        for written in range(len(host.writing) + 1):
            yield StandbyMove("crash", place, written, cost="crashes")
        yield StandbyMove("die", place, cost="deaths")

    def _is_possible(self, state: WorldState, move: StandbyMove) -> bool:
        """Whether there is a heartbeat to answer."""
        if move.what != "answer":
            return True
        primary, host = self._reactions.hosts[state[move.other]], self._reactions.hosts[state[move.place]]
        return primary is not None and host is not None and primary.member.number == host.member.number

    def ends(self, state: WorldState, move: StandbyMove) -> Iterator[WorldState]:
        """The states that a move may lead to. Raises BrokenInvariantError."""
        after = list(state)
        detail = move.detail
        if move.cost:
            budget = self.budget(state)
            after[-1] = self._spent(state[-1], move.cost)
            detail = budget.publications if move.what == "publish" else detail
        match move.what:
            case "deliver":
                slot = self._slot(move.other, move.place)
                after[slot] = self._queues.number(self._queues.value(after[slot])[1:])
            case "break":
                slot = self._slot(move.place, move.other)
                after[slot] = self._queues.number(self._queues.value(after[slot])[:-1])
                detail = move.other
            case "crash" | "die":
                self._empty(after, move.place)
        if state[move.place] == DEAD or move.what == "die":
            after[move.place] = DEAD
            yield tuple(after)
            return
        for outcome in self._reactions.of(state[move.place], move.what, detail, move.other):
            end = self._end(after, move.place, outcome)
            if end is not None:
                yield end

    def _spent(self, number: int, cost: str) -> int:
        key = (number, cost)
        if key not in self._costs:
            budget = self._budgets.value(number)
            self._costs[key] = self._budgets.number(budget._replace(**{cost: getattr(budget, cost) - 1}))
        return self._costs[key]

    def _empty(self, state: list[int], place: int) -> None:
        """Nothing that is on its way to a process reaches its next life."""
        for slot, _, receiver in self._ways:
            if receiver == place:
                state[slot] = 0

    def _end(self, before: Sequence[int], place: int, outcome: Outcome) -> WorldState | None:
        """None: it is beyond the bounds."""
        if outcome.error:
            raise BrokenInvariantError(f"{self.machines[place]} raises {outcome.error}")
        if not self._is_within(outcome.host):
            self.beyond += 1
            return None
        after = list(before)
        after[place] = outcome.host
        if before[place] != outcome.host and self.setting.is_reduced:
            self._drop_idle(after, place)
        for slot, message in outcome.sent:
            receiver = after[self._ways[slot - len(self.machines)][2]]
            if receiver == DEAD or (self.setting.is_reduced and self._reactions.is_idle(receiver, message)):
                continue
            queue = self._queues.value(after[slot])
            if queue and message in (queue if self.setting.is_reduced else queue[-1:]):
                continue  # as if it were lost
            if len(queue) == self.setting.bounds.queue:
                self.beyond += 1
                return None
            after[slot] = self._queues.number((*queue, message))
        if outcome.seen:
            after[-2] = self._past_after(after[-2], outcome.seen, place)
        state = tuple(after)
        self._check_intact(state)
        return state

    def _drop_idle(self, state: list[int], place: int) -> None:
        """Messages that have become idle."""
        for slot, _, receiver in self._ways:
            if receiver == place and state[slot]:
                queue = self._queues.value(state[slot])
                kept = tuple(each for each in queue if not self._reactions.is_idle(state[place], each))
                state[slot] = self._queues.number(kept)

    def _slot(self, sender: int, receiver: int) -> int:
        return self.channels[self.machines[sender], self.machines[receiver]]

    def _is_within(self, number: int) -> bool:
        host = self._reactions.hosts[number]
        if host is None or host.register is None:
            return True
        bounds, register = self.setting.bounds, host.register
        return register.view.number <= bounds.view and register.promised.round <= bounds.ballot

    def told(self, move: StandbyMove) -> str:
        """A move for readers."""
        machine, other = self.machines[move.place], self.machines[move.other]
        match move.what:
            case "deliver":
                return f"{other} → {machine}  {_words(self._reactions.messages[move.detail])}"
            case "break":
                return f"{machine} → {other}  is lost: {_words(self._reactions.messages[move.detail])}"
            case "crash":
                return f"{machine} crashes, {move.detail} writes are on its disk"
            case "hand over":
                return f"{machine} hands over to {self.machines[move.detail]}"
        return f"{machine}: {move.what}"

    # What must hold ------------------------------------------------------------------------------------------

    def _past_after(self, number: int, seen: int, place: int) -> int:
        key = (number, seen, place)
        machine = self.machines[place]
        known = self._ends.get(key)
        if known is None:
            past = past_after(self._pasts.value(number), self._reactions.seen[seen], machine)
            known = self._ends[key] = self._pasts.number(past)
        return known

    def _check_intact(self, state: WorldState) -> None:
        """I2."""
        key = (*state[: len(self.machines)], state[-2])
        if key not in self._intact:
            self._intact[key] = self._loss(state)
        if self._intact[key]:
            raise BrokenInvariantError(self._intact[key])

    def _loss(self, state: WorldState) -> str:
        past = self.past(state)
        for machine in past.newest.copies:
            host = self.host(state, machine)
            found = loss(past, machine, host.store) if host is not None else ""
            if found:
                return found
        return ""


def _words(message: Envelope) -> str:
    fields = [str(getattr(message, name)) for name in message.__struct_fields__ if name not in {"broker", "number"}]
    return f"{type(message).__name__} in view {message.number} {' '.join(fields)}".rstrip()
