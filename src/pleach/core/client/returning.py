"""A client that can return to a stand-in of its dead broker (core/overlay/healing/stand_in.py).

It keeps the requests that its broker has not confirmed and, per publisher, the highest event that it received: without
it, only the broker would know both. It reports both to the stand-in with its subscriptions, sends the unconfirmed
requests again, and drops events that it has received before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Effect, Observe, Observed, Send
from pleach.core.events.event import WITHHELD, EventId
from pleach.core.messages import (
    Advertise,
    ClientRequest,
    Deliver,
    Message,
    Node,
    Publish,
    Published,
    PublishRefused,
    Returning,
    Unsubscribe,
    Unsubscribed,
    pack,
    unpack,
)
from pleach.core.overlay.healing.journal import Marks, covers, in_order, note


class ReturnMemory(msgspec.Struct, array_like=True):
    unconfirmed: list[Publish | Unsubscribe] = []  # in order
    got: Marks = {}
    has_returned: bool = False  # before that, duplicates cannot occur, and nothing is dropped
    heard: Marks = {}  # the `heard` marks that came with messages of the broker


class ReturningState(msgspec.Struct, frozen=True, array_like=True):
    client: bytes
    memory: ReturnMemory


class ReturningClient(ClientMachine):
    @cached_property
    def _remembered(self) -> ReturnMemory:
        return ReturnMemory()

    @property
    def unconfirmed(self) -> list[EventId]:
        """The events that the broker has not confirmed."""
        return [each.event.id for each in self._remembered.unconfirmed if isinstance(each, Publish)]

    def hear(self, beside: Iterable[EventId]) -> None:
        """Called by the driver with the marks that came with a message of the broker (see `Testimony`)."""
        for event in beside:
            note(self._remembered.heard, event)

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        if self.has_had(sender, message):
            return [Observe(Observed.STATE, detail=f"dropped: {message.event.id} came before")]  # type: ignore[attr-defined]
        if sender == self.broker:
            self._note(message)
        return super().handle(sender, message, now=now)

    def has_had(self, sender: Node, message: Message) -> bool:
        """Whether this is an event that was delivered before."""
        memory = self._remembered
        is_again = isinstance(message, Deliver) and memory.has_returned and sender == self.broker
        return is_again and covers(memory.got, message.event.id)  # type: ignore[attr-defined]

    def _note(self, message: Message) -> None:
        memory = self._remembered
        match message:
            case Deliver(event) if event != WITHHELD:
                note(memory.got, event.id)
            case Published(last):
                memory.unconfirmed = [each for each in memory.unconfirmed if not _is_upto(each, last)]
            case PublishRefused(refused):
                memory.unconfirmed = [
                    each for each in memory.unconfirmed if not (isinstance(each, Publish) and each.event.id == refused)
                ]
            case Unsubscribed(name):
                memory.unconfirmed = [each for each in memory.unconfirmed if each != Unsubscribe(name)]

    def _send(self, message: ClientRequest) -> list[Send]:
        return self._noted(super()._send(message))

    def _say_unsaid(self) -> list[Send]:
        return self._noted(super()._say_unsaid())

    def _noted(self, sends: list[Send]) -> list[Send]:
        said = [send.message for send in sends]
        self._remembered.unconfirmed += [each for each in said if isinstance(each, Publish | Unsubscribe)]
        return sends

    def peer_reset(self, peer: Node) -> Sequence[Effect]:
        """The broker has a stand-in: report to it, and send again what was not confirmed."""
        state, memory = self._state, self._remembered
        if peer != state.broker:
            return ()
        heard_early = self._hear_early()
        later = {message.advertisement for message in state.waiting if isinstance(message, Advertise)}
        unsaid = [each for each in self._unhalted() if isinstance(each, Unsubscribe)]
        again, memory.unconfirmed, memory.has_returned = memory.unconfirmed, [], True
        state.waiting = [*(each for each in again if isinstance(each, Publish)), *state.waiting]
        advertised = {name: each for name, each in state.advertisements.items() if name not in later}
        state.unconfirmed = list(advertised)
        got, heard = in_order(memory.got), in_order(memory.heard)
        ended = [each for each in (*again, *unsaid) if isinstance(each, Unsubscribe)]
        last = [each.event.id for each in again if isinstance(each, Publish)][-1:]
        return [
            *heard_early,
            Send(peer, Returning(self.own_events, got, dict(state.subscriptions), advertised, heard, last)),
            *self._send_all(each for each in ended if each.subscription not in state.subscriptions),
            *self._release(),
        ]

    def _hear_early(self) -> list[Effect]:
        """Handle early messages of a broker that died before the client moved there: they will not be sent again."""
        early, self._state.early = self._state.early, {}
        messages = [message for each in early.values() for message in each]
        return [effect for message in messages for effect in self.handle(self.broker, message, now=0.0)]

    def start_over(self, peer: Node) -> Sequence[Effect]:
        """The broker has lost its state and has no stand-in: unconfirmed requests are in doubt."""
        if peer == self.broker:
            self._remembered.unconfirmed = []
        return super().peer_reset(peer)

    def is_changed_by(self, sender: Node, message: Message) -> bool:  # noqa: ARG002
        return True

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> bytes:
        return pack(ReturningState(super().capture(), self._remembered))

    def restore(self, data: bytes) -> None:
        state = unpack(data, ReturningState)
        super().restore(state.client)
        self._remembered = state.memory


def is_of_returning(state: bytes) -> bool:
    """Whether a captured state is that of a `ReturningClient`."""
    try:
        unpack(state, ReturningState)
    except msgspec.ValidationError:
        return False
    return True


def _is_upto(said: Publish | Unsubscribe, last: EventId) -> bool:
    return isinstance(said, Publish) and said.event.id <= last
