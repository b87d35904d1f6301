"""Transitions of single machines, computed once each.

A machine is pure: the same state and the same message give the same effects. So each transition is computed once, by
restoring that one machine, and stored. Restoring before every transition also shows that a broker's behaviour depends
on its captured state alone. States and messages have small numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from pleach.core.effects import CancelTimer, Concluded, Effect, LinkDown, LinkUp, Observe, Send, SetTimer, Withhold
from pleach.core.messages import OPERATOR, Message, Node, decode, encode
from pleach.errors import LinkError
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.scenario.schedule import Act, Answer, HandOver
from pleach.scenario.script import Action, Crashes, Restarts, ScriptedClient, ScriptedRequests

Machine: TypeAlias = BrokerMachine | ScriptedClient


class FireTimerAt(NamedTuple):
    """A timer fires: the one at this place among those that a broker has set."""

    node: Node
    place: int


Move: TypeAlias = HandOver | Act | Answer | FireTimerAt


class Transition(NamedTuple):
    """The effect of a move on a machine: its next state, and its effects."""

    node: int
    sends: tuple[tuple[int, int], ...] = ()  # slot of the link's queue, message
    seen: tuple[Observe, ...] = ()
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    concluded: tuple[Concluded, ...] = ()
    is_crash: bool = False
    error: Exception | None = None  # what the machine raised instead
    has_more: bool = False  # timers, operations or a crash; most transitions have none


class BrokenError(Exception):
    """A machine raised where it should have reacted: a finding about the machine, not an error of the search."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{type(error).__name__}: {error}")


def subject_of(move: Move) -> Node:
    """The node whose machine makes the move."""
    match move:
        case HandOver(_, receiver):
            return receiver
        case Act(node) | Answer(node) | FireTimerAt(node):
            return node


class TransitionTable:
    def __init__(
        self,
        machines: Mapping[Node, Machine],
        actions: Mapping[Node, Sequence[Action]],
        queue_of: Mapping[tuple[Node, Node], int],
    ) -> None:
        self._machines = machines
        self._actions = actions
        self._queue_of = queue_of
        self._nodes: dict[Node, Interner[bytes]] = {name: Interner() for name in machines}
        self._messages: Interner[bytes] = Interner()
        self._timers: Interner[tuple[str, ...]] = Interner()
        self._known: dict[tuple[int, int, int], Transition] = {}
        self.no_timers = self._timers.number(())

    # Numbers -------------------------------------------------------------------------------------------------

    def capture(self, name: Node) -> int:
        """The number of the state that a machine is in."""
        return self._nodes[name].number(self._machines[name].capture())

    def restored(self, name: Node, node: int) -> Machine:
        """The machine in this state; valid until the next call."""
        machine = self._machines[name]
        machine.restore(self._nodes[name].value(node))
        return machine

    def message(self, number: int) -> Message:
        return decode(self._messages.value(number))

    def timers(self, number: int) -> tuple[str, ...]:
        """The names of timers that are set, sorted."""
        return self._timers.value(number)

    def timers_after(self, number: int, fired: int | None, changes: Sequence[SetTimer | CancelTimer]) -> int:
        """`fired`: the place of the one that has just fired."""
        names = list(self._timers.value(number))
        if fired is not None:
            del names[fired]
        kept = dict.fromkeys(names)
        for change in changes:
            match change:
                case SetTimer(name):
                    kept[name] = None
                case CancelTimer(name):
                    kept.pop(name, None)
        return self._timers.number(tuple(sorted(kept)))

    # Reactions -----------------------------------------------------------------------------------------------

    def of(self, number: int, move: Move, node: int, what: int) -> Transition:
        """The transition of the move of this number; `what`: the message, the place in the script, or the timers."""
        key = (number, node, what)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._react(move, node, what)
        return known

    def _react(self, move: Move, node: int, what: int) -> Transition:
        name = subject_of(move)
        machine = self.restored(name, node)
        if isinstance(move, Act) and isinstance(self._actions[name][what], Crashes):
            return Transition(node, is_crash=True, has_more=True)  # its disk holds the whole state
        try:
            return self.noted(name, self._perform(move, machine, what))
        except Exception as error:  # noqa: BLE001 whatever a machine raises is a finding
            return Transition(node, error=error)

    def _perform(self, move: Move, machine: Machine, what: int) -> Sequence[Effect]:
        match move:
            case HandOver(sender):
                return machine.handle(sender, self.message(what), now=0.0)
            case Act(actor):
                return _act(machine, self._actions[actor][what])
            case Answer():
                assert isinstance(machine, ScriptedClient)
                return machine.answer()
            case FireTimerAt(_, place):
                assert not isinstance(machine, ScriptedClient)
                return machine.handle_timer(self._timers.value(what)[place], now=0.0)

    def noted(self, name: Node, effects: Sequence[Effect]) -> Transition:
        """The state that the machine is in now, with these effects."""
        sends: list[tuple[int, int]] = []
        seen: list[Observe] = []
        timers: list[SetTimer | CancelTimer] = []
        concluded: list[Concluded] = []
        for effect in effects:
            match effect:
                case Send(to, message):
                    if (name, to) not in self._queue_of:
                        raise LinkError(name, to)
                    sends.append((self._queue_of[name, to], self._messages.number(encode(message))))
                case Observe():
                    seen.append(effect)
                case SetTimer() | CancelTimer():
                    timers.append(effect)
                case Concluded():
                    concluded.append(effect)
                case LinkUp() | LinkDown():
                    pass  # all links that may open exist from the start
                case Withhold():
                    pass  # what is queued here is in flight
        has_more = bool(timers or concluded)
        node = self.capture(name)
        return Transition(node, tuple(sends), tuple(seen), tuple(timers), tuple(concluded), has_more=has_more)


def _act(machine: Machine, action: Action) -> Sequence[Effect]:
    if isinstance(machine, ScriptedClient):
        assert not isinstance(action, Crashes | Restarts | ScriptedRequests)
        return machine.perform(action)
    match action:
        case Restarts():
            return machine.resume(now=0.0)
        case ScriptedRequests(request):
            return machine.handle(OPERATOR, request, now=0.0)
        case _:
            raise AssertionError(f"{machine.name} is not a client and cannot perform {action}")


T = TypeVar("T", bound=Hashable)


class Interner(Generic[T]):
    """Numbers from 0 in the order in which values are first seen; equal values have one number."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._values: list[T] = []

    def number(self, value: T) -> int:
        number = self._numbers.setdefault(value, len(self._values))
        if number == len(self._values):
            self._values.append(value)
        return number

    def value(self, number: int) -> T:
        return self._values[number]
