"""The seam between the network and routing: where a reconfiguration changes what happens to pub/sub messages.

Every pub/sub message passes the seam twice: when it arrives, before routing sees it, and when it leaves, after routing
has decided where it goes. On arrival the reconfiguration under way lets it pass (perhaps in the name of another sender,
or without its mark), holds it, or drops it; on departure it chooses other receivers, or marks it (S0 §II, S0 §IV-A).

Rule 1: without a reconfiguration the seam changes nothing and costs one test.
Rule 2: held messages of a link stay in order. Where the reconfiguration keeps causal order, no event overtakes a held
        one of its link either.
Rule 3: what is held is state, and survives a restart.
Rule 4: what was marked for an operation that was given up is dropped: it has come another way. This holds however late
        it comes over the link that the operation had opened, also where another operation has opened that link again.
Rule 5: of an operation that was abandoned before anything marked for it was let in, only what came over that link is
        dropped: a copy by another way is the event itself, whatever is under way by then.
Rule 6: events do not wait for routing messages, nor these for events: a subscriber relies on confirmations, not on
        order. But what was held goes on in the order in which it came: a withdrawn advertisement removes subscriptions
        by which the events before it are routed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from pleach.core.effects import Effect, Send
from pleach.core.messages import EVENTS_TO_BROKERS, ClientRequest, Mark, Marked, Message, Node, PubSub, encode

Passing: TypeAlias = PubSub | Marked | ClientRequest  # what passes the seam
FORSAKEN_MAX = 256  # operations given up, one per lease at most: far more than can be late at once


class Pass(NamedTuple):
    """Give this message to routing, as if `sender` had sent it. `first`: what to send before all that routing sends."""

    sender: Node
    message: PubSub | ClientRequest
    first: Sequence[Send] = ()


class Hold(NamedTuple):
    """Keep it until its link is released."""


class Drop(NamedTuple):
    """Do not give it to routing. `instead`: what to send for it, if anything."""

    reason: str
    instead: Sequence[Send] = ()


Verdict: TypeAlias = Pass | Hold | Drop


class Reconfiguration(Protocol):
    """A reconfiguration under way at this broker, as the seam sees it."""

    @property
    def keeps_causal_order(self) -> bool: ...

    @property
    def peers(self) -> frozenset[Node]:
        """Brokers that may send pub/sub messages though they are not neighbours (yet, or any more)."""
        ...

    def arriving(self, sender: Node, message: Passing) -> Verdict: ...

    def leaving(self, source: Node, cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        """What to send instead of `sends`, which are routing's answer to `cause`, as that came from `source`."""
        ...


class Reaction(NamedTuple):
    """What a machine answers: effects for the driver, and what happens to held messages.

    `released`: links whose held messages go on now. `discarded`: links whose held messages are dropped. `void`: links
    whose held routing messages are dropped; their events stay held. `request`: what an operator has requested at
    another broker, and begins here. `forsaken`: an operation that is given up, and the peer at the other end of the
    link that was opened for it (rule 4). `untouched`: nothing marked for that operation was let in (rule 5).
    `on_behalf`: what a broker requests in the name of one of its clients.
    """

    effects: Sequence[Effect] = ()
    released: Sequence[Node] = ()
    discarded: Sequence[Node] = ()
    request: Message | None = None
    forsaken: tuple[str, Node] | None = None
    untouched: bool = False
    void: Sequence[Node] = ()
    on_behalf: tuple[Node, ClientRequest] | None = None


def join(*parts: Reaction) -> Reaction:
    """One reaction for several, in order. At most one of them requests or forsakes something, none on behalf."""
    return Reaction(
        [effect for each in parts for effect in each.effects],
        [link for each in parts for link in each.released],
        [link for each in parts for link in each.discarded],
        next((each.request for each in parts if each.request), None),
        next((each.forsaken for each in parts if each.forsaken), None),
        any(each.untouched for each in parts),
        [link for each in parts for link in each.void],
    )


class ProtocolMachine(Protocol):
    """A protocol as a state machine. Each message type is accepted by exactly one machine of a broker."""

    @property
    def name(self) -> str:
        """Unique among the machines of a broker. The names of the machine's timers begin with it and a colon."""
        ...

    @property
    def accepts(self) -> frozenset[type[Message]]: ...

    @property
    def under_way(self) -> Reconfiguration | None:
        """The reconfiguration that the seam asks; None while idle."""
        ...

    @property
    def operation(self) -> str:
        """The operation for which this machine has locked the broker; empty if it has not."""
        ...

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction: ...

    def handle_timer(self, name: str, *, now: float) -> Reaction: ...

    def resume(self) -> Sequence[Effect]:
        """At the start, or after a restart: the timers to set."""
        ...

    def capture(self) -> bytes: ...

    def restore(self, state: bytes) -> None: ...


