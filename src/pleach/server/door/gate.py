"""The gate in front of a broker machine: it counts messages, refuses some, and calls the hooks of features.

    endpoint ──▶ check ──▶ message_received ──▶ refuse, or broker.handle ──▶ message_handled ──▶ rewrite ──▶ endpoint

Rule 1: what is refused never reaches the broker, so that nothing has to be undone; nor is it journalled, since the
        reason may not hold when the journal is replayed.
Rule 2: a full broker refuses every subscription but those that it has: a refused renewal would take one away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import get_args

from pleach.core.broker import Broker
from pleach.core.effects import Effect, Passed, Send
from pleach.core.messages import (
    CLIENT_REQUESTS,
    OPERATOR,
    Advertise,
    Attach,
    Deliver,
    Detach,
    Farewell,
    Forward,
    Halted,
    HostingRequest,
    Layer,
    Message,
    Node,
    OperatorRequest,
    Permit,
    Presence,
    Publish,
    PublishRefused,
    Rejudge,
    Seek,
    Sought,
    Subscribe,
)
from pleach.core.messages.runs import Run
from pleach.core.overlay.membership.machine import Membership
from pleach.core.routing.clients import refusal
from pleach.errors import ProtocolError
from pleach.server.feature import Feature, Features
from pleach.server.metrics import Counters
from pleach.server.settings import NAME_BYTES_MAX

# From operators, at this broker's own port for them, and from its driver. No broker asks another one by `Seek`, as
# machines in the simulator do: operators ask the broker where a request begins (http/operations.py).
FROM_ITS_DRIVER: frozenset[type] = frozenset((Permit, Rejudge))
NOT_FROM_PEERS: frozenset[type] = FROM_ITS_DRIVER | frozenset(
    (*get_args(OperatorRequest), *get_args(HostingRequest), Seek, Sought, Presence)
)
FROM_CLIENTS: frozenset[type] = (CLIENT_REQUESTS | {Farewell, Halted}) - FROM_ITS_DRIVER


class Gate:
    """A broker, as an endpoint drives it."""

    def __init__(self, broker: Broker, counters: Counters) -> None:
        self.broker = broker
        self.publishers: dict[Node, None] = {}  # clients that have published: those that backpressure stops reading
        self.detached: dict[Node, None] = {}  # clients that detached while this broker leaves the tree
        self._events = counters.events
        self._clients = counters.clients
        self._membership = broker.machine(Membership)
        self.install(Features(()), lambda _: False)

    def install(self, features: Features, is_client: Callable[[Node], bool]) -> None:
        """Call the hooks of these features from here on; not before the journal is replayed.

        `is_client`: whether a peer is connected by the port for clients.
        """
        self._is_client = is_client
        self._refuse_publish = features.hooks(Feature.refuse_publish)
        self._refuse_name = features.hooks(Feature.refuse_name)
        self._received = features.hooks(Feature.message_received)
        self._handled = features.hooks(Feature.message_handled)
        self._run_received = features.hooks(Feature.run_received)
        self._run_handled = features.hooks(Feature.run_handled)
        self._timer_handled = features.hooks(Feature.timer_handled)
        self._rewrite = features.hooks(Feature.rewrite)

    @property
    def name(self) -> Node:
        return self.broker.name

    # Messages ------------------------------------------------------------------------------------------------

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        self._check(sender, message)
        for hook in self._received:
            hook(sender, message)
        effects = self._handle(sender, message, now)
        for handled in self._handled:
            handled(sender, message, effects, now)
        for rewrite in self._rewrite:
            effects = rewrite(effects, now)
        return effects

    def _check(self, sender: Node, message: Message) -> None:
        """Raises ProtocolError where this sender may not send this message."""
        kind = message.__class__
        if kind is Publish or kind is Forward:
            return  # the usual ones; from who may not, the broker refuses them
        if kind not in FROM_CLIENTS and self._is_client(sender):
            raise ProtocolError(
                self.name, sender, message, "only brokers and operators send this; it came from a client"
            )
        if kind in NOT_FROM_PEERS and sender != OPERATOR:
            raise ProtocolError(
                self.name, sender, message, "no broker sends this to another one: a peer is no operator"
            )

    def _handle(self, sender: Node, message: Message, now: float) -> Sequence[Effect]:
        match message:
            case Publish(event) if reason := _first(self._refuse_publish):
                self._events.refused += 1
                return [Send(sender, PublishRefused(event.id, reason))]
            case Publish():
                self.publishers[sender] = None
            case Subscribe() | Advertise() if reason := self._why_not(sender, message):
                self._clients.names_refused += 1
                return [refusal(sender, message, reason)]
            case Attach() | Detach():
                self._note_attached(sender, is_attached=isinstance(message, Attach))
        return self._route(sender, message, now) if message.events else self.broker.handle(sender, message, now=now)

    def _route(self, sender: Node, message: Message, now: float) -> Sequence[Effect]:
        """Handle a message that carries events, whatever wraps them."""
        started = perf_counter()
        effects = self.broker.handle(sender, message, now=now)
        counters = self._events
        counters.match_seconds += perf_counter() - started
        counters.matches += len(message.events)
        kinds = [effect.message.__class__ for effect in effects if isinstance(effect, Send)]
        counters.deliveries += kinds.count(Deliver)
        if isinstance(message, Publish):
            is_refused = kinds[-1:] == [PublishRefused]  # the answer to the publisher comes last
            counters.refused += is_refused
            counters.publishes += not is_refused
        return effects

    def handle_run(self, sender: Node, run: Run) -> Passed | None:
        if self._rewrite:
            return None
        if run.kind is Publish:
            if _first(self._refuse_publish):
                return None
            self.publishers[sender] = None
        for hook in self._run_received:
            hook(sender, run)
        started = perf_counter()
        passed = self.broker.handle_run(sender, run)
        if passed is None:
            return None
        counters = self._events
        counters.match_seconds += perf_counter() - started
        counters.matches += run.count
        counters.deliveries += sum((span.end - span.start) * len(span.clients) for span in passed.spans)
        counters.publishes += run.count if run.kind is Publish else 0
        for handled in self._run_handled:
            handled(sender, run, passed)
        return passed

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        effects = self.broker.handle_timer(name, now=now)
        for handled in self._timer_handled:
            handled(effects, now)
        for rewrite in self._rewrite:
            effects = rewrite(effects, now)
        return effects

    # Refusals ------------------------------------------------------------------------------------------------

    def is_changed_by(self, sender: Node, message: Message) -> bool:
        """What is refused here changes nothing, and must not be handled when the journal is replayed."""
        match message:
            case Publish() if _first(self._refuse_publish):
                return False
            case Subscribe() | Advertise() if self._why_not(sender, message):
                return False
            case _:
                return self.broker.is_changed_by(sender, message)

    def _why_not(self, sender: Node, message: Subscribe | Advertise) -> str:
        """Why nothing can be subscribed or advertised under this name; empty where it can."""
        layer, name = _named(message)
        if len(name.encode()) > NAME_BYTES_MAX:
            return f"its name is longer than {NAME_BYTES_MAX} bytes"
        if self.broker.sessions.holds(layer, sender, name, message.filter):
            return ""  # what is here takes no room, and is confirmed again
        return next((reason for refuse in self._refuse_name if (reason := refuse(sender, message.filter))), "")

    # Peers and state -----------------------------------------------------------------------------------------

    def peer_reset(self, peer: Node) -> Sequence[Effect]:
        self.publishers.pop(peer, None)
        self._note_attached(peer, is_attached=False)
        return self.broker.peer_reset(peer)

    def forget(self, peer: Node) -> None:
        self.publishers.pop(peer, None)

    def _note_attached(self, client: Node, *, is_attached: bool) -> None:
        self.detached.pop(client, None)
        if not is_attached and self._membership is not None and self._membership.is_leaving:
            self.detached[client] = None

    def resume(self, *, now: float) -> Sequence[Effect]:
        return self.broker.resume(now=now)

    def capture(self) -> bytes:
        return self.broker.capture()

    def restore(self, data: bytes) -> None:
        self.broker.restore(data)


def _named(request: Subscribe | Advertise) -> tuple[Layer, str]:
    if isinstance(request, Subscribe):
        return Layer.SUBSCRIPTIONS, request.subscription
    return Layer.ADVERTISEMENTS, request.advertisement


def _first(refusals: Sequence[Callable[[], str]]) -> str:
    """The first reason that is not empty."""
    for refuse in refusals:
        if reason := refuse():
            return reason
    return ""
