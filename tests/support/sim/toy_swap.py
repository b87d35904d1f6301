"""A toy reconfiguration: it changes no routes, but does with links, timers and conclusions all that a real one does.

    operator ── RequestSwap ──▶ a ── Lock, over a new link ──▶ c ── LockAck ──▶ a: done, and the link goes again

Where c is deaf a timer of a ends the operation, with a refusal.
"""

from __future__ import annotations

import msgspec

from pleach.core.broker import Broker
from pleach.core.effects import CancelTimer, Concluded, LinkDown, LinkUp, Observe, Observed, Send, SetTimer
from pleach.core.messages import Lock, LockAck, Message, Node, RequestAdd, RequestRemove, RequestSwap, pack, unpack
from pleach.core.overlay.seam import Reaction
from pleach.core.routing.router import RoutingConfig

PATIENCE_SECONDS = 5.0


class ToyState(msgspec.Struct, array_like=True):
    partner: Node = ""
    operation: str = ""
    is_deaf: bool = False


class ToySwap:
    name = "toy"
    accepts = frozenset({RequestSwap, RequestAdd, RequestRemove, Lock, LockAck})
    under_way = None
    operation = ""

    def __init__(self, *, is_deaf: bool = False) -> None:
        self._state = ToyState(is_deaf=is_deaf)

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:
        match message:
            case RequestSwap(operation, a, b, c):
                self._state.operation, self._state.partner = operation, c
                return Reaction([LinkUp(c), Send(c, Lock(operation, a, b, c)), *self._wait("asked")])
            case Lock(operation) if not self._state.is_deaf:
                return Reaction([LinkUp(sender), Send(sender, LockAck(operation)), LinkDown(sender)])
            case LockAck(operation):
                self._state.operation = ""
                return Reaction([CancelTimer("toy:patience"), LinkDown(sender), Concluded(operation)])
            case RequestAdd(operation) | RequestRemove(operation):
                return Reaction([Concluded(operation)])
        return Reaction()

    def _wait(self, why: str):
        return [SetTimer("toy:patience", PATIENCE_SECONDS), Observe(Observed.STATE, detail=why)]

    def handle_timer(self, name: str, *, now: float) -> Reaction:
        operation, self._state.operation = self._state.operation, ""
        return Reaction([LinkDown(self._state.partner), Concluded(operation, "no answer")])

    def resume(self):
        return self._wait("resumed") if self._state.operation else []

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, ToyState)


class ToyBroker(Broker):
    def __init__(self, name: Node, *, is_deaf: bool = False) -> None:
        self._toy = ToySwap(is_deaf=is_deaf)
        super().__init__(name, RoutingConfig(), machines=[lambda _: self._toy])
