"""The seam between the network and routing, where reconfigurations work.

Every pub/sub message passes here twice: when it arrives, before routing sees it, and when it leaves, after routing
has decided where it goes. A reconfiguration under way may let it pass (perhaps in the name of another sender, or
with a mark taken off), hold it, or drop it on arrival; and choose other receivers or put a mark on it on departure
(S0 §II, S0 §IV-A).

Rule 1: without a reconfiguration the seam changes nothing and costs one test.
Rule 2: held messages of a link stay in order. Where the reconfiguration keeps causal order, no event overtakes a held
        one of its link either.
Rule 3: what is held is state, and survives a restart.
Rule 4: what was marked for an operation that was given up has come another way, however late it comes over the link
        that the operation had opened, and whatever that link is by then.
Rule 5: events do not wait for routing messages, nor these for events: what a subscriber is promised it is promised by
        confirmations, not by order. But what was held goes on in the order in which it came: an advertisement that is
        taken back takes the subscriptions with it by which the events before it find their way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from pleach.core.effects import Effect, Send
from pleach.core.messages import EVENTS_TO_BROKERS, ClientRequest, Mark, Marked, Message, Node, PubSub, encode

Passing: TypeAlias = PubSub | Marked | ClientRequest  # what comes by the seam
FORSAKEN_MAX = 256  # operations that were given up, each after a lease: far more than can be late at once


class Pass(NamedTuple):
    """Give this message to routing, as if `sender` had sent it. `first`: to be sent before anything it leads to."""

    sender: Node
    message: PubSub | ClientRequest
    first: Sequence[Send] = ()


class Hold(NamedTuple):
    """Keep it until its link is released."""


class Drop(NamedTuple):
    """It has been seen already, or is not wanted here any more. `instead`: what to send for it, if anything."""

    reason: str
    instead: Sequence[Send] = ()


Verdict: TypeAlias = Pass | Hold | Drop


class Reconfiguration(Protocol):
    """A protocol under way at this broker, as the seam sees it."""

    @property
    def keeps_causal_order(self) -> bool: ...

    @property
    def peers(self) -> frozenset[Node]:
        """From whom pub/sub messages may come now, though they are no neighbours."""
        ...

    def arriving(self, sender: Node, message: Passing) -> Verdict: ...

    def leaving(self, source: Node, cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        """What to send instead. `cause` is the message that led to `sends`, as it arrived, and `source` who sent it."""
        ...


class Reaction(NamedTuple):
    """What a machine answers: effects for the driver, and links whose held messages go on now, or are not wanted.

    `request`: what an operator has asked for elsewhere, and begins here. `forsaken`: an operation that is given up,
    and at the other end of the link that was opened for it. `void`: links whose held routing messages are not wanted;
    their events go on.
    """

    effects: Sequence[Effect] = ()
    released: Sequence[Node] = ()
    discarded: Sequence[Node] = ()
    request: Message | None = None
    forsaken: tuple[str, Node] | None = None
    void: Sequence[Node] = ()


def join(*parts: Reaction) -> Reaction:
    """One answer for several, in order. At most one of them begins or gives up something."""
    return Reaction(
        [effect for each in parts for effect in each.effects],
        [link for each in parts for link in each.released],
        [link for each in parts for link in each.discarded],
        next((each.request for each in parts if each.request), None),
        next((each.forsaken for each in parts if each.forsaken), None),
        [link for each in parts for link in each.void],
    )


class ProtocolMachine(Protocol):
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

    @property
    def operation(self) -> str:
        """What this broker is locked for by this machine; empty where it is free."""
        ...

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction: ...

    def handle_timer(self, name: str, *, now: float) -> Reaction: ...

    def resume(self) -> Sequence[Effect]:
        """After a restart: set again the timers that were set, open again the links that were open."""
        ...

    def capture(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


class HeldState(msgspec.Struct, frozen=True, array_like=True):
    held: dict[Node, list[Passing]]
    earlier: dict[Node, list[Passing]]  # states of earlier versions: what goes on in front of that
    forsaken: tuple[tuple[str, Node], ...] = ()


@dataclass
class Held:
    """What waits of one link, in the order in which it came."""

    messages: list[Passing] = field(default_factory=list)
    events: int = 0  # so many of them
    bytes: int = 0  # as they would be on the wire

    def add(self, message: Passing) -> None:
        self.messages.append(message)
        self.events += _is_event(message)
        self.bytes += len(encode(message))

    def has_alike(self, message: Passing) -> bool:
        """Whether an event waits, if this is one; else whether anything else does."""
        return self.events > 0 if _is_event(message) else self.events < len(self.messages)


class Seam:
    """Asks the reconfiguration under way, and keeps what it holds."""

    def __init__(self) -> None:
        self._reconfiguration: Reconfiguration | None = None
        self._held: dict[Node, Held] = {}
        self._forsaken: dict[tuple[str, Node], None] = {}
        self.held_total = 0  # messages that were ever held, and
        self.flooded_total = 0  # copies that were sent to both others of a swap: for people who watch, no state
        self.discarded: Counter[Node] = Counter()  # how often what a link held was not wanted: the same
        self.is_idle = True  # nothing under way, nothing held: messages need not come by

    def join(self, reconfiguration: Reconfiguration | None) -> None:
        """Who has a say from now on."""
        self._reconfiguration = reconfiguration
        self._note_idle()

    def _note_idle(self) -> None:
        self.is_idle = self._reconfiguration is None and not self._held

    @property
    def peers(self) -> frozenset[Node]:
        return frozenset() if self._reconfiguration is None else self._reconfiguration.peers

    @property
    def held_count(self) -> int:
        return sum(len(held.messages) for held in self._held.values())

    @property
    def held_bytes(self) -> int:
        return sum(held.bytes for held in self._held.values())

    def arrive(self, sender: Node, message: Passing) -> Verdict:
        """What becomes of an arriving message; what is to be held is held."""
        verdict = Hold() if self._is_behind(sender, message) else self._judge(sender, message)
        if isinstance(verdict, Hold):
            self._hold(sender, message)
            self.held_total += 1
            self._note_idle()
        return verdict

    def _hold(self, sender: Node, message: Passing) -> None:
        self._held.setdefault(sender, Held()).add(message)

    def leave(self, source: Node, cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        if self._reconfiguration is None:
            return sends
        left = self._reconfiguration.leaving(source, cause, sends)
        marked = (send.message for send in left if isinstance(send.message, Marked))
        self.flooded_total += sum(message.mark is Mark.FLOOD for message in marked)
        return left

    def take_released(self, link: Node) -> list[Passing]:
        """What the link held, in order. The caller lets each arrive again, so that a new hold holds the rest."""
        held = self._held.pop(link, None)
        self._note_idle()
        return held.messages if held else []

    def discard(self, link: Node) -> None:
        self.take_released(link)
        self.discarded[link] += 1

    def void(self, link: Node) -> None:
        for message in filter(_is_event, self.take_released(link)):
            self._hold(link, message)
        self._note_idle()

    def held_events(self) -> dict[Node, list[Passing]]:
        return {link: list(filter(_is_event, held.messages)) for link, held in sorted(self._held.items())}

    def holds(self, link: Node) -> bool:
        return link in self._held

    def _is_behind(self, sender: Node, message: Passing) -> bool:
        """Whether it has to wait in line, whatever the reconfiguration says of it (rule 2)."""
        held = self._held.get(sender)
        if held is None or not held.has_alike(message):
            return False
        return not _is_event(message) or (
            self._reconfiguration is not None and self._reconfiguration.keeps_causal_order
        )

    def forsake(self, operation: str, peer: Node) -> None:
        """Nothing is wanted any more that the peer has marked for this operation (rule 4)."""
        self._forsaken[operation, peer] = None
        if len(self._forsaken) > FORSAKEN_MAX:
            del self._forsaken[next(iter(self._forsaken))]

    def has_forsaken(self, peer: Node) -> bool:
        return any(other == peer for _, other in self._forsaken)

    def _judge(self, sender: Node, message: Passing) -> Verdict:
        if isinstance(message, Marked) and (message.operation, sender) in self._forsaken:
            return Drop("it has come another way")
        if self._reconfiguration is None:
            return stale(sender, message)
        return self._reconfiguration.arriving(sender, message)

    def capture(self) -> HeldState:
        return HeldState({link: self._held[link].messages for link in sorted(self._held)}, {}, tuple(self._forsaken))

    def restore(self, state: HeldState) -> None:
        self._held = {}
        for held in (state.earlier, state.held):
            for link, messages in held.items():
                for message in messages:
                    self._hold(link, message)
        self._forsaken = dict.fromkeys(state.forsaken)
        self._note_idle()


def _is_event(message: Passing) -> bool:
    return message.__class__ in EVENTS_TO_BROKERS


def stale(sender: Node, message: Passing) -> Verdict:
    """What a mark means once its operation is over here, or was given up.

    A flooded event from where it came among the three is an event like any other. A copy of one has come, or will come,
    on the straight way as well. What is relayed is an event like any other too, once the old path is closed.
    """
    if not isinstance(message, Marked):
        return Pass(sender, message)
    if message.mark is Mark.FLOOD and message.origin != sender:
        return Drop("a copy")
    return Pass(sender, message.message)
