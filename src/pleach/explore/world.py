"""The states of a scenario, and what each move makes of them.

A state is a flat tuple of small numbers:

    node states …   messages queued on each link …   positions in the scripts …   timers of each broker …
    operations that have ended   past

Moves exchange a few of these numbers (reactions.py). With instant clients a move goes on until no message is left
between clients and brokers that are up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import TypeAlias

from pleach.core.effects import Observe
from pleach.core.messages import Message, Node
from pleach.explore.client_history import ClientHistories
from pleach.explore.interning import Interner
from pleach.explore.transitions import BrokenError, FireTimerAt, Machine, Move, Transition, TransitionTable, subject_of
from pleach.scenario.machines import make_broker, tree_of
from pleach.scenario.planted_bugs import BrokerMachine, plant
from pleach.scenario.schedule import Act, Answer, HandOver
from pleach.scenario.script import Action, Crashes, Restarts, Script, ScriptedClient, ScriptedRequests

__all__ = ["BrokenError", "State", "World"]

State: TypeAlias = tuple[int, ...]

NOTHING_QUEUED = 0  # the number of the empty queue
TIMERS_MAX = 4  # of one broker, that may fire


class World:
    def __init__(self, script: Script, planted: str = "") -> None:
        self.name = script.scenario.name
        self.ordering = script.scenario.ordering.value
        self.options = script.options
        self._script = script
        tree = tree_of(script.scenario)
        brokers = {n: plant(planted, make_broker(script.scenario, tree, n)) for n in script.brokers}
        machines: dict[Node, Machine] = {**brokers, **script.clients()}
        self._queues: Interner[tuple[int, ...]] = Interner()
        self._behind: dict[int, tuple[int, int]] = {}  # of each queue, its first message and what is left without it
        self._ended: Interner[frozenset[tuple[str, bool]]] = Interner()  # operations, and whether they were carried out
        self._clients = {c.id: None for c in script.scenario.clients}
        self._pasts = ClientHistories(self._clients)
        self._lay_out(list(machines))
        self._reactions = TransitionTable(machines, script.actions, self._queue_of)
        self._debtors: dict[tuple[int, int], bool] = {}  # whether a client in this state owes an answer
        self._later: dict[tuple[int, int, int, int], int] = {}  # pasts by the past before and the reaction
        assert self._queues.number(()) == NOTHING_QUEUED
        self.prologue: list[tuple[Node, Observe]] = []
        self._witness: list[tuple[Node, Observe]] | None = self.prologue  # notes what machines report, if there is one
        self.start = self._run_prologue()
        self._witness = None

    def _lay_out(self, names: list[Node]) -> None:
        """Where in a state what is, and which numbers moves have: links, actors, answering clients, timers."""
        links, actors, brokers = self._script.links, list(self._script.actions), self._script.brokers
        self._slot_of = {name: slot for slot, name in enumerate(names)}
        self._first_queue = len(names)
        self._first_actor = self._first_queue + len(links)
        self._first_timers = self._first_actor + len(actors)
        self._ended_slot = self._first_timers + len(brokers)
        self._past_slot = self._ended_slot + 1
        self._queue_of = {link: self._first_queue + i for i, link in enumerate(links)}
        self._timers_of = {broker: self._first_timers + i for i, broker in enumerate(brokers)}
        answering = [c.id for c in self._script.scenario.clients if c.reply]
        places = range(TIMERS_MAX if self.options.timers else 0)
        self._moves: list[Move] = [
            *(HandOver(*link) for link in links),
            *(Act(actor) for actor in actors),
            *(Answer(client) for client in answering),
            *(FireTimerAt(broker, place) for broker in brokers for place in places),
        ]
        self._first_answer = len(links) + len(actors)
        self._first_ring = self._first_answer + len(answering)
        self._subjects = [self._slot_of[subject_of(move)] for move in self._moves]
        self._down = [self._down_at(receiver) for _, receiver in links]
        self._crashing = [each for each in map(self._down_at, brokers) if each[1]]
        self._has_plans = any(
            isinstance(a, ScriptedRequests) and a.after for a in chain(*self._script.actions.values())
        )
        self._all_quiet = (NOTHING_QUEUED,) * len(links)
        self._packed = Struct(f"<{self._past_slot + 1}I")
        between_brokers = sum(a not in self._clients and b not in self._clients for a, b in links)
        self._first_instant = between_brokers if self.options.instant_clients else len(links)
        self._none_instant = [NOTHING_QUEUED] * (len(links) - self._first_instant)

    def _down_at(self, node: Node) -> tuple[int, frozenset[int]]:
        """The slot of a node's position in its script, and the positions at which it is down."""
        actions = self._script.actions.get(node, ())
        slot = self._first_actor + list(self._script.actions).index(node) if actions else 0
        down: list[int] = []
        for place, action in enumerate(actions, start=1):
            is_down = isinstance(action, Crashes) or (place - 1 in down and not isinstance(action, Restarts))
            down += [place] if is_down else []
        return slot, frozenset(down)

    # States --------------------------------------------------------------------------------------------------

    def key(self, state: State) -> bytes:
        """The state in few bytes; different states have different keys."""
        return self._packed.pack(*state)

    def is_quiet(self, state: State) -> bool:
        """No message is under way, no timer is set that will ring, and no operation waits for a broker that is down."""
        if state[self._first_queue : self._first_actor] != self._all_quiet:
            return False
        if self.options.timers and self.waits_for_timers(state):
            return False
        is_down = any(state[slot] in down for slot, down in self._crashing)
        return not (is_down and self.under_way(state))

    def past(self, state: State) -> int:
        return state[self._past_slot]

    def tables(self, state: State) -> State:
        """The part of a state that says how brokers and operations are."""
        return state[: len(self._script.brokers)] + state[self._first_actor : self._past_slot]

    def brokers(self, state: State) -> dict[Node, BrokerMachine]:
        """The brokers in this state; valid until the next call on this world."""
        slots = self._slot_of
        return {name: self._reactions.restored(name, state[slots[name]]) for name in self._script.brokers}  # type: ignore[misc]

    def under_way(self, state: State) -> list[str]:
        """Operations that were asked for and have not ended."""
        asked = [
            action.request.operation
            for number, actions in enumerate(self._script.actions.values())
            for action in actions[: state[self._first_actor + number]]
            if isinstance(action, ScriptedRequests)
        ]
        return sorted(set(asked) - {name for name, _ in self._ended.value(state[self._ended_slot])})

    def waits_for_timers(self, state: State) -> bool:
        """Whether some timer is set: what has not ended may end yet."""
        return any(state[slot] != self._reactions.no_timers for slot in self._timers_of.values())

    # Moves ---------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> list[int]:
        """The moves that are possible, by number."""
        return list(self._possible(state))

    def _possible(self, state: State) -> Iterator[int]:
        links = len(self._script.links)
        for link in range(min(links, self._first_instant)):
            if state[self._first_queue + link] != NOTHING_QUEUED and not self._is_down(link, state):
                yield link
        for number, actions in enumerate(self._script.actions.values()):
            place = state[self._first_actor + number]
            if place < len(actions) and not (self._has_plans and self._waits(actions[place], state)):
                yield links + number
        for number in range(self._first_answer, self._first_ring):
            if self._owes(number, state):
                yield number
        for number in range(self._first_ring, len(self._moves)):
            if self._is_set(self._moves[number], state):
                yield number

    def _waits(self, action: Action, state: State) -> bool:
        """Whether it is asked for only after operations that are not done yet."""
        after = action.after if isinstance(action, ScriptedRequests) else ()
        return bool(after) and not {(name, True) for name in after} <= self._ended.value(state[self._ended_slot])

    def _is_down(self, link: int, state: Sequence[int]) -> bool:
        """Whether the receiver of a link takes nothing in."""
        slot, down = self._down[link]
        return bool(down) and state[slot] in down

    def _is_set(self, move: Move, state: State) -> bool:
        assert isinstance(move, FireTimerAt)
        timers = self._reactions.timers(state[self._timers_of[move.node]])
        if len(timers) > TIMERS_MAX:
            raise NotImplementedError(f"{move.node} has set more than {TIMERS_MAX} timers")
        return move.place < len(timers)

    def _owes(self, number: int, state: State) -> bool:
        key = (number, state[self._subjects[number]])
        if key not in self._debtors:
            self._debtors[key] = bool(self._owed(self.subject(number), state))
        return self._debtors[key]

    def _owed(self, client: Node, state: State) -> Sequence[Action]:
        machine = self._reactions.restored(client, state[self._slot_of[client]])
        assert isinstance(machine, ScriptedClient)
        return machine.owed

    def move(self, number: int) -> Move:
        return self._moves[number]

    def subject(self, number: int) -> Node:
        """The node whose machine makes the move."""
        return subject_of(self._moves[number])

    def take(self, state: State, number: int) -> State:
        """The state after a move; raises BrokenError if a machine does."""
        after = list(state)
        self._make(after, number)
        if self.options.instant_clients:
            self._hand_over_at_once(after)
        return tuple(after)

    def seen(self, state: State, number: int) -> list[tuple[Node, Observe]]:
        """What machines report of a move, in order."""
        witness: list[tuple[Node, Observe]] = []
        self._witness = witness
        try:
            self.take(state, number)
        finally:
            self._witness = None
        return witness

    def message(self, state: State, number: int) -> Message:
        """The message that a `HandOver` hands over."""
        return self._reactions.message(self._popped(state[self._first_queue + number])[0])

    def action(self, state: State, number: int) -> Action:
        """The action that an `Act` or `Answer` performs."""
        move = self._moves[number]
        if isinstance(move, Act):
            return self._script.actions[move.actor][state[self._first_actor + number - len(self._script.links)]]
        return self._owed(subject_of(move), state)[0]

    def timer(self, state: State, number: int) -> str:
        """The timer that a `FireTimerAt` lets fire."""
        move = self._moves[number]
        assert isinstance(move, FireTimerAt)
        return self._reactions.timers(state[self._timers_of[move.node]])[move.place]

    # Inside a move -------------------------------------------------------------------------------------------

    def _make(self, state: list[int], number: int) -> None:
        subject, move = self._subjects[number], self._moves[number]
        what = self._taken(state, number, move)
        before = state[subject]
        reaction = self._reactions.of(number, move, before, what)
        if reaction.error is not None:
            raise BrokenError(reaction.error)
        self._apply(state, subject, reaction)
        if reaction.has_more or isinstance(move, FireTimerAt):
            self._apply_more(state, move, reaction)
        if reaction.seen:
            self._note(state, number, before, what, reaction.seen)

    def _taken(self, state: list[int], number: int, move: Move) -> int:
        """Use up what the move needs; returns the number of that."""
        match move:
            case HandOver():
                what, state[self._first_queue + number] = self._popped(state[self._first_queue + number])
                return what
            case Act():
                slot = self._first_actor + number - len(self._script.links)
                state[slot] += 1
                return state[slot] - 1
            case Answer():
                return 0
            case FireTimerAt(node):
                return state[self._timers_of[node]]

    def _apply(self, state: list[int], subject: int, reaction: Transition) -> None:
        state[subject] = reaction.node
        for slot, message in reaction.sends:
            state[slot] = self._queues.number((*self._queues.value(state[slot]), message))

    def _apply_more(self, state: list[int], move: Move, reaction: Transition) -> None:
        if reaction.concluded:
            ends = ((each.operation, not each.refusal) for each in reaction.concluded)
            ended = self._ended.value(state[self._ended_slot]) | {*ends}
            state[self._ended_slot] = self._ended.number(ended)
        slot = self._timers_of[subject_of(move)]
        if reaction.is_crash:
            state[slot] = self._reactions.no_timers
        else:
            fired = move.place if isinstance(move, FireTimerAt) else None
            state[slot] = self._reactions.timers_after(state[slot], fired, reaction.timers)

    def _popped(self, queue: int) -> tuple[int, int]:
        popped = self._behind.get(queue)
        if popped is None:
            head, *rest = self._queues.value(queue)
            popped = self._behind[queue] = head, self._queues.number(tuple(rest))
        return popped

    def _hand_over_at_once(self, state: list[int]) -> None:
        """What is under way between clients and brokers arrives, as long as there is something."""
        first = self._first_queue + self._first_instant
        while state[first : self._first_actor] != self._none_instant:
            links = range(self._first_instant, len(self._script.links))
            waiting = (link for link in links if state[self._first_queue + link] != NOTHING_QUEUED)
            link = next((link for link in waiting if not self._is_down(link, state)), None)
            if link is None:
                return
            self._make(state, link)

    def _note(self, state: list[int], number: int, before: int, what: int, seen: tuple[Observe, ...]) -> None:
        name = subject_of(self._moves[number])
        if self._witness is not None:
            self._witness += [(name, each) for each in seen]
        if name not in self._clients:
            return  # what brokers report is not the oracle's business
        key = (state[self._past_slot], number, before, what)
        later = self._later.get(key)
        if later is None:
            later = self._later[key] = self._pasts.after(key[0], name, seen)
        state[self._past_slot] = later

    # The prologue --------------------------------------------------------------------------------------------

    def _run_prologue(self) -> State:
        """All clients ask for what they want from the beginning; then always the first link that has a message."""
        state = [0] * (self._past_slot + 1)
        for name, slot in self._slot_of.items():
            state[slot] = self._reactions.capture(name)
        state[self._ended_slot] = self._ended.number(frozenset())
        state[self._past_slot] = self._pasts.none
        for name, action in self._script.prologue:
            client = self._reactions.restored(name, state[self._slot_of[name]])
            assert isinstance(client, ScriptedClient)
            reaction = self._reactions.noted(name, client.perform(action))
            self._apply(state, self._slot_of[name], reaction)
            self.prologue += [(name, seen) for seen in reaction.seen]
            state[self._past_slot] = self._pasts.after(state[self._past_slot], name, reaction.seen)
        while not self.is_quiet(tuple(state)):
            links = range(len(self._script.links))
            self._make(state, next(n for n in links if state[self._first_queue + n] != NOTHING_QUEUED))
        return tuple(state)
