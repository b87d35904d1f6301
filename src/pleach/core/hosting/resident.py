"""One component at its broker: the component, and a client machine that talks to the broker for it.

The client machine is the one of the client library: a component subscribes, advertises, publishes, renews and moves
like any client. There is no link: messages are handled within the same step of the broker, and committed with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Effect, Observe, Observed, Send
from pleach.core.events.event import Event, check_content
from pleach.core.events.filter import Filter
from pleach.core.hosting.component import PUBLICATIONS_MAX, STATE_BYTES_MAX, Component, Factory, Publication
from pleach.core.messages import Deliver, Detach, Message, Node, PublishRefused, Refused, pack, unpack
from pleach.errors import ComponentError


class ResidentState(msgspec.Struct, frozen=True, array_like=True):
    """The complete state of a component: for the disk, and for a movement."""

    kind: str
    incarnation: int
    client: bytes
    component: bytes
    complaint: str
    has_failed: bool


class Resident:
    """`complaint`: the last error, for operators; a component that `has_failed` does nothing any more.

    Its snapshot is taken after each event: a component without one fails in the step of that event, and capturing the
    broker does not run its code.
    """

    def __init__(self, name: Node, broker: Node, kind: str, component: Component, incarnation: int) -> None:
        self.name = name
        self.kind = kind
        self.client = ClientMachine(name, broker, own_events=False, incarnation=incarnation)
        self.complaint = ""
        self.has_failed = False
        self._component = component
        self._state = b""  # the component's snapshot after its last event

    def begin(self, subscriptions: Sequence[Filter], advertisements: Sequence[Filter]) -> list[Effect]:
        client = self.client
        effects = [*client.attach()]
        for advertised in advertisements:
            effects += client.advertise(advertised.text, advertised)
        for wanted in subscriptions:
            effects += client.subscribe(wanted.text, wanted)
        return effects

    def take(self, message: Message) -> list[Effect]:
        """Handle a message of its broker."""
        if self.has_failed:
            return []
        if isinstance(message, PublishRefused | Refused):
            self.complaint = message.reason
        effects = [*self.client.handle(self.client.broker, message, now=0.0)]
        return [*effects, *self._react(message.event)] if isinstance(message, Deliver) else effects

    def _react(self, event: Event) -> list[Effect]:
        """An exception makes the component fail; the broker and other components continue."""
        try:
            publications = _checked(self._component.on_event(event))
            self.take_snapshot()
        except ComponentError as error:
            return self.fail(f"on {event.id}: {error.reason}")
        except Exception as error:  # noqa: BLE001 - code of others
            return self.fail(f"on {event.id}: {type(error).__name__}: {error}")
        return [effect for each in publications for effect in self.client.publish(each.attributes, each.payload)]

    def fail(self, reason: str) -> list[Effect]:
        """Detach, halted or not: during a movement the broker handles the Detach after its outcome."""
        self.complaint, self.has_failed = reason, True
        seen = Observe(Observed.STATE, detail=f"component {self.name} has failed {reason}")
        return [seen, Send(self.client.broker, Detach())]

    # State ---------------------------------------------------------------------------------------------------

    def take_snapshot(self) -> None:
        """Raises ComponentError where the component has no snapshot, or one that is too large."""
        try:
            state = self._component.snapshot()
        except Exception as error:
            raise ComponentError(self.name, f"it gives no snapshot: {type(error).__name__}: {error}") from error
        if not isinstance(state, bytes) or len(state) > STATE_BYTES_MAX:
            what = f"{len(state):,} bytes" if isinstance(state, bytes) else f"a {type(state).__name__}"
            raise ComponentError(self.name, f"its snapshot is {what}; at most {STATE_BYTES_MAX:,} bytes are allowed")
        self._state = state

    def pack(self) -> bytes:
        """Without the component's state if it has failed."""
        component = b"" if self.has_failed else self._state
        client = self.client
        return pack(
            ResidentState(self.kind, client.incarnation, client.capture(), component, self.complaint, self.has_failed)
        )

    @classmethod
    def unpack(cls, name: Node, data: bytes, factory: Factory) -> Resident:
        """Raises ComponentError where the component cannot be restored."""
        state = unpack(data, ResidentState)
        try:
            component = factory(name)
            if not state.has_failed:
                component.restore(state.component)
        except Exception as error:
            raise ComponentError(name, f"it cannot be restored: {type(error).__name__}: {error}") from error
        resident = cls(name, "", state.kind, component, state.incarnation)
        resident.client.restore(state.client)
        resident._state = state.component
        resident.complaint, resident.has_failed = state.complaint, state.has_failed
        return resident


def kind_of(data: bytes) -> str:
    """Of a packed component; raises ComponentError."""
    try:
        return unpack(data, ResidentState).kind
    except msgspec.MsgspecError as error:
        raise ComponentError("", f"invalid state of a component: {error}") from error


def _checked(given: object) -> list[Publication]:
    """The publications; raises unless all of them are valid."""
    publications = [*given]  # type: ignore[misc]
    if len(publications) > PUBLICATIONS_MAX:
        raise ValueError(f"{len(publications):,} publications; at most {PUBLICATIONS_MAX:,} are allowed")
    for each in publications:
        check_content(dict(each.attributes), each.payload)
    return publications
