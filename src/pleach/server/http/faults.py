"""Faults on purpose, over HTTP: for tests of how a network finds back. Off, unless a broker has `debug_faults`.

POST /debug/corrupt  {"what": "table", "share": 0.3, "seed": 1}       damage a share of this part of the state
POST /debug/garble   {"peer": "b", "share": 0.5, "seconds": 0.5}      for so long, spoil what is sent to a neighbour
POST /debug/keep     {}                                               keep the state as it is now, for …
POST /debug/rewind   {}                                               … going on from it, as from an old backup

200 done · 400 not a request · 403 faults are off here · 409 it cannot be struck now.
The rules of damage are those of the simulator (faults/). What is damaged is on disk with the next commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from random import Random
from typing import Annotated, TypeAlias, get_args

import msgspec

from pleach.core.effects import Effect, Send
from pleach.core.events.language import parse_filter
from pleach.core.messages import Message, Node, PaceMessage, PubSub, RebuildMessage
from pleach.core.stabilise.twin import ONLY_TREE
from pleach.faults.damage import GHOST_FILTERS, PARTS, Hand, damaged, layers_of, rewound
from pleach.faults.garbling import garbled, ghost
from pleach.server.http.page import HttpResponse, decoded, failure, json_page
from pleach.server.node import BrokerNode

GARBLE_SECONDS_MAX = 60.0
CLOCK_PARTS = ("clock", "all")
SPOILT: frozenset[type] = frozenset((*get_args(PubSub), *get_args(RebuildMessage), *get_args(PaceMessage)))

Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class CorruptBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    what: str
    share: Share = 0.5
    seed: int = 0


class GarbleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    peer: Node
    share: Share = 0.5
    seconds: Annotated[float, msgspec.Meta(ge=0.0, le=GARBLE_SECONDS_MAX)] = 0.5
    seed: int = 0


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Garbler:
    """Spoils what a broker sends to one neighbour, until a time."""

    def __init__(self, broker: Node, peer: Node, hand: Hand, *, until: float) -> None:
        self._broker = broker
        self._peer = peer
        self._hand = hand
        self._until = until

    def is_over(self, now: float) -> bool:
        return now > self._until

    def passed(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Protocols under way are left alone: S1 keeps them out of reach."""
        struck: list[Message] = []
        left: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send) and effect.to == self._peer and effect.message.__class__ in SPOILT:
                struck.append(effect.message)
            else:
                left.append(effect)
        if not struck:
            return effects
        spoilt = garbled(struck, self._broker, self._peer, self._hand, ghost)
        return [*left, *(Send(self._peer, message) for message in spoilt)]


class FaultPages:
    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._kept: bytes | None = None

    @property
    def actions(self) -> Mapping[str, Callable[[bytes], Awaitable[HttpResponse]]]:
        return {
            "/debug/corrupt": self._corrupt,
            "/debug/garble": self._garble,
            "/debug/keep": self._keep,
            "/debug/rewind": self._rewind,
        }

    def _why_not(self) -> HttpResponse | None:
        node = self._node
        if not node.settings.debug_faults:
            remedy = "start it with --debug-faults, if it is there to be broken"
            return failure(HTTPStatus.FORBIDDEN, remedy, f"{node.name} lets nobody damage it")
        if node.settings.stabilise is None:
            return _conflict("give its network [stabilise]", f"{node.name} does not find back by itself")
        if node.broker.operation:
            return _conflict("wait until it is over", f"{node.name} takes part in operation {node.broker.operation}")
        return None

    async def _corrupt(self, data: bytes) -> HttpResponse:
        body = self._why_not() or decoded(data, CorruptBody)
        if isinstance(body, HttpResponse):
            return body
        if body.what not in PARTS:
            return failure(HTTPStatus.BAD_REQUEST, f"one of {', '.join(PARTS)}", f"nothing is known of {body.what!r}")
        state = damaged(self._node.broker.capture(), body.what, self._hand(body.share, body.seed))
        self._node.strike(state, with_clocks=body.what in CLOCK_PARTS)
        return json_page(HTTPStatus.OK, {"corrupted": body.what, "share": body.share})

    async def _garble(self, data: bytes) -> HttpResponse:
        body = self._why_not() or decoded(data, GarbleBody)
        if isinstance(body, HttpResponse):
            return body
        node = self._node
        if body.peer not in node.broker.router.neighbours:
            known = ", ".join(sorted(node.broker.router.neighbours)) or "it has none"
            return failure(HTTPStatus.BAD_REQUEST, f"a neighbour: {known}", f"{body.peer!r} is no neighbour")
        hand = self._hand(body.share, body.seed)
        node.gate.garblers[body.peer] = Garbler(node.name, body.peer, hand, until=node.now + body.seconds)
        return json_page(HTTPStatus.OK, {"garbled": body.peer, "share": body.share, "seconds": body.seconds})

    async def _keep(self, data: bytes) -> HttpResponse:
        body = self._why_not() or decoded(data, NoBody)
        if isinstance(body, HttpResponse):
            return body
        self._kept = self._node.broker.capture()
        return json_page(HTTPStatus.OK, {"kept": len(self._kept)})

    async def _rewind(self, data: bytes) -> HttpResponse:
        body = self._why_not() or decoded(data, NoBody)
        if isinstance(body, HttpResponse):
            return body
        if self._kept is None:
            return _conflict("POST /debug/keep first", f"{self._node.name} has kept no state")
        self._node.strike(rewound(self._node.broker.capture(), self._kept), with_clocks=False)
        return json_page(HTTPStatus.OK, {"rewound": True})

    def _hand(self, share: float, seed: int) -> Hand:
        """What it puts in are filters that are known here, and a few that nobody asked for."""
        broker = self._node.broker
        neighbours, clients = sorted(broker.router.neighbours), broker.sessions.clients
        layers = layers_of(advertisements=broker.router.config.advertisements)
        sources = (*neighbours, *clients)
        known = {entry.filter.text for source in sources for entry in broker.router.received_from(layers[0], source)}
        filters = [parse_filter(text) for text in (*GHOST_FILTERS, *sorted(known))]
        stream, is_paced = Random(f"{broker.name}/{seed}"), self._node.rebuild is not None
        trees = (ONLY_TREE,) if is_paced else ()
        return Hand(stream, share, sources, clients, filters, layers, trees, is_paced=is_paced)


def _conflict(remedy: str, error: str) -> HttpResponse:
    return failure(HTTPStatus.CONFLICT, remedy, error)
