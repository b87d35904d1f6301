"""The seam between the network and routing, where reconfigurations work.

Every pub/sub message passes here twice: when it arrives, before routing sees it, and when it leaves, after routing
has decided where it goes. A reconfiguration under way may let it pass (perhaps in the name of another sender, or
with a mark taken off), hold it, or drop it on arrival; and choose other receivers or put a mark on it on departure
(S0 §II, S0 §IV-A).

Rule 1: without a reconfiguration the seam changes nothing and costs one test.
Rule 2: nothing overtakes a held message of its link: while a link holds, all that arrives on it is held behind.
Rule 3: what is held is state, and survives a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from pleach.effects import Effect, Send
from pleach.messages import Marked, Message, Node, PubSub


class Pass(NamedTuple):
    """Give this message to routing, as if `sender` had sent it."""

    sender: Node
    message: PubSub


class Hold(NamedTuple):
    """Keep it, and all that follows on its link, until the link is released."""


class Drop(NamedTuple):
    """It has been seen already, or is not wanted any more."""

    reason: str


Verdict: TypeAlias = Pass | Hold | Drop


class Reconfiguration(Protocol):
    """A protocol under way at this broker, as the seam sees it."""

    def arriving(self, sender: Node, message: PubSub | Marked) -> Verdict: ...

    def leaving(self, source: Node, sends: Sequence[Send]) -> Sequence[Send]:
        """What to send instead. `source` is where the message that caused `sends` came from."""
        ...


class Handled(NamedTuple):
    """What a machine answers: effects for the driver, and links whose held messages may go on now."""

    effects: Sequence[Effect] = ()
    released: Sequence[Node] = ()


class Machine(Protocol):
    """A protocol as a state machine. Each message type is accepted by exactly one machine of a broker."""

    @property
    def name(self) -> str:
        """Unique among the machines of a broker; the machine's timers are named `name:…`."""
        ...

    @property
    def accepts(self) -> frozenset[type[Message]]: ...

    @property
    def under_way(self) -> Reconfiguration | None:
        """What takes part at the seam just now; None while idle."""
        ...

    def handle(self, sender: Node, message: Message, *, now: float) -> Handled: ...

    def handle_timer(self, name: str, *, now: float) -> Handled: ...

    def capture(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


class HeldState(msgspec.Struct, frozen=True, array_like=True):
    held: dict[Node, list[PubSub | Marked]]


class Seam:
    """Asks the reconfiguration under way, and keeps what it holds."""

    def __init__(self) -> None:
        self._reconfiguration: Reconfiguration | None = None
        self._held: dict[Node, list[PubSub | Marked]] = {}
        self.is_idle = True  # nothing under way, nothing held: messages need not come by

    def join(self, reconfiguration: Reconfiguration | None) -> None:
        """Who has a say from now on."""
        self._reconfiguration = reconfiguration
        self._note_idle()

    def _note_idle(self) -> None:
        self.is_idle = self._reconfiguration is None and not self._held

    def arrive(self, sender: Node, message: PubSub | Marked) -> Pass | None:
        """What routing gets of an arriving message now, if anything."""
        if sender in self._held:
            self._held[sender].append(message)
            return None
        return self._judge(sender, message)

    def leave(self, source: Node, sends: Sequence[Send]) -> Sequence[Send]:
        return sends if self._reconfiguration is None else self._reconfiguration.leaving(source, sends)

    def take_released(self, link: Node) -> list[PubSub | Marked]:
        """What the link held, in order; the caller lets each arrive again, so that a new hold holds the rest."""
        released = self._held.pop(link, [])
        self._note_idle()
        return released

    def _judge(self, sender: Node, message: PubSub | Marked) -> Pass | None:
        if self._reconfiguration is None:
            return Pass(sender, _unmarked(message))
        match self._reconfiguration.arriving(sender, message):
            case Pass() as passed:
                return passed
            case Hold():
                self._held[sender] = [message]
                self._note_idle()
            case Drop():
                pass
        return None

    def capture(self) -> HeldState:
        return HeldState({link: list(messages) for link, messages in sorted(self._held.items())})

    def restore(self, state: HeldState) -> None:
        self._held = {link: list(messages) for link, messages in state.held.items()}
        self._note_idle()


def _unmarked(message: PubSub | Marked) -> PubSub:
    return message.message if isinstance(message, Marked) else message
