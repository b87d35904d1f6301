"""The role of a dead broker's neighbour: its testimony to the stand-in (healing/stand_in.py).

Operations in progress with the dead broker are undone or completed first, which decides whether the two are neighbours.
Tables move between brokers during any operation: the testimony waits until this broker is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pleach.core.effects import Effect, LinkDown, LinkUp, Observe, Observed, Send, SetTimer
from pleach.core.events.event import Event, EventId
from pleach.core.messages import Bereaved, Node, Sent, Testimony
from pleach.core.overlay.context import BrokerContext, MiddleBroker
from pleach.core.overlay.healing.journal import in_order, marks_of
from pleach.core.overlay.seam import Reaction, join
from pleach.core.overlay.swaplink.sides import received, told
from pleach.core.routing.rewiring import NO_TABLES, NewLink, Rewiring, Tables, packed

FREE: Final = "standin:free"
FREE_SECONDS = 0.05  # between checks of a locked broker …
FREE_LOOKS_MAX = 400  # … longer than any operation takes


class WitnessState(msgspec.Struct, array_like=True):
    inherited: Mapping[Node, list[EventId]] = {}  # at a stand-in: per neighbour, what the dead broker received from it
    testified: dict[Node, Bereaved] = {}  # not yet taken over by stand-ins, which may die too
    put_off: list[Bereaved] = []  # testimonies to give once this broker is free
    looks: int = 0
    between: dict[Node, Node] = {}  # per dead peer, the broker that may lie between it and us
    passed: list[Node] = []  # dead peers to which all events went through the broker between


class Witness:
    """Created for each use; its state is part of the stand-in's."""

    def __init__(self, context: BrokerContext, state: WitnessState) -> None:
        self._context = context
        self._state = state

    def peer_died(self, peer: Node) -> Reaction:
        """Undo or complete operations in progress with the dead broker.

        Its messages that are still held are void: the stand-in continues from our testimony.
        """
        state, between = self._state, [each.between(peer) for each in self._context.death_hooks]
        state.between[peer], had_all = next((each for each in between if each.node), MiddleBroker())
        state.passed = [*(each for each in state.passed if each != peer), *([peer] if had_all else [])]
        return join(*(each.peer_died(peer) for each in self._context.death_hooks), Reaction(void=[peer]))

    def put_off(self, message: Bereaved) -> list[Effect]:
        """Once per peer: if its stand-in has died meanwhile, the next one gets everything."""
        waiting = {each.peer: each for each in self._state.put_off}
        before = waiting.get(message.peer, Bereaved(message.peer, message.marks, []))
        self._state.put_off = [*(waiting | {message.peer: _continued(before, message)}).values()]
        return [SetTimer(FREE, FREE_SECONDS)]

    def take_put_off(self) -> list[Bereaved]:
        waiting, self._state.put_off, self._state.looks = self._state.put_off, [], 0
        return waiting

    def keep_waiting(self) -> list[Effect]:
        state = self._state
        state.looks += 1
        if state.looks < FREE_LOOKS_MAX:
            return [SetTimer(FREE, FREE_SECONDS)]
        locked = f"locked for {self._context.locked_for()}, which does not end"
        return [
            Observe(Observed.STATE, detail=f"standin: no testimony of {each.peer}: {locked}") for each in state.put_off
        ]

    def timers(self) -> Sequence[Effect]:
        return [SetTimer(FREE, FREE_SECONDS)] if self._state.put_off else []

    def is_heir(self, peer: Node) -> bool:
        """The dead broker was leaving the tree, and this broker takes over its clients."""
        return self._state.between.get(peer) == self._context.name

    def respond(self, message: Bereaved) -> list[Effect]:
        state, peer = self._state, message.peer
        between = MiddleBroker(state.between.pop(peer, ""), peer in state.passed)
        if peer not in self._context.router.neighbours:
            return self._disown(message, between)
        marks = marks_of([*message.marks, *state.inherited.get(peer, ())])
        before = state.testified.get(peer, Bereaved(peer, in_order(marks), []))
        return self.testify(_continued(before, message))

    def _disown(self, message: Bereaved, between: MiddleBroker) -> list[Effect]:
        """The dead broker is not a neighbour (any more): only events that we sent to it alone may still be needed.

        `heard` is omitted: those events may arrive through the tree later than this testimony.
        """
        is_wanted = between.node and not between.had_all
        told = Bereaved(message.peer, *((message.marks, message.entries) if is_wanted else ([], [])))
        said = self._said(told, NO_TABLES, NO_TABLES)
        testimony = msgspec.structs.replace(said, is_linked=False, beyond=between.node)
        return [LinkUp(message.peer), Send(message.peer, testimony), LinkDown(message.peer)]

    def _said(self, journal: Bereaved, given: Tables, has: Tables) -> Testimony:
        peer, marks, entries, heard = journal.peer, journal.marks, journal.entries, journal.heard
        return Testimony(self._context.name, peer, packed(given), packed(has), marks, entries, heard)

    def testify(self, bereaved: Bereaved) -> list[Effect]:
        """Send the testimony, and repeat unanswered requests."""
        router, peer = self._context.router, bereaved.peer
        has, given = received(router, peer), told(router, peer)
        self._state.testified[peer] = bereaved
        link = NewLink(received=has, told=given)
        return [
            Send(peer, self._said(bereaved, given, has)),
            *self._context.rewire(Rewiring(links={peer: link}, parent=router.parent)),
        ]

    def owe(self, stand_in: Node, events: Sequence[Event]) -> None:
        """A neighbouring stand-in should have these events; if it dies first, the next one gets them only from us."""
        marks = list(self._state.inherited.get(stand_in, ()))
        self._state.testified[stand_in] = Bereaved(stand_in, marks, [Sent(event) for event in events])

    def served(self, stand_in: Node) -> None:
        """The stand-in has taken over our testimony."""
        self._state.testified.pop(stand_in, None)


def _continued(before: Bereaved, message: Bereaved) -> Bereaved:
    """The testimony to the next stand-in: that to the one before, and what was sent to it. It sent nothing."""
    return Bereaved(before.peer, before.marks, [*before.entries, *message.entries], message.heard)
