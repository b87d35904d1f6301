"""The states of a scenario, and what each move makes of them.

A state is a flat tuple of small numbers:

    node states …   messages queued on each link …   positions in the scripts …   past

A machine is pure: the same state and the same message give the same answer. So each machine's reaction is computed
once, by restoring that one machine, and remembered; moves then only exchange a few numbers. Restoring before every
reaction also means that a broker does nothing that does not follow from its captured state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple, TypeAlias

from pleach.effects import Effect, Observe, Send
from pleach.explore.interning import Interner
from pleach.explore.past import Pasts
from pleach.messages import Message, Node, decode, encode
from pleach.scenario.assemble import make_broker, tree_of
from pleach.scenario.plants import BrokerMachine, plant
from pleach.scenario.schedule import Act, Answer, HandOver, Move
from pleach.scenario.script import Action, Crashes, Restarts, Script, ScriptedClient

State: TypeAlias = tuple[int, ...]
Machine: TypeAlias = BrokerMachine | ScriptedClient

NOTHING_QUEUED = 0  # the number of the empty queue


class Reaction(NamedTuple):
    """What a machine makes of a move: its next state, what it sends on which links, what it reports."""

    node: int
    sends: tuple[tuple[int, int], ...] = ()  # slot of the link's queue, message
    seen: tuple[Observe, ...] = ()
    error: Exception | None = None  # what it raised instead


class BrokenError(Exception):
    """A machine raised where it should have reacted: a finding about the machine, not an error of the search."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")


