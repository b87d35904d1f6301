"""RemoveBroker at b, the leaf that goes (S0 §IV-C; membership.py has the whole exchange).

    ASKED ── removeAck ──▶ HANDED ── close(ab) ──▶ CLOSED ── the last farewell ──▶ gone
      ▲                       │                      │
      └───── a has lost its memory: undone ──────────┘ or, once clients are sent on, begun again

b keeps its tables until it is gone, and what its clients have said since it handed them over: until then it can take
them back.
"""

from __future__ import annotations

from pleach.core.effects import Concluded, Effect, LinkDown, Send
from pleach.core.messages import (
    ClientLeft,
    CloseAB,
    Farewell,
    Handover,
    Left,
    Message,
    Node,
    PublishRefused,
    RemoveAck,
    RemoveNack,
    RemoveReq,
    RequestRemove,
)
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.membership.handover import (
    Changing,
    MembershipPhase,
    MembershipRole,
    MembershipState,
    confirm,
    note,
    redirect,
)
from pleach.core.overlay.seam import Reaction


class Leaver:
    """Made anew for each use: its state is that of membership."""

    def __init__(self, context: BrokerContext, state: MembershipState) -> None:
        self._context = context
        self._state = state

    def handle(self, change: Changing, sender: Node, message: Message) -> Reaction:
        match message:
            case RemoveAck():
                return self._hand_over(change)
            case RemoveNack(_, reason, is_busy):
                self._state.change = None
                request = RequestRemove(change.operation, self._context.name, change.absent)
                if is_busy:
                    return Reaction(self._state.retries.put_off(request, self._state.attempts, reason))
                return Reaction([Concluded(change.operation, reason)])
            case CloseAB(_, address, life):
                change.partner_address, change.partner_life, change.passed_on = address, life, {}
                redirects = [
                    Send(client, redirect(change)) for client, is_told in change.clients.items() if not is_told
                ]
                change.clients = dict.fromkeys(change.clients, True)
                gone = [
                    client for client, is_gone in self._state.sent_on.items() if is_gone and client in change.clients
                ]
                left = [effect for client in gone for effect in self._let_go(change, client)]
                return Reaction(
                    [self._entered(change, MembershipPhase.CLOSED), *redirects, *left, *self._leave_if_alone(change)]
                )
            case Farewell():
                return Reaction([*self._let_go(change, sender), *self._leave_if_alone(change)])
        raise AssertionError(message)

    def _let_go(self, change: Changing, client: Node) -> list[Effect]:
        del change.clients[client]
        return [Send(change.partner, ClientLeft(change.operation, client)), LinkDown(client, is_client=True)]

    def _hand_over(self, change: Changing) -> Reaction:
        """All that the clients have is a's from now on; b keeps its tables to deliver what a sent before."""
        self._context.router.suspend([change.partner])
        sessions = self._context.sessions
        handed = [sessions.hand_over(client) for client in sessions.clients]
        for client in handed:
            sessions.leave_unanswered(client)  # a answers
        change.waiting = {client.name: client.waiting for client in handed}
        change.clients = {client.name: client.name in self._state.sent_on for client in handed}
        return Reaction(
            [Send(change.partner, Handover(change.operation, handed)), self._entered(change, MembershipPhase.HANDED)]
        )

    def _leave_if_alone(self, change: Changing) -> list[Effect]:
        if change.clients:
            return []
        self._state.change = None
        self._context.reset()
        self._state.left, self._state.sent_on = change.partner, {}
        left = Send(change.partner, Left(change.operation))
        return [left, LinkDown(change.partner), Concluded(change.operation)]

    def _entered(self, change: Changing, phase: MembershipPhase) -> Effect:
        change.phase = phase
        return note(change)

    # The heir has lost its memory ----------------------------------------------------------------------------

    def take_back(self, change: Changing) -> list[Effect]:
        """At b: the clients are ours again, with what they have said since we handed them over.

        Whether a has passed their events on we do not know. Those who were told where to go hear of its new life there.
        """
        sessions = self._context.sessions
        reason = f"{self._context.name} passed it on to {change.partner}, which has lost its memory since"
        doubts = [
            Send(client, PublishRefused(event, reason, is_in_doubt=True))
            for client, events in change.passed_on.items()
            for event in events
            if not change.clients.get(client)
        ]
        confirmed = [
            effect for client, waiting in change.waiting.items() for effect in confirm(self._context, client, waiting)
        ]
        said_again = [each for said in change.said for each in sessions.handle(said.client, said.request)]
        return [*doubts, *confirmed, *said_again]

    def begin_again(self, change: Changing) -> Reaction:
        """At b: clients are on their way to one that does not know them. It is to take them over once more."""
        taken_back = self.take_back(change)
        told = self._context.sessions.clients if change.phase is MembershipPhase.CLOSED else ()
        for client in told:
            if change.clients.get(client, True):
                self._state.sent_on[client] = client not in change.clients
        again = self._state.change = Changing(
            change.operation, MembershipRole.LEAVING, change.partner, absent=change.absent
        )
        return Reaction([*taken_back, note(again), Send(change.partner, RemoveReq(change.operation))])
