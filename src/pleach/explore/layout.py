"""The layout of a state, and the numbers of moves.

A state is a flat tuple of small numbers:

    node states …   queue of each link …   positions in the scripts …   timers of each broker …   ended   history

Moves are numbered in this order: one per link (hand over its first message), one per actor (its next action), one per
client that replies (its next answer), and TIMERS_MAX per broker (a timer fires).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TypeAlias

from pleach.core.messages import Node
from pleach.explore.interning import Interner
from pleach.explore.transitions import FireTimerAt, Move, subject_of
from pleach.scenario.schedule import Act, Answer, HandOver
from pleach.scenario.script import Crashes, Restarts, Script

State: TypeAlias = tuple[int, ...]

EMPTY_QUEUE = 0  # the number of the empty queue
TIMERS_MAX = 4  # of one broker, that may fire


@dataclass(frozen=True, slots=True)
class Layout:
    """Slots of a state."""

    node: dict[Node, int]
    queue: dict[tuple[Node, Node], int]
    first_queue: int
    first_actor: int  # one past the last queue
    timers: dict[Node, int]
    ended: int  # operations that have ended
    history: int  # what clients have observed
    packed: Struct

    @classmethod
    def of(cls, script: Script) -> Layout:
        nodes = [*script.brokers, *(client.id for client in script.scenario.clients)]
        first_queue = len(nodes)
        first_actor = first_queue + len(script.links)
        first_timers = first_actor + len(script.actions)
        ended = first_timers + len(script.brokers)
        return cls(
            node={name: slot for slot, name in enumerate(nodes)},
            queue={link: first_queue + i for i, link in enumerate(script.links)},
            first_queue=first_queue,
            first_actor=first_actor,
            timers={broker: first_timers + i for i, broker in enumerate(script.brokers)},
            ended=ended,
            history=ended + 1,
            packed=Struct(f"<{ended + 2}I"),
        )


@dataclass(frozen=True, slots=True)
class MoveTable:
    """Moves by number; those before `first_actor` are links, in the script's order."""

    moves: list[Move]
    subjects: list[int]  # slot of the node whose machine makes the move
    first_actor: int
    first_answer: int
    first_timer: int
    first_instant: int  # from here to `first_actor`: links over which a message arrives in the move that sends it
    no_instant_messages: list[int]  # the queues of those links when they are empty

    @classmethod
    def of(cls, script: Script, layout: Layout) -> MoveTable:
        links, clients = script.links, script.scenario.clients
        names = {client.id for client in clients}
        answering = [client.id for client in clients if client.reply]
        places = range(TIMERS_MAX if script.options.timers else 0)
        moves: list[Move] = [
            *(HandOver(*link) for link in links),
            *(Act(actor) for actor in script.actions),
            *(Answer(client) for client in answering),
            *(FireTimerAt(broker, place) for broker in script.brokers for place in places),
        ]
        first_answer = len(links) + len(script.actions)
        instant = sum(bool(names & {*link}) for link in links) if script.options.instant_clients else 0
        return cls(
            moves=moves,
            subjects=[layout.node[subject_of(move)] for move in moves],
            first_actor=len(links),
            first_answer=first_answer,
            first_timer=first_answer + len(answering),
            first_instant=len(links) - instant,
            no_instant_messages=[EMPTY_QUEUE] * instant,
        )


class Outages:
    """Which brokers are down in a state: a broker is down from its script's `Crashes` until its `Restarts`."""

    def __init__(self, script: Script, layout: Layout) -> None:
        self._script = script
        self._layout = layout
        self._of_receivers = [self._down_at(receiver) for _, receiver in script.links]
        self._of_brokers = [each for each in map(self._down_at, script.brokers) if each[1]]

    def is_receiver_down(self, link: int, state: Sequence[int]) -> bool:
        slot, down = self._of_receivers[link]
        return bool(down) and state[slot] in down

    def is_any_down(self, state: State) -> bool:
        return any(state[slot] in down for slot, down in self._of_brokers)

    def _down_at(self, node: Node) -> tuple[int, frozenset[int]]:
        """The slot of a node's position in its script, and the positions at which it is down."""
        actions = self._script.actions.get(node, ())
        slot = self._layout.first_actor + list(self._script.actions).index(node) if actions else 0
        down: list[int] = []
        for place, action in enumerate(actions, start=1):
            is_down = isinstance(action, Crashes) or (place - 1 in down and not isinstance(action, Restarts))
            down += [place] if is_down else []
        return slot, frozenset(down)


class Queues:
    """Queues of messages as numbers; messages are numbers as well."""

    def __init__(self) -> None:
        self._interner: Interner[tuple[int, ...]] = Interner()
        self._popped: dict[int, tuple[int, int]] = {}  # by queue: its first message, and the queue without it
        assert self._interner.number(()) == EMPTY_QUEUE

    def pushed(self, queue: int, message: int) -> int:
        return self._interner.number((*self._interner.value(queue), message))

    def popped(self, queue: int) -> tuple[int, int]:
        """The first message of a queue, and the queue without it."""
        popped = self._popped.get(queue)
        if popped is None:
            head, *rest = self._interner.value(queue)
            popped = self._popped[queue] = head, self._interner.number(tuple(rest))
        return popped
