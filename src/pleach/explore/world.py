"""The states of a scenario, and the state that each move leads to.

States and moves are numbers (layout.py). A move replaces a few numbers of a state (transitions.py). With instant
clients a move goes on until no message is left between clients and brokers that are up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from pleach.core.effects import Observe
from pleach.core.messages import Message, Node
from pleach.explore.client_history import ClientHistories
from pleach.explore.interning import Interner
from pleach.explore.layout import EMPTY_QUEUE, TIMERS_MAX, Layout, MoveTable, Outages, Queues, State
from pleach.explore.transitions import (
    BrokenError,
    FireTimerAt,
    Machine,
    Move,
    Transition,
    TransitionTable,
    subject_of,
)
from pleach.scenario.machines import make_broker, tree_of
from pleach.scenario.planted_bugs import BrokerMachine, plant
from pleach.scenario.schedule import Act, Answer, HandOver
from pleach.scenario.script import Action, Script, ScriptedClient, ScriptedRequests

__all__ = ["BrokenError", "State", "World"]


class World:
    def __init__(self, script: Script, planted: str = "") -> None:
        self.script = script
        tree = tree_of(script.scenario)
        brokers = {n: plant(planted, make_broker(script.scenario, tree, n)) for n in script.brokers}
        machines: dict[Node, Machine] = {**brokers, **script.clients()}
        self._layout = Layout.of(script)
        self._moves = MoveTable.of(script, self._layout)
        self._outages = Outages(script, self._layout)
        self._queues = Queues()
        self._ended: Interner[frozenset[tuple[str, bool]]] = Interner()  # operations, and whether they were carried out
        self._histories = ClientHistories(client.id for client in script.scenario.clients)
        self._transitions = TransitionTable(machines, script.actions, self._layout.queue)
        self._owing: dict[tuple[int, int], bool] = {}  # whether a client in this state owes an answer
        self._has_plans = any(isinstance(a, ScriptedRequests) and a.after for a in chain(*script.actions.values()))
        self.prologue: list[tuple[Node, Observe]] = []
        self._observed: list[tuple[Node, Observe]] | None = self.prologue  # where reports of machines go, if anywhere
        self.start = self._run_prologue()
        self._observed = None

    # States --------------------------------------------------------------------------------------------------

    def key(self, state: State) -> bytes:
        """The state in few bytes; different states have different keys."""
        return self._layout.packed.pack(*state)

    def is_quiet(self, state: State) -> bool:
        """No message is under way, no timer is set that may fire, and no operation waits for a broker that is down."""
        layout = self._layout
        if any(state[layout.first_queue : layout.first_actor]):
            return False
        if self.script.options.timers and self.waits_for_timers(state):
            return False
        return not (self._outages.is_any_down(state) and self.under_way(state))

    def history(self, state: State) -> int:
        """The number of what clients have observed."""
        return state[self._layout.history]

    def tables(self, state: State) -> State:
        """The part of a state that belongs to brokers and operations."""
        return state[: len(self.script.brokers)] + state[self._layout.first_actor : self._layout.history]

    def brokers(self, state: State) -> dict[Node, BrokerMachine]:
        """The brokers in this state; valid until the next call on this world."""
        slots = self._layout.node
        return {name: self._transitions.restored(name, state[slots[name]]) for name in self.script.brokers}  # type: ignore[misc]

    def under_way(self, state: State) -> list[str]:
        """Operations that were asked for and have not ended."""
        asked = [
            action.request.operation
            for number, actions in enumerate(self.script.actions.values())
            for action in actions[: state[self._layout.first_actor + number]]
            if isinstance(action, ScriptedRequests)
        ]
        return sorted(set(asked) - {name for name, _ in self._ended.value(state[self._layout.ended])})

    def waits_for_timers(self, state: State) -> bool:
        """Whether some timer is set, so that an operation may still end."""
        return any(state[slot] != self._transitions.no_timers for slot in self._layout.timers.values())

    # Moves ---------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> list[int]:
        """The moves that are possible, by number."""
        return list(self._possible(state))

    def _possible(self, state: State) -> Iterator[int]:
        layout, moves = self._layout, self._moves
        first_queue, first_actor = layout.first_queue, layout.first_actor
        for link in range(moves.first_instant):
            if state[first_queue + link] != EMPTY_QUEUE and not self._outages.is_receiver_down(link, state):
                yield link
        for number, actions in enumerate(self.script.actions.values()):
            place = state[first_actor + number]
            if place < len(actions) and not (self._has_plans and self._waits(actions[place], state)):
                yield moves.first_actor + number
        for number in range(moves.first_answer, moves.first_timer):
            if self._owes(number, state):
                yield number
        for number in range(moves.first_timer, len(moves.moves)):
            if self._is_set(moves.moves[number], state):
                yield number

    def _waits(self, action: Action, state: State) -> bool:
        """Whether an action depends on operations that are not done yet."""
        after = action.after if isinstance(action, ScriptedRequests) else ()
        return bool(after) and not {(name, True) for name in after} <= self._ended.value(state[self._layout.ended])

    def _is_set(self, move: Move, state: State) -> bool:
        assert isinstance(move, FireTimerAt)
        timers = self._transitions.timers(state[self._layout.timers[move.node]])
        if len(timers) > TIMERS_MAX:
            raise NotImplementedError(f"{move.node} has set more than {TIMERS_MAX} timers")
        return move.place < len(timers)

    def _owes(self, number: int, state: State) -> bool:
        key = (number, state[self._moves.subjects[number]])
        if key not in self._owing:
            self._owing[key] = bool(self._owed(self.subject(number), state))
        return self._owing[key]

    def _owed(self, client: Node, state: State) -> Sequence[Action]:
        machine = self._transitions.restored(client, state[self._layout.node[client]])
        assert isinstance(machine, ScriptedClient)
        return machine.owed

    def move(self, number: int) -> Move:
        return self._moves.moves[number]

    def subject(self, number: int) -> Node:
        """The node whose machine makes the move."""
        return subject_of(self._moves.moves[number])

    def take(self, state: State, number: int) -> State:
        """The state after a move; raises BrokenError if a machine raises."""
        after = list(state)
        self._make(after, number)
        if self.script.options.instant_clients:
            self._hand_over_at_once(after)
        return tuple(after)

    def observed(self, state: State, number: int) -> list[tuple[Node, Observe]]:
        """What machines report of a move, in order."""
        reports: list[tuple[Node, Observe]] = []
        self._observed = reports
        try:
            self.take(state, number)
        finally:
            self._observed = None
        return reports

    def message(self, state: State, number: int) -> Message:
        """The message that a `HandOver` hands over."""
        return self._transitions.message(self._queues.popped(state[self._layout.first_queue + number])[0])

    def action(self, state: State, number: int) -> Action:
        """The action that an `Act` or `Answer` performs."""
        move = self._moves.moves[number]
        if isinstance(move, Act):
            position = state[self._layout.first_actor + number - self._moves.first_actor]
            return self.script.actions[move.actor][position]
        return self._owed(subject_of(move), state)[0]

    def timer(self, state: State, number: int) -> str:
        """The timer that a `FireTimerAt` lets fire."""
        move = self._moves.moves[number]
        assert isinstance(move, FireTimerAt)
        return self._transitions.timers(state[self._layout.timers[move.node]])[move.place]

    # Inside a move -------------------------------------------------------------------------------------------

    def _make(self, state: list[int], number: int) -> None:
        subject, move = self._moves.subjects[number], self._moves.moves[number]
        what = self._taken(state, number, move)
        before = state[subject]
        transition = self._transitions.of(number, move, before, what)
        if transition.error is not None:
            raise BrokenError(transition.error)
        self._apply(state, subject, transition)
        if transition.has_more or isinstance(move, FireTimerAt):
            self._apply_more(state, move, transition)
        if transition.seen:
            self._note(state, number, before, what, transition.seen)

    def _taken(self, state: list[int], number: int, move: Move) -> int:
        """Use up the input of a move; returns its number."""
        match move:
            case HandOver():
                slot = self._layout.first_queue + number
                what, state[slot] = self._queues.popped(state[slot])
                return what
            case Act():
                slot = self._layout.first_actor + number - self._moves.first_actor
                state[slot] += 1
                return state[slot] - 1
            case Answer():
                return 0
            case FireTimerAt(node):
                return state[self._layout.timers[node]]

    def _apply(self, state: list[int], subject: int, transition: Transition) -> None:
        state[subject] = transition.node
        for slot, message in transition.sends:
            state[slot] = self._queues.pushed(state[slot], message)

    def _apply_more(self, state: list[int], move: Move, transition: Transition) -> None:
        if transition.concluded:
            ends = ((each.operation, not each.refusal) for each in transition.concluded)
            ended = self._ended.value(state[self._layout.ended]) | {*ends}
            state[self._layout.ended] = self._ended.number(ended)
        slot = self._layout.timers[subject_of(move)]
        if transition.is_crash:
            state[slot] = self._transitions.no_timers
        else:
            fired = move.place if isinstance(move, FireTimerAt) else None
            state[slot] = self._transitions.timers_after(state[slot], fired, transition.timers)

    def _hand_over_at_once(self, state: list[int]) -> None:
        """Hand over messages between clients and brokers, until none is left or only brokers that are down have any."""
        layout, moves = self._layout, self._moves
        first = layout.first_queue + moves.first_instant
        while state[first : layout.first_actor] != moves.no_instant_messages:
            links = range(moves.first_instant, moves.first_actor)
            waiting = (link for link in links if state[layout.first_queue + link] != EMPTY_QUEUE)
            link = next((link for link in waiting if not self._outages.is_receiver_down(link, state)), None)
            if link is None:
                return
            self._make(state, link)

    def _note(self, state: list[int], number: int, before: int, what: int, seen: tuple[Observe, ...]) -> None:
        name = subject_of(self._moves.moves[number])
        if self._observed is not None:
            self._observed += [(name, each) for each in seen]
        slot = self._layout.history
        state[slot] = self._histories.after_move(state[slot], (number, before, what), name, seen)

    # The prologue --------------------------------------------------------------------------------------------

    def _run_prologue(self) -> State:
        """All clients perform their initial actions; then always the first link that has a message hands it over."""
        layout = self._layout
        state = [0] * (layout.history + 1)
        for name, slot in layout.node.items():
            state[slot] = self._transitions.capture(name)
        state[layout.ended] = self._ended.number(frozenset())
        state[layout.history] = self._histories.none
        for name, action in self.script.prologue:
            client = self._transitions.restored(name, state[layout.node[name]])
            assert isinstance(client, ScriptedClient)
            transition = self._transitions.noted(name, client.perform(action))
            self._apply(state, layout.node[name], transition)
            self.prologue += [(name, seen) for seen in transition.seen]
            state[layout.history] = self._histories.after(state[layout.history], name, transition.seen)
        while not self.is_quiet(tuple(state)):
            links = range(self._moves.first_actor)
            self._make(state, next(n for n in links if state[layout.first_queue + n] != EMPTY_QUEUE))
        return tuple(state)
