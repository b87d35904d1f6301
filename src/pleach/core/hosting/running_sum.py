"""An example component: sums an attribute, and publishes the sum after each event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from pleach.core.events.event import Event
from pleach.core.hosting.component import Factory, Publication
from pleach.core.messages import Node

SUMMED = "amount"  # events without this attribute, or with another type, count as 0


class RunningSum:
    def __init__(self, name: Node) -> None:
        self._name = name
        self._count = 0
        self._total = 0

    def on_event(self, event: Event) -> Iterable[Publication]:
        amount = event.attributes.get(SUMMED, 0)
        self._count += 1
        self._total += amount if isinstance(amount, int) else 0
        return [Publication({"sums": self._name, "count": self._count, "total": self._total, "of": str(event.id)})]

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode((self._count, self._total))

    def restore(self, state: bytes) -> None:
        self._count, self._total = msgspec.msgpack.decode(state, type=tuple[int, int])


BUILT_IN: Mapping[str, Factory] = MappingProxyType({"running-sum": RunningSum})
