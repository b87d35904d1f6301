"""Faults on purpose, over HTTP: for tests of how a network recovers. Off, unless a broker has `debug_faults`.

POST /debug/corrupt  {"what": "table", "share": 0.3, "seed": 1}       damage a share of this part of the state
POST /debug/garble   {"peer": "b", "share": 0.5, "seconds": 0.5}      for so long, garble what is sent to a neighbour
POST /debug/keep     {}                                               keep the state as it is now, for …
POST /debug/rewind   {}                                               … going on from it, as from an old backup
POST /debug/disk     {"full": true, "delay": 0.1, "seconds": 5}       for so long, the disk is full, or slow, or both

200 done · 400 malformed request · 403 faults are off here · 409 no fault can be injected now.
The rules of damage are those of the simulator (faults/). Damaged state is on disk with the next commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from random import Random
from typing import Annotated, TypeAlias, TypeVar, get_args

import msgspec

from pleach.access.principals import Verb
from pleach.core.broker import Broker
from pleach.core.effects import Effect, Send
from pleach.core.events.language import parse_filter
from pleach.core.messages import Message, Node, PaceMessage, Presence, PubSub, RebuildMessage
from pleach.core.stabilise.paced import PacedRebuild
from pleach.core.stabilise.twin import ONLY_TREE
from pleach.faults.damage import GHOST_FILTERS, PARTS, Hand, damaged, layers_of, rewound
from pleach.faults.garbling import garbled, ghost
from pleach.server.feature import Feature
from pleach.server.http.page import Handler, HttpRequest, HttpResponse, HttpStream, failure, json_page, posted
from pleach.server.http.routes import Route, posts
from pleach.server.parts import NodeParts
from pleach.server.settings import BrokerSettings
from pleach.server.storage.obstruction import Obstruction

CLOCK_PARTS = ("clock", "all")
GARBLED: frozenset[type] = frozenset((*get_args(PubSub), *get_args(RebuildMessage), *get_args(PaceMessage)))
GARBLE_SECONDS_MAX = 60.0
DISK_SECONDS_MAX, DISK_DELAY_MAX = 600.0, 10.0

Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Body = TypeVar("Body", bound=msgspec.Struct)


class Garbler:
    """Garbles what a broker sends to one neighbour, until a time."""

    def __init__(self, broker: Node, peer: Node, hand: Hand, *, until: float) -> None:
        self._broker = broker
        self._peer = peer
        self._hand = hand
        self.until = until

    def rewrite(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Messages of reconfigurations stay as they are: S1 excludes faults in them."""
        struck: list[Message] = []
        left: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send) and effect.to == self._peer and effect.message.__class__ in GARBLED:
                struck.append(effect.message)
            else:
                left.append(effect)
        if not struck:
            return effects
        spoilt = garbled(struck, self._broker, self._peer, self._hand, ghost)
        return [*left, *(Send(self._peer, message) for message in spoilt)]


class InjectedFaults(Feature):
    def __init__(self, parts: NodeParts) -> None:
        self._broker, self._endpoint, self._committer = parts.broker, parts.endpoint, parts.committer
        self._clock = parts.clock
        self._kept: bytes | None = None
        self.garblers: dict[Node, Garbler] = {}  # by neighbour

    def rewrite(self, effects: Sequence[Effect], now: float) -> Sequence[Effect]:
        self.garblers = {peer: garbler for peer, garbler in self.garblers.items() if now <= garbler.until}
        for garbler in self.garblers.values():
            effects = garbler.rewrite(effects)
        return effects

    def garble(self, peer: Node, share: float, seed: int, seconds: float) -> None:
        """Garble a share of what is sent to a neighbour, for so long."""
        hand = self._hand(share, seed)
        self.garblers[peer] = Garbler(self._broker.name, peer, hand, until=self._clock() + seconds)

    def corrupt(self, part: str, share: float, seed: int) -> None:
        """Damage a share of a part of the state."""
        state = damaged(self._broker.capture(), part, self._hand(share, seed))
        self._go_on_with(state, with_clocks=part in CLOCK_PARTS)

    def obstruct(self, *, is_full: bool, delay: float, seconds: float) -> bool:
        """The disk is full or slow for so long; False: there is none."""
        return self._committer.obstruct(Obstruction(is_full, delay, time.monotonic() + seconds))

    def keep(self) -> int:
        """Keep the state as it is; returns its bytes."""
        self._kept = self._broker.capture()
        return len(self._kept)

    def rewind(self) -> bool:
        """Go on from the state that was kept, as from an old backup; False: none was."""
        if self._kept is None:
            return False
        self._go_on_with(rewound(self._broker.capture(), self._kept), with_clocks=False)
        return True

    def _go_on_with(self, state: bytes, *, with_clocks: bool) -> None:
        """`with_clocks`: timers are due when the state says."""
        now, gate = self._clock(), self._endpoint.machine
        self._committer.seal()
        gate.restore(state)
        self._endpoint.request(Presence([], []), now=now)  # changes nothing, but is committed, and the state with it
        if with_clocks:
            self._endpoint.perform(gate.resume(now=now), now=now)
        self._committer.replace_state()

    def _hand(self, share: float, seed: int) -> Hand:
        """It puts in filters that are known here, and a few that nobody asked for."""
        broker = self._broker
        neighbours, clients = sorted(broker.router.neighbours), broker.sessions.clients
        layers = layers_of(advertisements=broker.router.config.advertisements)
        sources = (*neighbours, *clients)
        known = {entry.filter.text for source in sources for entry in broker.router.received_from(layers[0], source)}
        filters = [parse_filter(text) for text in (*GHOST_FILTERS, *sorted(known))]
        stream, is_paced = Random(f"{broker.name}/{seed}"), broker.machine(PacedRebuild) is not None
        trees = (ONLY_TREE,) if is_paced else ()
        return Hand(stream, share, sources, clients, filters, layers, trees, is_paced=is_paced)


