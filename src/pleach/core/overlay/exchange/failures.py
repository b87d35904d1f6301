"""The end of an exchange when a broker of its cycle has lost its memory (docs/protocols/forgotten.md).

    u ─ … ─ R ─ … ─ x ──r── y ─ … ─ v        R knows of no exchange, and has the links of its settings
    │       ◀ asks ▶│                        its neighbours on the cycle, if they are locked, ask the ends of r
    │◀──── ended ───│── ended ─▶ …           both have left r: the exchange is done. Else it is undone

Rule 1: the ends of r decide, since only they remove it. While one of them has not sent its last message over r, or has
        forgotten it, r exists: the exchange is undone. If both have, r is gone, and the exchange is done.
Rule 2: questions and answers travel along the cycle, also through brokers that know of no exchange. These keep a
        question that they have passed on until it is answered.
Rule 3: a broker that hears the end is unlocked at once, and starts over with its neighbours on the cycle: behind
        `ended` each end of a link tells everything again, and what it told before is void. So tables agree.
Rule 4: a broker that takes no part accepts news of a link only from the far end of that link. It removes r when the
        other end of r says so, and adds a when the other end of a does.
Rule 5: a broker that knows that the exchange was done tells this to a neighbour that is an end of r or a and has lost
        its memory. Whether it still holds, the far end of that link knows (rule 4).
Rule 6: `undone` is final. It follows `done` where an end of r has forgotten that it had left r.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto

import msgspec

from pleach.core.effects import Effect, LinkDown, LinkUp, Send
from pleach.core.messages import CycleEnded, CycleForgotten, Node
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.seam import Reaction
from pleach.core.overlay.swaplink import sides
from pleach.core.routing.rewiring import NO_TABLES, NewLink, Rewiring

KEPT_MAX = 64  # exchanges whose end a broker remembers: far more than it can be asked about at once

NOTHING = Reaction()


class OldLink(Enum):
    """The state of r at one of its ends."""

    THERE = auto()
    LEFT = auto()  # this end has sent its last message over r, and has not received that of the other end
    GONE = auto()  # both have sent and received it
    UNKNOWN = auto()  # this end knows of no exchange


class ExchangeFate(Enum):
    """What an end of r decides."""

    DONE = auto()
    UNDONE = auto()
    ASK = auto()  # the other end of r
    WAIT = auto()  # the last message of the other end is on its way


def fate(old: OldLink, *, is_over_old: bool, is_far_blank: bool) -> ExchangeFate:
    """What an end of r decides when it is asked, perhaps by the other end (`is_over_old`), which may know nothing."""
    match old:
        case OldLink.THERE:
            return ExchangeFate.UNDONE
        case OldLink.GONE:
            return ExchangeFate.WAIT if is_over_old and not is_far_blank else ExchangeFate.DONE
        case OldLink.LEFT if is_far_blank:
            return ExchangeFate.UNDONE
        case OldLink.LEFT:
            return ExchangeFate.WAIT if is_over_old else ExchangeFate.ASK
        case OldLink.UNKNOWN:
            return ExchangeFate.UNDONE if is_over_old else ExchangeFate.ASK


class Kept(msgspec.Struct, frozen=True):
    """What a broker keeps of an exchange in which it takes no part, or no longer.

    `asked`: a question that it has passed on, and that is not answered. `is_confirming`: at an end of a, it has asked
    the other end whether a exists.
    """

    end: CycleEnded | None = None
    asked: CycleForgotten | None = None
    is_confirming: bool = False

    @property
    def is_undone(self) -> bool:
        """Rule 6: `undone` may follow `done`, not the reverse."""
        return self.end is not None and not self.end.is_done


class PeerResets:
    """The end of an exchange at one broker: one that takes part (`conclude`), or one that does not (the others)."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    # In the exchange -----------------------------------------------------------------------------------------

    def conclude(self, sender: Node, message: CycleEnded, *, is_new_open: bool) -> Reaction:
        """End the exchange here. `sender`: who says so. `is_new_open`: the far end of a has opened it, too.

        What is held at a goes on if a stays. Else it is dropped: over r it would reach brokers that have it already.
        """
        cycle, name = Cycle.of(message), self._context.name
        old, new = cycle.across_old(name), cycle.across_new(name)
        stays, goes = (new, old) if message.is_done else (old, new)
        kept = [node for node in cycle.along(name) if node != old]
        kept += [] if stays is None else [stays]
        last = self._last_word(goes, message, is_said=is_new_open if goes == new else goes in (sender, message.broker))
        down = [] if goes is None else [LinkDown(goes)]
        effects = [*self._start_over(message, {n: n == sender for n in kept}, gone=down), *last, *down]
        forsaken = None if goes is None else (cycle.operation, goes)
        if not message.is_done and old is not None and new is None:
            # Gray events there have come over a, and must not go over r.
            forsaken = (cycle.operation, cycle.towards_new(name) or "")
        held = [] if new is None else [new]
        if message.is_done:
            return Reaction(effects, released=held, void=held, forsaken=forsaken)
        return Reaction(effects, discarded=held, forsaken=forsaken)

    def _last_word(self, far: Node | None, message: CycleEnded, *, is_said: bool) -> list[Effect]:
        """The answer over the link that is removed. Over r both ends sent it before, unless one has forgotten it."""
        if far is None or not is_said:
            return []
        return [LinkUp(far), Send(far, _again(message, is_answer=True))]

    # Outside -------------------------------------------------------------------------------------------------

    def answer(self, asker: Node, message: CycleEnded) -> Reaction:
        """Tell a broker that asked, or that has lost its memory, how an exchange ended."""
        if asker in self._context.router.neighbours:
            return Reaction(self._start_over(message, {asker: False}))
        return Reaction([LinkUp(asker), Send(asker, _again(message, is_answer=True)), LinkDown(asker)])

    def hear(self, sender: Node, message: CycleEnded, kept: Kept) -> Reaction:
        if message.is_done and kept.is_undone:
            return self.answer(sender, kept.end) if kept.end and not message.is_answer else NOTHING
        cycle, name = Cycle.of(message), self._context.name
        if sender == cycle.across_new(name):
            return Reaction(self._over_new(sender, message, kept))
        is_of_old = sender == cycle.across_old(name) and message.is_done
        effects = self._over_old(sender, message, kept) if is_of_old else self._restarted(sender, message)
        if kept.asked or kept.end is None or kept.end.is_done != message.is_done:
            effects += self._onwards(sender, message)
        return Reaction(effects)

    def must_confirm(self, sender: Node, message: CycleEnded) -> bool:
        """At an end of a, told by another one that the exchange is done: whether the other end has to confirm it."""
        far = Cycle.of(message).across_new(self._context.name)
        return message.is_done and far not in (None, sender, *self._context.router.neighbours)

    def _over_new(self, far: Node, message: CycleEnded, kept: Kept) -> list[Effect]:
        """What the other end of a says of it."""
        is_linked = far in self._context.router.neighbours
        if is_linked and not message.is_done:
            return self._let_go(far, message)
        if is_linked:
            return self._restarted(far, message)
        if not message.is_done or not (kept.end is None or kept.is_confirming):
            return []
        return [self._dial(message, far), *self._start_over(message, {far: True})]

    def _over_old(self, far: Node, message: CycleEnded, kept: Kept) -> list[Effect]:
        """The other end of r says that r is gone, or was told so and asks. If this end knew, r has been added again."""
        if far not in self._context.router.neighbours:
            return [] if message.is_answer else [LinkUp(far), Send(far, _again(message, is_answer=True)), LinkDown(far)]
        is_gone = message.is_answer or kept.end is None
        return self._let_go(far, message) if is_gone else self._restarted(far, message)

    def _let_go(self, far: Node, message: CycleEnded) -> list[Effect]:
        down = LinkDown(far)
        last = [] if message.is_answer else [Send(far, _again(message, is_answer=True))]
        return [*self._start_over(message, {}, gone=[down]), *last, down]

    def _restarted(self, sender: Node, message: CycleEnded) -> list[Effect]:
        """What the sender had told is void; unless this is an answer, it has to be told everything again."""
        router = self._context.router
        if sender not in router.neighbours:
            return []
        if not message.is_answer:
            return self._start_over(message, {sender: True})
        link = NewLink(NO_TABLES, sides.told(router, sender))
        return self._context.rewire(Rewiring(links={sender: link}, parent=router.parent))

    def _onwards(self, sender: Node, message: CycleEnded) -> list[Effect]:
        """Along the cycle. At an end of it: the other end of a knows whether it is there."""
        cycle, name = Cycle.of(message), self._context.name
        neighbours = self._context.router.neighbours
        following = [node for node in cycle.along(name) if node != sender and node in neighbours]
        passed = self._start_over(message, dict.fromkeys(following, False))
        new = cycle.across_new(name)
        if new in neighbours and not message.is_done:
            return [*passed, *self._let_go(new, _again(message, is_answer=False))]
        if new is None or not self.must_confirm(sender, message):
            return passed
        return [*passed, self._dial(message, new), Send(new, _again(message, is_answer=False))]

    def _dial(self, message: CycleEnded, far: Node) -> LinkUp:
        """v dials u, as it did when it was locked."""
        if self._context.name != message.path[-1]:
            return LinkUp(far)
        self._context.addresses[far] = message.address
        return LinkUp(far, message.address)

    def remind(self, peer: Node, ended: Iterable[CycleEnded]) -> list[Effect]:
        """The peer has lost its memory, and with it perhaps a link that is not in its settings (rule 5)."""
        return [effect for end in ended if self._concerns(peer, end) for effect in self.answer(peer, end).effects]

    def _concerns(self, peer: Node, end: CycleEnded) -> bool:
        cycle, name = Cycle.of(end), self._context.name
        if not end.is_done or not cycle.are_beside(name, peer):
            return False
        is_linked = peer in self._context.router.neighbours
        if peer == cycle.across_old(name):
            return not is_linked
        return is_linked and peer in (cycle.u, cycle.v, cycle.x, cycle.y)

    # Links ---------------------------------------------------------------------------------------------------

    def _start_over(
        self, message: CycleEnded, links: Mapping[Node, bool], gone: Sequence[LinkDown] = ()
    ) -> list[Effect]:
        """Tell everything again behind the message. `links`: whether the far end has done so already."""
        router = self._context.router
        told = {n: NewLink(NO_TABLES if h else sides.received(router, n), NO_TABLES) for n, h in links.items()}
        lost = tuple(down.to for down in gone if down.to in router.neighbours)
        rewired = self._context.rewire(Rewiring(gone=lost, links=told, parent=router.parent)) if told or lost else []
        return [*(Send(node, _again(message, is_answer=heard)) for node, heard in links.items()), *rewired]


def _again(message: CycleEnded, *, is_answer: bool) -> CycleEnded:
    return msgspec.structs.replace(message, is_answer=is_answer)