class HeldState(msgspec.Struct, frozen=True, array_like=True):
    held: dict[Node, list[Passing]]
    earlier: dict[Node, list[Passing]]  # written by earlier versions only: precedes `held`
    forsaken: tuple[tuple[str, Node], ...] = ()
    untouched: tuple[str, ...] = ()


@dataclass
class Held:
    """The held messages of one link, in the order in which they came."""

    messages: list[Passing] = field(default_factory=list)
    events: int = 0  # how many of them are events
    bytes: int = 0  # their size on the wire

    def add(self, message: Passing) -> None:
        self.messages.append(message)
        self.events += _is_event(message)
        self.bytes += len(encode(message))

    def has_alike(self, message: Passing) -> bool:
        """Whether an event is held, if this is an event; else whether another routing message or request is."""
        return self.events > 0 if _is_event(message) else self.events < len(self.messages)


class Seam:
    """Asks the reconfiguration under way, and keeps what is held."""

    def __init__(self) -> None:
        self._reconfiguration: Reconfiguration | None = None
        self._held: dict[Node, Held] = {}
        self._forsaken: dict[tuple[str, Node], None] = {}
        self._untouched: dict[str, None] = {}  # operations of rule 5
        self.held_total = 0  # counters for metrics, not captured: messages held …
        self.flooded_total = 0  # … messages flooded in swaps …
        self.discarded: Counter[Node] = Counter()  # … and by link, how often its held messages were dropped
        self.is_idle = True  # nothing is under way, nothing held: messages need not pass the seam

    def join(self, reconfiguration: Reconfiguration | None) -> None:
        """The reconfiguration to ask from now on."""
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
        """What to do with an arriving message; if it is to be held, the seam holds it."""
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
        """What the link held, in order. The caller lets each message arrive again, so that it may be held again."""
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

    def _is_behind(self, sender: Node, message: Passing) -> bool:
        """Whether it has to wait behind held messages, whatever the reconfiguration says (rule 2)."""
        held = self._held.get(sender)
        if held is None or not held.has_alike(message):
            return False
        return not _is_event(message) or (
            self._reconfiguration is not None and self._reconfiguration.keeps_causal_order
        )

    def forsake(self, operation: str, peer: Node) -> None:
        """Drop from now on what the peer has marked for this operation (rule 4)."""
        self._forsaken[operation, peer] = None
        if len(self._forsaken) > FORSAKEN_MAX:
            del self._forsaken[next(iter(self._forsaken))]

    def spare_copies(self, operation: str) -> None:
        """Take copies that were marked for this operation for the events themselves from now on (rule 5)."""
        self._untouched[operation] = None
        if len(self._untouched) > FORSAKEN_MAX:
            del self._untouched[next(iter(self._untouched))]

    def unmarked(self, sender: Node, message: Passing) -> Passing:
        """Rule 5."""
        if not isinstance(message, Marked) or message.operation not in self._untouched:
            return message
        return message if (message.operation, sender) in self._forsaken else message.message

    def has_forsaken(self, peer: Node) -> bool:
        return any(other == peer for _, other in self._forsaken)

    def _judge(self, sender: Node, message: Passing) -> Verdict:
        if isinstance(message, Marked) and (message.operation, sender) in self._forsaken:
            return Drop("it has come another way")
        if self._reconfiguration is None:
            return stale(sender, message)
        return self._reconfiguration.arriving(sender, message)

    def capture(self) -> HeldState:
        return HeldState(
            {link: self._held[link].messages for link in sorted(self._held)},
            {},
            tuple(self._forsaken),
            tuple(self._untouched),
        )

    def restore(self, state: HeldState) -> None:
        self._held = {}
        for held in (state.earlier, state.held):
            for link, messages in held.items():
                for message in messages:
                    self._hold(link, message)
        self._forsaken = dict.fromkeys(state.forsaken)
        self._untouched = dict.fromkeys(state.untouched)
        self._note_idle()


def _is_event(message: Passing) -> bool:
    return message.__class__ in EVENTS_TO_BROKERS


def stale(sender: Node, message: Passing) -> Verdict:
    """What a mark means once its operation is over here, or was given up.

    A flooded event that comes straight from the broker that flooded it is an event like any other. A copy is dropped:
    the event itself has come, or will. A relayed event is one like any other, since the old path is closed.
    """
    if not isinstance(message, Marked):
        return Pass(sender, message)
    if message.mark is Mark.FLOOD and message.origin != sender:
        return Drop("a copy")
    return Pass(sender, message.message)
