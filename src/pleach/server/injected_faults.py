"""Faults on purpose: damaged state, and garbled messages to a neighbour. Only with `debug_faults`, for tests.

The rules of damage are those of the simulator (faults/). Damaged state is on disk with the next commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import get_args

from pleach.core.effects import Effect, Send
from pleach.core.events.language import parse_filter
from pleach.core.messages import Message, Node, PaceMessage, Presence, PubSub, RebuildMessage
from pleach.core.stabilise.paced import PacedRebuild
from pleach.core.stabilise.twin import ONLY_TREE
from pleach.faults.damage import GHOST_FILTERS, Hand, damaged, layers_of, rewound
from pleach.faults.garbling import garbled, ghost
from pleach.server.feature import Feature
from pleach.server.parts import NodeParts

CLOCK_PARTS = ("clock", "all")
GARBLED: frozenset[type] = frozenset((*get_args(PubSub), *get_args(RebuildMessage), *get_args(PaceMessage)))


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
