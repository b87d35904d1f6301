"""Requests that are made at another broker than the one where they begin: sought in the whole tree, and answered.

    asked ── Seek ──▶ … ──▶ every broker but those behind the one that is sought
    asked ◀── Sought ── …   found, or (from everywhere) not found: then the request is refused

On a tree this takes two messages per link at most. Nobody needs to know where anybody else is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pleach.effects import Concluded, Effect, Send
from pleach.messages import OPERATOR, Message, Node, Seek, Sought, SoughtRequest, pack, unpack
from pleach.overlay.layers import Layers
from pleach.overlay.seam import Handled, Reconfiguration, join

NOTHING = Handled()


class Search(msgspec.Struct):
    """`asker`: who wants to know. `waiting`: neighbours that have not answered yet."""

    asker: Node
    begins_at: Node
    waiting: list[Node]


class CourierState(msgspec.Struct):
    searches: dict[str, Search] = {}


class Courier:
    name = "courier"
    accepts: frozenset[type[Message]] = frozenset((Seek, Sought))
    operation = ""  # it locks nobody

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._state = CourierState()
        layers.survivors.append(self)

    @property
    def under_way(self) -> Reconfiguration | None:
        return None

    def handle(self, sender: Node, message: Message, *, now: float) -> Handled:  # noqa: ARG002
        match message:
            case Seek(request) if request.begins_at == self._layers.name:
                found = self._answer(Search(sender, request.begins_at, []), request.operation, is_found=True)
                return Handled(found, request=request)
            case Seek(request):
                return self.seek(sender, request)
            case Sought(operation, is_found):
                return self._sought(sender, operation, is_found=is_found)
        return NOTHING

    def seek(self, asker: Node, request: SoughtRequest) -> Handled:
        neighbours = [node for node in self._layers.router.neighbours if node != asker]
        if request.begins_at in neighbours:
            neighbours = [request.begins_at]
        search = Search(asker, request.begins_at, neighbours)
        if not neighbours:
            return Handled(self._answer(search, request.operation, is_found=False))
        self._state.searches[request.operation] = search
        return Handled([Send(neighbour, Seek(request)) for neighbour in neighbours])

    def _sought(self, sender: Node, operation: str, *, is_found: bool) -> Handled:
        search = self._state.searches.get(operation)
        if search is None:
            return NOTHING
        if sender in search.waiting:
            search.waiting.remove(sender)
        if search.waiting and not is_found:
            return NOTHING
        del self._state.searches[operation]
        return Handled(self._answer(search, operation, is_found=is_found))

    def reborn(self, peer: Node) -> Handled:
        """It has forgotten that it was asked, and cannot have found anybody who has not begun."""
        asked = [operation for operation, search in self._state.searches.items() if peer in search.waiting]
        return join(*(self._sought(peer, operation, is_found=False) for operation in asked))

    def _answer(self, search: Search, operation: str, *, is_found: bool) -> list[Effect]:
        if search.asker in self._layers.router.neighbours:
            return [Send(search.asker, Sought(operation, is_found))]
        if search.asker != OPERATOR:
            return []  # the link was exchanged meanwhile; whoever began the search has a deadline of its own
        if is_found:
            return []
        return [Concluded(operation, f"there is no broker {search.begins_at} in the tree")]

    def handle_timer(self, name: str, *, now: float) -> Handled:  # noqa: ARG002
        return NOTHING

    def resume(self) -> Sequence[Effect]:
        return []

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, CourierState)
