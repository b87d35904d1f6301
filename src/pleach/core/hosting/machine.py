"""The components of one broker (docs/how-to/components.md, docs/protocols/movement.md).

    effects of the broker ──▶ taken ──▶ for a component: handled at once; its requests are queued
                                  └───▶ for others: left to the driver
    the queue             ──▶ handled by the broker as a client's requests, within the same step

A component is a client without a link. Messages to it never leave the broker, and its state changes in the step in
which the broker delivers: both are committed or neither. So its state always includes all delivered events, and the
events that it published because of them are queued.

Rule 1: a component is at one broker, or in transit in a `MoveState`, and runs only at its broker: it is halted once its
        state is packed, and removed once the state has arrived elsewhere.
Rule 2: requests of components are handled in order and bounded per step: two that answer each other do not block the
        broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

import msgspec

from pleach.core.effects import CancelTimer, Concluded, Effect, LinkDown, LinkUp, Observe, Send, SetTimer
from pleach.core.events.event import Event, check_attributes
from pleach.core.hosting.component import Factory
from pleach.core.hosting.resident import Resident, kind_of
from pleach.core.messages import (
    Advertised,
    ClientRequest,
    Detach,
    Farewell,
    Halted,
    HostingRequest,
    Message,
    Node,
    Refused,
    RequestHost,
    RequestUnhost,
    Resume,
    Subscribed,
    pack,
    unpack,
)
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.seam import Reaction, Reconfiguration
from pleach.errors import ComponentError, EventError, ProtocolError

COMPONENTS_MAX = 1_000  # of one broker
TURNS_MAX = 256  # requests of components in one step of the broker
GO_ON: Final = "hosting:go-on"
RENEW: Final = "hosting:renew:"

NOTHING = Reaction()


class QueuedRequest(msgspec.Struct, frozen=True, array_like=True):
    """A request of a component to its broker."""

    component: Node
    message: ClientRequest | Halted | Farewell


class StartingComponent(msgspec.Struct, array_like=True):
    """A component that is starting, and its requests that are not yet in effect everywhere."""

    operation: str
    awaited: list[str]


class HostingState(msgspec.Struct, array_like=True):
    residents: dict[Node, bytes]  # sorted
    queue: list[QueuedRequest]
    starting: dict[Node, StartingComponent]


class Hosting:
    """`factories`: by kind, the components that this broker can host."""

    name = "hosting"
    accepts: frozenset[type[Message]] = frozenset(get_args(HostingRequest))
    operation = ""  # no locks

    def __init__(self, context: BrokerContext, factories: Mapping[str, Factory]) -> None:
        self._context = context
        self._factories = dict(factories)
        self.here: dict[Node, Resident] = {}  # never replaced: the broker reads it before each message
        self._queue: list[QueuedRequest] = []
        self._starting: dict[Node, StartingComponent] = {}

    @property
    def under_way(self) -> Reconfiguration | None:
        return None

    # Requests of operators ---------------------------------------------------------------------------------------

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        match message:
            case RequestHost():
                return Reaction(self._asked_to_begin(message))
            case RequestUnhost():
                return Reaction([Concluded(message.operation, self._end(message.component))])
        raise ProtocolError(self._context.name, sender, message, "not a request about components")

    def _asked_to_begin(self, request: RequestHost) -> list[Effect]:
        if reason := self._why_not_begin(request):
            return [Concluded(request.operation, reason)]
        name = request.component
        try:
            component = self._factories[request.kind](name)
            resident = Resident(name, self._context.name, request.kind, component, request.incarnation)
            resident.take_snapshot()
        except Exception as error:  # noqa: BLE001 - code of others
            reason = f"{request.kind} cannot be made: {type(error).__name__}: {error}"
            return [Concluded(request.operation, reason)]
        self.here[name] = resident
        wanted = [each.text for each in (*request.subscribe, *request.advertise)]
        self._starting[name] = StartingComponent(request.operation, wanted)
        return [*self._sorted(name, resident.begin(request.subscribe, request.advertise)), *self._begun(name)]

    def _begun(self, name: Node, reason: str = "", *, is_over: bool = False) -> list[Effect]:
        """Conclude the start once all its requests are in effect everywhere: no later event is missed."""
        starting = self._starting.get(name)
        if starting is None or (starting.awaited and not is_over):
            return []
        del self._starting[name]
        return [Concluded(starting.operation, reason)]

    def _why_not_begin(self, request: RequestHost) -> str:
        """Why a component cannot start; empty if it can."""
        context, name = self._context, request.component
        if name in self.here or name in context.sessions:
            return f"{context.name} has a client {name} already: choose another name"
        if name == context.name or name in context.router.neighbours:
            return f"{name} is the name of a broker: choose another one"
        if busy := context.locked_for():
            return f"{context.name} is locked for operation {busy}: ask again when that is over"
        return self.why_not(request.kind)

    def _end(self, name: Node) -> str:
        """Stop a component. Returns why not; empty if it stops."""
        resident = self.here.get(name)
        if resident is None:
            return f"{self._context.name} hosts no component {name}"
        if name in self._starting:
            return f"{name} is only beginning: ask again"
        is_attached = name in self._context.sessions
        if is_attached and (resident.has_failed or resident.client.is_halted):
            return f"{name} moves just now, or ends: ask again"
        if is_attached:
            self._queue.append(QueuedRequest(name, Detach()))
        else:
            del self.here[name]
        return ""

    # Messages between the broker and components ------------------------------------------------------------------

    def taken(self, effects: Sequence[Effect]) -> list[Effect]:
        """Hand effects for components to them; returns the rest, for the driver."""
        present = frozenset(self.here)  # one that ends with the first effect gets no later ones
        left: list[Effect] = []
        for effect in effects:
            match effect:
                case Send(to, message) if to in present:
                    left += self._heard(to, message)
                case LinkUp(to) | LinkDown(to) if to in present:
                    pass
                case _:
                    left.append(effect)
        return left

    def _heard(self, name: Node, message: Message) -> list[Effect]:
        resident = self.here.get(name)
        if resident is None:
            return []
        if isinstance(message, Resume) and message.broker != self._context.name:
            del self.here[name]  # it runs at the other broker
            return self._begun(name, is_over=True)
        effects = self._sorted(name, resident.take(message))
        if isinstance(message, Resume):  # it may have come from elsewhere, where its timer has stayed
            effects += self._sorted(name, resident.client.resume(now=0.0))
        return [*effects, *self._confirmed(resident, message)] if name in self._starting else effects

    def _confirmed(self, resident: Resident, message: Message) -> list[Effect]:
        """While it starts: note a confirmation; a refusal makes the component fail."""
        name, awaited = resident.name, self._starting[resident.name].awaited
        match message:
            case Subscribed(wanted) | Advertised(wanted) if wanted in awaited:
                awaited.remove(wanted)
            case Refused(_, reason) if not resident.has_failed:
                return [*self._sorted(name, resident.fail(reason)), *self._begun(name, reason, is_over=True)]
        return self._begun(name, resident.complaint, is_over=resident.has_failed)

    def _sorted(self, name: Node, effects: Sequence[Effect]) -> list[Effect]:
        """Queue requests; returns observations and timers."""
        left: list[Effect] = []
        for effect in effects:
            match effect:
                case Send(_, message):
                    self._queue.append(QueuedRequest(name, message))  # type: ignore[arg-type]
                case Observe():
                    left.append(msgspec.structs.replace(effect, client=name))
                case SetTimer(after=after):
                    left.append(SetTimer(RENEW + name, after, is_upkeep=True))
                case CancelTimer():
                    left.append(CancelTimer(RENEW + name))
        return left

    def next_said(self) -> QueuedRequest | None:
        """Take the next request from the queue. A component that detaches is removed, unless it has failed."""
        if not self._queue:
            return None
        said = self._queue.pop(0)
        resident = self.here.get(said.component)
        if resident is not None and isinstance(said.message, Detach) and not resident.has_failed:
            del self.here[said.component]
        return said

    @property
    def is_waiting(self) -> bool:
        return bool(self._queue)

    def is_concerned(self, event: Event, source: Node) -> bool:
        """Whether handling this event may change a component. An invalid event does not: it is refused.

        Any event does while requests are queued, since they are handled after the next message. The routing table says
        who gets it, and not what components have subscribed to: a fault may have made the two differ.
        """
        if self._queue:
            return True
        try:
            check_attributes(event.attributes)
        except EventError:
            return False
        return not self.here.keys().isdisjoint(self._context.router.destinations(event.attributes, source))

    def handle_timer(self, name: str, *, now: float) -> Reaction:
        """GO_ON only triggers the broker, which then handles the queue."""
        resident = self.here.get(name.removeprefix(RENEW))
        if resident is None or not name.startswith(RENEW):
            return NOTHING
        return Reaction(self._sorted(resident.name, resident.client.handle_timer(name, now=now)))

    # Moving (overlay/context.py: Residency) -----------------------------------------------------------------------

    def kind_of(self, client: Node) -> str:
        resident = self.here.get(client)
        return resident.kind if resident else ""

    @property
    def running(self) -> list[Node]:
        return sorted(name for name, resident in self.here.items() if not resident.has_failed)

    def why_not(self, kind: str) -> str:
        name = self._context.name
        if kind not in self._factories:
            known = ", ".join(sorted(self._factories)) or "none"
            return f"{name} hosts no components of kind {kind!r}; by its settings it knows: {known}"
        if len(self.here) >= COMPONENTS_MAX:
            return f"{name} has room for {COMPONENTS_MAX:,} components, and takes no more"
        return ""

    def pack(self, client: Node) -> bytes:
        return self.here[client].pack() if client in self.here else b""

    def take_in(self, client: Node, state: bytes) -> None:
        kind = kind_of(state)
        if reason := self.why_not(kind):
            raise ComponentError(client, reason)
        self.here[client] = Resident.unpack(client, state, self._factories[kind])

    # State -------------------------------------------------------------------------------------------------------

    def resume(self) -> Sequence[Effect]:
        renewals = [
            effect
            for name, resident in sorted(self.here.items())
            for effect in self._sorted(name, resident.client.resume(now=0.0))
        ]
        return [*renewals, SetTimer(GO_ON, 0.0)] if self._queue else renewals

    def capture(self) -> bytes:
        residents = {name: self.here[name].pack() for name in sorted(self.here)}
        return pack(HostingState(residents, self._queue, dict(sorted(self._starting.items()))))

    def restore(self, state: bytes) -> None:
        """Raises ComponentError where a component cannot be created: the settings differ from those of the disk."""
        restored = unpack(state, HostingState)
        self.here.clear()
        for name, data in restored.residents.items():
            self.take_in(name, data)
        self._queue, self._starting = restored.queue, restored.starting
