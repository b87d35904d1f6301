"""The target of a movement: the broker that a client goes to.

The client's subscriptions and advertisements are installed from here as if it were here already. The source still has
them, too, so that tables change only on the path between the two (S4 claims 1 and 2). Once the state has come, the
client is here.
"""

from __future__ import annotations

from pleach.core.effects import CancelTimer, Effect, LinkDown, LinkUp, Send, SetTimer
from pleach.core.events.event import Event, EventId
from pleach.core.messages import (
    Approve,
    Detach,
    HandedClient,
    Layer,
    MoveAbort,
    MoveAck,
    MoveCommit,
    MoveState,
    Negotiate,
    Node,
    Reject,
    Resume,
)
from pleach.core.mobility.movements import TargetMovement
from pleach.core.mobility.phases import TargetPhase
from pleach.core.mobility.source import PATIENCE_SECONDS, ROUND_TRIP, TIMER
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.membership.handover import confirm, tables_of
from pleach.core.overlay.seam import Reaction
from pleach.errors import ComponentError

WAITS = ROUND_TRIP + ROUND_TRIP + 1  # delays: approval and state, the client's answer between, and one to be sure
LAYERS = (Layer.ADVERTISEMENTS, Layer.SUBSCRIPTIONS)  # in this order: advertisements open the way for subscriptions


def timers(movement: TargetMovement) -> list[SetTimer]:
    """The queue must be bounded. Until the state has come the target may refuse, whatever the source did."""
    if movement.phase is not TargetPhase.APPROVED:
        return []
    delay = movement.delay_ms_max / 1_000 or PATIENCE_SECONDS / ROUND_TRIP
    return [SetTimer(TIMER + movement.operation, WAITS * delay)]


def nobody(name: str) -> HandedClient:
    """A client without subscriptions and advertisements."""
    return HandedClient(name, own_events=True, subscriptions={}, advertisements={}, confirmed=[], waiting=[])


class MovementTarget:
    """One movement, at its target."""

    def __init__(self, context: BrokerContext, movement: TargetMovement) -> None:
        self._context = context
        self._movement = movement
        self.is_over = False

    def handle(self, message: Negotiate | MoveState | MoveCommit | MoveAbort) -> Reaction:
        match message:
            case Negotiate(client=client):
                return self.approve(client)
            case MoveState(_, client, delivered, component):
                reason = self._why_not_take_in(client.name, component)
                return self._drop(reason) if reason else self._take(client, delivered)
            case MoveCommit():
                self.is_over = True
                return Reaction()
            case MoveAbort() if self._movement.phase is TargetPhase.COMMITTED:
                return self._give_back()
            case MoveAbort():
                return self._drop("it was given up")

    def handle_late(self) -> Reaction:
        """If the client still comes, since delays were longer than promised, it is told that it is unknown here."""
        dropped = self._drop("the state of the client has not come in time")
        if not self._movement.delay_ms_max:
            return dropped
        client = self._movement.client
        return dropped._replace(effects=[*dropped.effects, LinkUp(client, is_client=True)], released=[client])

    def before_reborn(self) -> Reaction:
        """If the state has not come, it never will. If it has, the client is here, unless the source recalls it."""
        if self._movement.phase is TargetPhase.APPROVED:
            return self._drop("it was forgotten on the way")
        self.is_over = True
        return Reaction()

    def approve(self, client: HandedClient) -> Reaction:
        """Prepare for the client as it is now. The approval is sent behind what is installed, and so arrives after it.

        What was queued before is dropped: it reaches the source ahead of this approval.
        """
        movement = self._movement
        movement.queued = []
        told = self._change(movement.handed, client)
        movement.handed = client
        approval = Approve(movement.operation, self._context.client_address, self._context.life)
        return Reaction([*told, Send(movement.before, approval), *timers(movement)])

    def _why_not_take_in(self, client: Node, component: bytes) -> str:
        """Why a component cannot be restored here, and so stays at its source; empty if it can, or if there is none."""
        if not component:
            return ""
        try:
            self._context.component_host.take_in(client, component)
        except ComponentError as error:
            return str(error)
        return ""

    def _take(self, client: HandedClient, delivered: list[EventId]) -> Reaction:
        """The client is here from now on; it connects once its former broker has sent it away."""
        movement = self._movement
        movement.phase = TargetPhase.COMMITTED
        self._context.sessions.take_over(client)
        queued, movement.queued = movement.queued, []
        return Reaction(
            [
                CancelTimer(TIMER + movement.operation),
                Send(movement.before, MoveAck(movement.operation)),
                LinkUp(client.name, is_client=True),
                *self._resumed(client.name),
                *self._context.sessions.deliveries(client.name, lacking(client, queued, delivered)),
                *confirm(self._context, client.name, client.waiting),
            ],
            released=[client.name],
        )

    def _resumed(self, client: Node) -> list[Send]:
        """A component has come with its state; other clients are told by their former broker."""
        if not self._context.component_host.kind_of(client):
            return []
        return [Send(client, Resume(self._movement.operation, self._context.name))]

    def _drop(self, reason: str) -> Reaction:
        movement = self._movement
        self.is_over = True
        told = self._change(movement.handed, nobody(movement.client))
        cancelled = CancelTimer(TIMER + movement.operation)
        return Reaction([cancelled, *told, Send(movement.before, Reject(movement.operation, reason))])

    def _give_back(self) -> Reaction:
        """The client will not come."""
        movement = self._movement
        self.is_over = True
        gone = release(self._context, movement.operation, movement.client, to=movement.before)
        reject = Send(movement.before, Reject(movement.operation, "it was given up"))
        return Reaction([*gone, reject], discarded=[movement.client])

    def _change(self, former: HandedClient, client: HandedClient) -> list[Effect]:
        """Change the routing entries of the client to its present ones: additions before removals."""
        router, before, after = self._context.router, tables_of(former), tables_of(client)
        effects: list[Effect] = []
        for layer in LAYERS:
            for entry in sorted({*after[layer]} - {*before[layer]}):
                effects += self._context.answered(router.add(layer, client.name, entry, None))
        for layer in reversed(LAYERS):
            for entry in sorted({*before[layer]} - {*after[layer]}):
                effects += self._context.answered(router.remove(layer, client.name, entry))
        return effects


def release(context: BrokerContext, operation: str, client: Node, *, to: Node) -> list[Effect]:
    """Release a client that was taken over and has not come. A component is here, and ends: it goes on elsewhere."""
    if client not in context.sessions:
        return []
    ended = [Send(client, Resume(operation, to))] if context.component_host.kind_of(client) else []
    return [*ended, *context.sessions.handle(client, Detach()), LinkDown(client, is_client=True)]


def lacking(client: HandedClient, queued: list[Event], delivered: list[EventId]) -> list[Event]:
    """Those of the queued events that the client has not received, and still wants."""
    known = frozenset(delivered)
    return [event for event in queued if event.id not in known and _is_wanted(client, event)]


def _is_wanted(client: HandedClient, event: Event) -> bool:
    if event.id.publisher == client.name and not client.own_events:
        return False
    return any(wanted.matches(event.attributes) for wanted in client.subscriptions.values())
