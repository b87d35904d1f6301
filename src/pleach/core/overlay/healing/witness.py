"""The neighbour of a broker that is dead for good: what it says to the stand-in (healing/stand_in.py).

What is under way with the dead broker is undone or completed first, so that it is clear whether they are neighbours at
all. Tables change hands while an operation is under way, whoever else takes part: then the testimony waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pleach.core.effects import Effect, LinkDown, LinkUp, Observe, Observed, Send, SetTimer
from pleach.core.events.event import Event, EventId
from pleach.core.messages import Bereaved, Node, Sent, Testimony
from pleach.core.overlay.context import Between, BrokerContext
from pleach.core.overlay.healing.journal import in_order, marks_of
from pleach.core.overlay.seam import Reaction, join
from pleach.core.overlay.swaplink.sides import received, told
from pleach.core.routing.rewiring import NO_TABLES, NewLink, Rewiring, Tables, packed

FREE: Final = "standin:free"
FREE_SECONDS = 0.05  # until a locked broker looks again whether it is free …
FREE_LOOKS_MAX = 400  # … for as long as any operation takes that comes to an end at all


class WitnessState(msgspec.Struct, array_like=True):
    inherited: Mapping[Node, list[EventId]] = {}  # by a stand-in: per neighbour, what the dead must have got from it
    testified: dict[Node, Bereaved] = {}  # what stand-ins have not taken over yet: they may die, too
    put_off: list[Bereaved] = []  # we are locked, and testify later
    looks: int = 0
    between: dict[Node, Node] = {}  # per dead peer, who may stand between it and us
    passed: list[Node] = []  # dead peers to which nothing went that has not passed the one between


class Witness:
    """Made anew for each use: its state is part of the stand-in's."""

    def __init__(self, context: BrokerContext, state: WitnessState) -> None:
        self._context = context
        self._state = state

    def mourn(self, peer: Node) -> Reaction:
        """Undo or complete what is under way with the dead broker.

        What it has told and is still held is void: our testimony says what we have, and its stand-in goes on from that.
        """
        state, between = self._state, [each.between(peer) for each in self._context.death_hooks]
        state.between[peer], had_all = next((each for each in between if each.node), Between())
        state.passed = [*(each for each in state.passed if each != peer), *([peer] if had_all else [])]
        return join(*(each.peer_died(peer) for each in self._context.death_hooks), Reaction(void=[peer]))

    def put_off(self, message: Bereaved) -> list[Effect]:
        """Once for each peer: if its stand-in has died meanwhile, the next one is told all of it."""
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
        """The dead broker was leaving the tree, and what it had is ours."""
        return self._state.between.get(peer) == self._context.name

    def respond(self, message: Bereaved) -> list[Effect]:
        state, peer = self._state, message.peer
        between = Between(state.between.pop(peer, ""), peer in state.passed)
        if peer not in self._context.router.neighbours:
            return self._disown(message, between)
        marks = marks_of([*message.marks, *state.inherited.get(peer, ())])
        before = state.testified.get(peer, Bereaved(peer, in_order(marks), []))
        return self.testify(_continued(before, message))

    def _disown(self, message: Bereaved, between: Between) -> list[Effect]:
        """The dead broker is no neighbour, or not any more: then what we had sent it alone may still be wanted.

        What we have heard of is no hearsay there: it may come on its way through the tree later than this word.
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
        """Say what we know, and ask again for what was not answered."""
        router, peer = self._context.router, bereaved.peer
        has, given = received(router, peer), told(router, peer)
        self._state.testified[peer] = bereaved
        link = NewLink(received=has, told=given)
        return [
            Send(peer, self._said(bereaved, given, has)),
            *self._context.rewire(Rewiring(links={peer: link}, parent=router.parent)),
        ]

    def owe(self, mate: Node, events: Sequence[Event]) -> None:
        """A stand-in next to us is to have this by itself; if it dies before, the next one has it from us alone."""
        marks = list(self._state.inherited.get(mate, ()))
        self._state.testified[mate] = Bereaved(mate, marks, [Sent(event) for event in events])

    def served(self, stand_in: Node) -> None:
        """It has taken over what we said."""
        self._state.testified.pop(stand_in, None)


def _continued(before: Bereaved, message: Bereaved) -> Bereaved:
    """What is to be said to the next stand-in: what the one before was told, and what went to it. Nothing came back."""
    return Bereaved(before.peer, before.marks, [*before.entries, *message.entries], message.heard)
