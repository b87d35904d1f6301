"""Requests made at another broker than the one where they begin: that broker is searched for in the whole tree.

    asked ── Seek ──▶ … ──▶ every broker but those behind the one that is sought
    asked ◀── Sought ── …   found, or (from everywhere) not found: then the request is refused

Rule 1: a search takes at most two messages per link. No broker needs to know where another one is.
Rule 2: a broker waits for an answer for a bounded time, since a link that is exchanged meanwhile may lose it.
Rule 3: while the tree changes, a Seek may reach its target on two ways. Both are answered; the second answer is
        ignored. The request is begun once: else a swap would be put off behind itself, and a client moved twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pleach.core.effects import CancelTimer, Concluded, Effect, Send, SetTimer
from pleach.core.messages import OPERATOR, Message, Node, Seek, Sought, SoughtRequest, pack, unpack
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.seam import Reaction, Reconfiguration, join

SEARCH_SECONDS = 10.0
SEARCH: Final = "remote_requests:"  # prefix of timers; the operation follows

NOTHING = Reaction()
TAKEN_MAX = 256  # operations remembered for rule 3: far more than are sought at once


class RequestSearch(msgspec.Struct):
    """`asker`: who gets the answer. `waiting`: neighbours that have not answered yet."""

    asker: Node
    begins_at: Node
    waiting: list[Node]


class RemoteRequestsState(msgspec.Struct):
    """`taken`: operations that have begun here after a search, the oldest first."""

    searches: dict[str, RequestSearch] = {}
    taken: list[str] = []


class RemoteRequests:
    name = "remote_requests"
    accepts: frozenset[type[Message]] = frozenset((Seek, Sought))
    operation = ""  # it locks nobody

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._state = RemoteRequestsState()
        context.on_peer_reset(self.peer_reset)

    @property
    def under_way(self) -> Reconfiguration | None:
        return None

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        match message:
            case Seek(request) if request.begins_at == self._context.name:
                return self._found(sender, request)
            case Seek(request):
                return self.seek(sender, request)
            case Sought(operation, is_found):
                return self._sought(sender, operation, is_found=is_found)
        return NOTHING

    def seek(self, asker: Node, request: SoughtRequest) -> Reaction:
        neighbours = [node for node in self._context.router.neighbours if node != asker]
        if request.begins_at in neighbours:
            neighbours = [request.begins_at]
        if not neighbours:
            return Reaction(self._answer(asker, request.operation, missing=request.begins_at))
        self._state.searches[request.operation] = RequestSearch(asker, request.begins_at, neighbours)
        asked = [Send(neighbour, Seek(request)) for neighbour in neighbours]
        return Reaction([*asked, SetTimer(SEARCH + request.operation, SEARCH_SECONDS)])

    def _found(self, sender: Node, request: SoughtRequest) -> Reaction:
        answer, taken = self._answer(sender, request.operation), self._state.taken
        if request.operation in taken:
            return Reaction(answer)
        taken.append(request.operation)
        del taken[:-TAKEN_MAX]
        return Reaction(answer, request=request)

    def _sought(self, sender: Node, operation: str, *, is_found: bool) -> Reaction:
        search = self._state.searches.get(operation)
        if search is None:
            return NOTHING
        if sender in search.waiting:
            search.waiting.remove(sender)
        if search.waiting and not is_found:
            return NOTHING
        del self._state.searches[operation]
        answer = self._answer(search.asker, operation, missing="" if is_found else search.begins_at)
        return Reaction([CancelTimer(SEARCH + operation), *answer])

    def peer_reset(self, peer: Node) -> Reaction:
        """The peer has forgotten that it was asked: it counts as an answer that nothing was found."""
        asked = [operation for operation, search in self._state.searches.items() if peer in search.waiting]
        return join(*(self._sought(peer, operation, is_found=False) for operation in asked))

    def _answer(self, asker: Node, operation: str, *, missing: Node = "") -> list[Effect]:
        """`missing`: the broker that is sought and not in this direction; empty if it was found."""
        if asker in self._context.router.neighbours:
            return [Send(asker, Sought(operation, is_found=not missing))]
        if asker != OPERATOR:
            return []  # the link was exchanged meanwhile; the broker that began the search has a deadline of its own
        return [Concluded(operation, f"there is no broker {missing} in the tree")] if missing else []

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        """An answer has not come in time. Brokers that wait for ours have a deadline of their own."""
        operation = name.removeprefix(SEARCH)
        search = self._state.searches.pop(operation, None)
        if search is None or search.asker != OPERATOR:
            return NOTHING
        reason = f"{search.begins_at} was not found within {SEARCH_SECONDS:g} s: ask it whether it has begun"
        return Reaction([Concluded(operation, reason)])

    def resume(self) -> Sequence[Effect]:
        return [SetTimer(SEARCH + operation, SEARCH_SECONDS) for operation in sorted(self._state.searches)]

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, RemoteRequestsState)