class World:
    def __init__(self, script: Script, planted: str = "") -> None:
        self.name = script.scenario.name
        self.ordering = script.scenario.ordering.value
        self._script = script
        tree = tree_of(script.scenario)
        brokers = {n: plant(planted, make_broker(script.scenario, tree, n)) for n in script.scenario.brokers}
        self._machines: dict[Node, Machine] = {**brokers, **script.clients()}
        self._clients = [c.id for c in script.scenario.clients]
        self._nodes: list[Interner[bytes]] = [Interner() for _ in self._machines]
        self._messages: Interner[bytes] = Interner()
        self._queues: Interner[tuple[int, ...]] = Interner()
        self._pasts = Pasts(self._clients)
        self._lay_out()
        self._reactions: dict[tuple[int, int, int], Reaction] = {}
        self._debtors: dict[tuple[int, int], bool] = {}  # whether a client in this state owes an answer
        self._later: dict[tuple[int, int, int, int], int] = {}  # pasts by the past before and the reaction
        assert self._queues.number(()) == NOTHING_QUEUED
        self.prologue: list[tuple[Node, Observe]] = []
        self.start = self._run_prologue()

    def _lay_out(self) -> None:
        """Where in a state what is, and which numbers moves have: links first, then actors, then answering clients."""
        names = list(self._machines)
        links, actors = self._script.links, list(self._script.actions)
        self._slot_of = {name: slot for slot, name in enumerate(names)}
        self._first_queue = len(names)
        self._first_actor = self._first_queue + len(links)
        self._past_slot = self._first_actor + len(actors)
        self._queue_of = {link: self._first_queue + i for i, link in enumerate(links)}
        answering = [c.id for c in self._script.scenario.clients if c.reply]
        self._moves: list[Move] = [
            *(HandOver(*link) for link in links),
            *(Act(actor) for actor in actors),
            *(Answer(client) for client in answering),
        ]
        self._subjects = [self._slot_of[_subject(move)] for move in self._moves]
        self._down = [self._down_at(receiver) for _, receiver in links]
        self._all_quiet = (NOTHING_QUEUED,) * len(links)
        self._packed = Struct(f"<{self._past_slot + 1}I")

    def _down_at(self, node: Node) -> tuple[int, frozenset[int]]:
        """The slot of a node's position in its script, and the positions at which it is down."""
        actions = self._script.actions.get(node, ())
        slot = self._first_actor + list(self._script.actions).index(node) if actions else 0
        return slot, frozenset(i + 1 for i, action in enumerate(actions) if isinstance(action, Crashes))

    # States --------------------------------------------------------------------------------------------------

    def key(self, state: State) -> bytes:
        """The state in few bytes; different states have different keys."""
        return self._packed.pack(*state)

    def is_quiet(self, state: State) -> bool:
        return state[self._first_queue : self._first_actor] == self._all_quiet

    def past(self, state: State) -> int:
        return state[self._past_slot]

    def tables(self, state: State) -> State:
        """The part of a state that the brokers' own states are."""
        return state[: len(self._script.scenario.brokers)]

    def brokers(self, state: State) -> dict[Node, BrokerMachine]:
        """The brokers in this state; valid until the next call on this world."""
        return {name: self._restored(name, state) for name in self._script.scenario.brokers}  # type: ignore[misc]

    def _restored(self, name: Node, state: State) -> Machine:
        slot = self._slot_of[name]
        machine = self._machines[name]
        machine.restore(self._nodes[slot].value(state[slot]))
        return machine

    # Moves ---------------------------------------------------------------------------------------------------

    def moves(self, state: State) -> list[int]:
        """The moves that are possible, by number."""
        return list(self._possible(state))

    def _possible(self, state: State) -> Iterator[int]:
        links = len(self._script.links)
        for link in range(links):
            slot, down = self._down[link]
            if state[self._first_queue + link] != NOTHING_QUEUED and not (down and state[slot] in down):
                yield link
        for number, actions in enumerate(self._script.actions.values()):
            if state[self._first_actor + number] < len(actions):
                yield links + number
        for number in range(links + len(self._script.actions), len(self._moves)):
            if self._owes(number, state):
                yield number

    def _owes(self, number: int, state: State) -> bool:
        key = (number, state[self._subjects[number]])
        if key not in self._debtors:
            self._debtors[key] = bool(self._owed(self.subject(number), state))
        return self._debtors[key]

    def _owed(self, client: Node, state: State) -> Sequence[Action]:
        machine = self._restored(client, state)
        assert isinstance(machine, ScriptedClient)
        return machine.owed

    def move(self, number: int) -> Move:
        return self._moves[number]

    def subject(self, number: int) -> Node:
        """The node whose machine makes the move."""
        return _subject(self._moves[number])

    def take(self, state: State, number: int) -> State:
        """The state after a move; raises BrokenError if the machine does."""
        after = list(state)
        what = 0
        links = len(self._script.links)
        if number < links:
            what, after[self._first_queue + number] = self._popped(state[self._first_queue + number])
        elif number < links + len(self._script.actions):
            slot = self._first_actor + number - links
            what = state[slot]
            after[slot] += 1
        subject = self._subjects[number]
        reaction = self._reaction(number, state[subject], what)
        if reaction.error is not None:
            raise BrokenError(reaction.error)
        self._apply(after, subject, reaction)
        if reaction.seen:
            after[self._past_slot] = self._past_after(state, number, what, reaction.seen)
        return tuple(after)

    def seen(self, state: State, number: int) -> tuple[Observe, ...]:
        """What the machine that moves reports."""
        return self._reaction(number, state[self._subjects[number]], self._what(state, number)).seen

    def message(self, state: State, number: int) -> Message:
        """The message that a `HandOver` hands over."""
        return decode(self._messages.value(self._what(state, number)))

    def action(self, state: State, number: int) -> Action:
        """The action that an `Act` or `Answer` performs."""
        move = self._moves[number]
        if isinstance(move, Act):
            return self._script.actions[move.actor][self._what(state, number)]
        return self._owed(_subject(move), state)[0]

    def _what(self, state: State, number: int) -> int:
        links = len(self._script.links)
        if number < links:
            return self._popped(state[self._first_queue + number])[0]
        return state[self._first_actor + number - links] if isinstance(self._moves[number], Act) else 0

    def _apply(self, state: list[int], subject: int, reaction: Reaction) -> None:
        state[subject] = reaction.node
        for slot, message in reaction.sends:
            state[slot] = self._queues.number((*self._queues.value(state[slot]), message))

    def _popped(self, queue: int) -> tuple[int, int]:
        head, *rest = self._queues.value(queue)
        return head, self._queues.number(tuple(rest))

    # Reactions -----------------------------------------------------------------------------------------------

    def _past_after(self, state: State, number: int, what: int, seen: tuple[Observe, ...]) -> int:
        subject = self._subjects[number]
        key = (state[self._past_slot], number, state[subject], what)
        later = self._later.get(key)
        if later is None:
            later = self._pasts.after(key[0], _subject(self._moves[number]), seen)
            self._later[key] = later
        return later

    def _reaction(self, number: int, node: int, what: int) -> Reaction:
        key = (number, node, what)
        reaction = self._reactions.get(key)
        if reaction is None:
            reaction = self._reactions[key] = self._react(number, node, what)
        return reaction

    def _react(self, number: int, node: int, what: int) -> Reaction:
        move = self._moves[number]
        name = _subject(move)
        machine = self._machines[name]
        machine.restore(self._nodes[self._slot_of[name]].value(node))
        try:
            effects = self._perform(move, machine, what)
        except Exception as error:  # noqa: BLE001 whatever a machine raises is a finding
            return Reaction(node, error=error)
        return self._noted(name, machine, effects)

    def _perform(self, move: Move, machine: Machine, what: int) -> Sequence[Effect]:
        match move:
            case HandOver(sender):
                return machine.handle(sender, decode(self._messages.value(what)), now=0.0)
            case Act(actor):
                action = self._script.actions[actor][what]
                if isinstance(action, Crashes | Restarts):
                    return ()  # all that a broker knows is on its disk, from where it is restored before every move
                assert isinstance(machine, ScriptedClient)
                return machine.perform(action)
            case Answer():
                assert isinstance(machine, ScriptedClient)
                return machine.answer()

    def _noted(self, name: Node, machine: Machine, effects: Sequence[Effect]) -> Reaction:
        node = self._nodes[self._slot_of[name]].number(machine.capture())
        sends = []
        seen = []
        for effect in effects:
            match effect:
                case Send(to, message):
                    sends.append((self._queue_of[name, to], self._messages.number(encode(message))))
                case Observe():
                    seen.append(effect)
                case _:
                    raise NotImplementedError(f"{name}: {type(effect).__name__} has no meaning without time yet")
        return Reaction(node, tuple(sends), tuple(seen))

    # The prologue --------------------------------------------------------------------------------------------

    def _run_prologue(self) -> State:
        """All clients ask for what they want from the beginning; then always the first link that has a message."""
        state = [0] * (self._past_slot + 1)
        for name, slot in self._slot_of.items():
            state[slot] = self._nodes[slot].number(self._machines[name].capture())
        state[self._past_slot] = self._pasts.none
        for name, action in self._script.prologue:
            client = self._restored(name, tuple(state))
            assert isinstance(client, ScriptedClient)
            reaction = self._noted(name, client, client.perform(action))
            self._apply(state, self._slot_of[name], reaction)
            state[self._past_slot] = self._pasts.after(state[self._past_slot], name, reaction.seen)
            self.prologue += [(name, seen) for seen in reaction.seen]
        return self._settled(tuple(state))

    def _settled(self, state: State) -> State:
        while not self.is_quiet(state):
            link = next(n for n in range(len(self._script.links)) if state[self._first_queue + n] != NOTHING_QUEUED)
            self.prologue += [(self._script.links[link][1], seen) for seen in self.seen(state, link)]
            state = self.take(state, link)
        return state


def _subject(move: Move) -> Node:
    """The node whose machine makes the move."""
    match move:
        case HandOver(_, receiver):
            return receiver
        case Act(node) | Answer(node):
            return node