# Pages ---------------------------------------------------------------------------------------------------------


class CorruptBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    what: str
    share: Share = 0.5
    seed: int = 0


class GarbleBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    peer: Node
    share: Share = 0.5
    seconds: Annotated[float, msgspec.Meta(ge=0.0, le=GARBLE_SECONDS_MAX)] = 0.5
    seed: int = 0


class DiskBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    full: bool = False
    delay: Annotated[float, msgspec.Meta(ge=0.0, le=DISK_DELAY_MAX)] = 0.0
    seconds: Annotated[float, msgspec.Meta(ge=0.0, le=DISK_SECONDS_MAX)] = 1.0


class NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class FaultPages:
    def __init__(self, broker: Broker, faults: InjectedFaults | None, settings: Callable[[], BrokerSettings]) -> None:
        """`faults`: None where they are off."""
        self._broker = broker
        self._faults = faults
        self._settings = settings

    @property
    def routes(self) -> Sequence[Route]:
        return (
            posts("/debug/corrupt", Verb.FAULTS, self._guarded(CorruptBody, self._corrupt)),
            posts("/debug/garble", Verb.FAULTS, self._guarded(GarbleBody, self._garble)),
            posts("/debug/keep", Verb.FAULTS, self._guarded(NoBody, self._keep)),
            posts("/debug/rewind", Verb.FAULTS, self._guarded(NoBody, self._rewind)),
            posts("/debug/disk", Verb.FAULTS, self._allowed(DiskBody, self._obstruct)),
        )

    def _allowed(self, kind: type[Body], act: Callable[[InjectedFaults, Body], HttpResponse]) -> Handler:
        async def answer(asked: HttpRequest) -> HttpResponse | HttpStream:
            faults = self._faults
            if faults is None:
                remedy = "start it with --debug-faults, if it is there to be broken"
                return failure(HTTPStatus.FORBIDDEN, remedy, f"{self._broker.name} lets nobody damage it")

            async def acted(body: Body) -> HttpResponse:
                return act(faults, body)

            return await posted(kind, acted)(asked)

        return answer

    def _guarded(self, kind: type[Body], act: Callable[[InjectedFaults, Body], HttpResponse]) -> Handler:
        """For damage to the state, from which the network must find back."""
        name, broker = self._broker.name, self._broker

        def guarded(faults: InjectedFaults, body: Body) -> HttpResponse:
            if self._settings().stabilise is None:
                return _conflict("give its network [stabilise]", f"{name} does not find back by itself")
            if broker.operation:
                return _conflict("wait until it is over", f"{name} takes part in operation {broker.operation}")
            return act(faults, body)

        return self._allowed(kind, guarded)

    def _corrupt(self, faults: InjectedFaults, body: CorruptBody) -> HttpResponse:
        if body.what not in PARTS:
            return failure(HTTPStatus.BAD_REQUEST, f"one of {', '.join(PARTS)}", f"nothing is known of {body.what!r}")
        faults.corrupt(body.what, body.share, body.seed)
        return json_page(HTTPStatus.OK, {"corrupted": body.what, "share": body.share})

    def _garble(self, faults: InjectedFaults, body: GarbleBody) -> HttpResponse:
        neighbours = self._broker.router.neighbours
        if body.peer not in neighbours:
            known = ", ".join(sorted(neighbours)) or "it has none"
            return failure(HTTPStatus.BAD_REQUEST, f"a neighbour: {known}", f"{body.peer!r} is no neighbour")
        faults.garble(body.peer, body.share, body.seed, body.seconds)
        return json_page(HTTPStatus.OK, {"garbled": body.peer, "share": body.share, "seconds": body.seconds})

    def _keep(self, faults: InjectedFaults, _: NoBody) -> HttpResponse:
        return json_page(HTTPStatus.OK, {"kept": faults.keep()})

    def _rewind(self, faults: InjectedFaults, _: NoBody) -> HttpResponse:
        if not faults.rewind():
            return _conflict("POST /debug/keep first", f"{self._broker.name} has kept no state")
        return json_page(HTTPStatus.OK, {"rewound": True})

    def _obstruct(self, faults: InjectedFaults, body: DiskBody) -> HttpResponse:
        if not faults.obstruct(is_full=body.full, delay=body.delay, seconds=body.seconds):
            return _conflict("give it a data_dir", f"{self._broker.name} has no disk")
        return json_page(HTTPStatus.OK, {"full": body.full, "delay": body.delay, "seconds": body.seconds})


def _conflict(remedy: str, error: str) -> HttpResponse:
    return failure(HTTPStatus.CONFLICT, remedy, error)
