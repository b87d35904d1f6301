"""A toy protocol for the tests of the seam: it does everything there that a reconfiguration may do.

It holds links until it is told to let go, sends every event twice with a mark on it, drops the second copy on
arrival, and lets messages pass in another sender's name.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pleach.core.effects import Send
from pleach.core.messages import Forward, Mark, Marked, Message, Node, pack, unpack
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.seam import Drop, Hold, Pass, Reaction, Verdict


class Freeze(Message):
    """Hold what arrives on a link."""

    link: Node


class Thaw(Message):
    """Let go what a link holds."""

    link: Node


class Double(Message):
    """From now on send every event twice, marked."""


class Alias(Message):
    """Take what one neighbour sends as if another had sent it."""

    sender: Node
    name: Node


class ToyState(msgspec.Struct, array_like=True):
    frozen: list[Node]
    doubles: bool
    marks: int
    seen: list[tuple[Node, str]]
    aliases: dict[Node, Node]


class Toy:
    """Machine and reconfiguration in one."""

    name = "toy"
    accepts = frozenset({Freeze, Thaw, Double, Alias})
    operation = ""
    keeps_causal_order = True
    peers: frozenset[Node] = frozenset()

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._state = ToyState([], False, 0, [], {})

    @property
    def under_way(self) -> Toy | None:
        state = self._state
        return self if state.frozen or state.doubles or state.aliases else None

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:
        match message:
            case Freeze(link):
                self._state.frozen.append(link)
            case Thaw(link):
                return self._thaw(link)
            case Double():
                self._state.doubles = True
            case Alias(neighbour, name):
                self._state.aliases[neighbour] = name
        return Reaction()

    def handle_timer(self, name: str, *, now: float) -> Reaction:
        return self._thaw(name.removeprefix("toy:"))

    def _thaw(self, link: Node) -> Reaction:
        self._state.frozen.remove(link)
        return Reaction(released=[link])

    def arriving(self, sender: Node, message: Message) -> Verdict:
        if sender in self._state.frozen:
            return Hold()
        name = self._state.aliases.get(sender, sender)
        if not isinstance(message, Marked):
            return Pass(name, message)
        if (sender, message.operation) in self._state.seen:
            return Drop("the second copy")
        self._state.seen.append((sender, message.operation))
        return Pass(name, message.message)

    def leaving(self, source: Node, cause: Message, sends: Sequence[Send]) -> Sequence[Send]:
        if not self._state.doubles:
            return sends
        doubled: list[Send] = []
        for send in sends:
            if isinstance(send.message, Forward):
                self._state.marks += 1
                copy = Marked(f"copy{self._state.marks}", Mark.FLOOD, self._context.name, send.message)
                doubled += [Send(send.to, copy)] * 2
            else:
                doubled.append(send)
        return doubled

    def resume(self) -> Sequence[Send]:
        return []

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, ToyState)
