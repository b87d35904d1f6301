"""Reports of a broker's neighbours about themselves and about their own neighbours, for the case that one fails.

The driver (server/neighbour_reports.py) sends and reads the reports. Reports of former neighbours are ignored, and
replaced when they become neighbours again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pleach.core.effects import Effect
from pleach.core.messages import Message, NeighbourReport, Node, pack, unpack
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.seam import Reaction, Reconfiguration


class NeighbourInfoState(msgspec.Struct, array_like=True):
    reports: dict[Node, NeighbourReport] = {}


class NeighbourInfo:
    name = "neighbour_info"
    accepts: frozenset[type[Message]] = frozenset((NeighbourReport,))
    under_way: Reconfiguration | None = None
    operation = ""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._state = NeighbourInfoState()

    def of(self, neighbour: Node) -> NeighbourReport | None:
        """The report of a neighbour; None if there is none."""
        return self._state.reports.get(neighbour) if neighbour in self._context.router.neighbours else None

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        assert isinstance(message, NeighbourReport)
        self._state.reports[sender] = message
        return Reaction()

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        raise AssertionError(f"{self.name} sets no timers, but {name} fired")

    def resume(self) -> Sequence[Effect]:
        return []

    def capture(self) -> bytes:
        return pack(NeighbourInfoState(dict(sorted(self._state.reports.items()))))

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, NeighbourInfoState)
