"""What a broker knows of its neighbours' neighbours, and of stand-ins: so that it can take care of a dead neighbour.

It only keeps what it is told; whoever drives the broker tells (server/healing/), and asks. What is kept of brokers
that are no neighbours any more is not used, and replaced when they are neighbours again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pleach.core.effects import Effect
from pleach.core.messages import Message, NeighbourReport, Node, StandInAddress, pack, unpack
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.seam import Reaction, Reconfiguration


class NeighbourInfoState(msgspec.Struct, array_like=True):
    kin: dict[Node, NeighbourReport] = {}
    stands: dict[Node, StandInAddress] = {}


class NeighbourInfo:
    name = "neighbour_info"
    accepts: frozenset[type[Message]] = frozenset((NeighbourReport,))
    under_way: Reconfiguration | None = None
    operation = ""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._state = NeighbourInfoState()

    def of(self, neighbour: Node) -> NeighbourReport | None:
        """What a neighbour has told of itself; None if it has told nothing."""
        return self._state.kin.get(neighbour) if neighbour in self._context.router.neighbours else None

    @property
    def stands(self) -> Mapping[Node, StandInAddress]:
        return self._state.stands

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        assert isinstance(message, NeighbourReport)
        self._state.kin[sender] = message
        for broker, stand in message.stands.items():
            known = self._state.stands.get(broker)
            if known is None or known.epoch < stand.epoch:
                self._state.stands[broker] = stand
        return Reaction()

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        raise AssertionError(f"{self.name} sets no timers, but {name} fired")

    def resume(self) -> Sequence[Effect]:
        return []

    def capture(self) -> bytes:
        return pack(NeighbourInfoState(dict(sorted(self._state.kin.items())), dict(sorted(self._state.stands.items()))))

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, NeighbourInfoState)
