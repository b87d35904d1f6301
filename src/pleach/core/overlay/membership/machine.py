"""AddBroker(a, b) and RemoveBroker(b): the messages of S0 §IV-B and §IV-C (docs/protocols/membership.md).

AddBroker                              RemoveBroker
  b                a                     client           b                a
  │ connect ──────▶│ takes b on          │                │ removeReq ────▶│ locked
  │◀──── connectAck │ (with its tables)   │                │◀──── removeAck │
  │ adopts          │                     │                │ handover ─────▶│ serves the clients from now on
                                          │◀─── redirect   │◀───── close(ab) │
                                          │ farewell ─────▶│ clientLeft ───▶│ takes what the client sends straight
                                          │                │ left ─────────▶│ link a–b is gone

In S0 a calls the clients. Real clients dial, so b tells them where to go; `redirect` is the last message that b has for
a client, and so is close(ab) for it, as `farewell` is close(ba). Between handover and farewell b passes on what its
clients still send, and a answers: nothing that a client asked for is lost or done twice. b keeps its tables until it is
gone, and what its clients have said since it handed them over, so that it can take them back (failures.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pleach.core.effects import Concluded, Effect, LinkDown, LinkUp, Send
from pleach.core.messages import (
    ClientLeft,
    CloseAB,
    Connect,
    ConnectAbandoned,
    ConnectAck,
    ConnectNack,
    Farewell,
    HandedClient,
    Handover,
    Left,
    MembershipMessage,
    Message,
    Node,
    RemoveAbandoned,
    RemoveAck,
    RemoveNack,
    RemoveReq,
    RequestAdd,
    RequestRemove,
    Said,
    pack,
    unpack,
)
from pleach.core.overlay.abandonment import OpenOperation
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.membership.abandoning import MembershipAbandoning
from pleach.core.overlay.membership.failures import MembershipFailures
from pleach.core.overlay.membership.handover import HandoverSeam, confirm, tables_of
from pleach.core.overlay.membership.state import Changing, MembershipPart, MembershipState
from pleach.core.overlay.membership.transitions import LATE, MembershipPhase, MembershipRole, Speaker
from pleach.core.overlay.retries import PutOff
from pleach.core.overlay.seam import Reaction
from pleach.core.overlay.swaplink import sides
from pleach.core.routing.rewiring import NO_TABLES, NewLink, Rewiring, packed, unpacked
from pleach.errors import ProtocolError

NOTHING = Reaction()


class Membership:
    name = "membership"
    accepts = frozenset(get_args(MembershipMessage))

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._part = MembershipPart(context)
        self._abandoning = MembershipAbandoning(self._part)
        context.on_peer_reset(MembershipFailures(self._part).peer_reset)
        context.abandonable += [self, PutOff(lambda: self._state.retries)]

    @property
    def _state(self) -> MembershipState:
        return self._part.state

    @property
    def under_way(self) -> HandoverSeam | None:
        change = self._state.change
        return None if change is None else HandoverSeam(change, self._context.sessions.access_of)

    @property
    def operation(self) -> str:
        return self._part.operation

    @property
    def left(self) -> Node:
        """The neighbour that this broker had, if it has been removed from the tree; else empty."""
        return self._state.left

    @property
    def is_leaving(self) -> bool:
        """Whether this broker's clients are handed over, or about to be."""
        return self._state.change is not None and self._state.change.role is MembershipRole.LEAVING

    @property
    def handed_to(self) -> Node:
        """The broker to which this one has handed its clients; else empty."""
        change = self._state.change
        return change.partner if change and self.is_leaving and change.phase > MembershipPhase.ASKED else ""

    @property
    def departing(self) -> tuple[Node, ...]:
        """Clients that have been told where to go, and have not said farewell."""
        change = self._state.change
        return tuple(change.clients) if change and self.is_leaving and change.phase is MembershipPhase.CLOSED else ()

    @property
    def unawaited(self) -> frozenset[Node]:
        """Clients of a broker that leaves which need not be waited for unless they are back."""
        return frozenset(() if self._state.change is None else self._state.change.absent)

    @property
    def open_operations(self) -> list[OpenOperation]:
        change = self._state.change
        return [] if change is None else [self._abandoning.opened(change)]

    def abandon(self, operation: str) -> Reaction:  # noqa: ARG002 - there is one at most
        change = self._state.change
        assert change is not None, "it is listed"
        return self._abandoning.abandon(change)

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        match message:
            case RequestAdd():
                return self._asked_to_add(message)
            case RequestRemove():
                return self._asked_to_remove(message, attempts=0)
            case Connect():
                return self._connect(sender, message)
            case RemoveReq():
                return self._remove_req(sender, message)
            case ConnectAbandoned():
                return self._abandoning.disconnected(sender)
        return NOTHING if self._is_late(sender, message) else self._pursue(sender, message)

    def _pursue(self, sender: Node, message: Message) -> Reaction:
        change = self._state.change
        reason = change.why_not(sender, message) if change else "no broker is being added or removed here"
        if change is None or reason:
            raise ProtocolError(self._context.name, sender, message, reason)
        match change.role:
            case MembershipRole.JOINING:
                return self._while_joining(change, message)
            case MembershipRole.LEAVING:
                return self._while_leaving(change, sender, message)
            case MembershipRole.INHERITING:
                return self._while_inheriting(change, message)

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        waiting = self._state.retries.take(name)
        if waiting is None or not isinstance(waiting.request, RequestRemove):
            return NOTHING
        return self._asked_to_remove(waiting.request, attempts=waiting.attempts)

    def resume(self) -> Sequence[Effect]:
        return self._state.retries.timers()

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, state: bytes) -> None:
        self._part.state = unpack(state, MembershipState)

    def _is_late(self, sender: Node, message: Message) -> bool:
        """Rules 3 and 4 of transitions.py."""
        if isinstance(message, Farewell):
            return self._is_noted(sender)
        return isinstance(message, LATE) and message.operation != self.operation  # type: ignore[attr-defined]

    def _is_noted(self, client: Node) -> bool:
        """Whether nothing more is to be done about a farewell.

        The driver may have said it in the name of a client that was away. Or the client was sent on before the heir
        lost its memory, and has to be handed over once more.
        """
        state = self._state
        if state.change is None and state.left:
            return True
        if state.change is not None and state.change.phase is MembershipPhase.CLOSED:
            return self.is_leaving and client not in state.change.clients
        is_early = client in state.sent_on
        if is_early:
            state.sent_on[client] = True
        return is_early

    # AddBroker -----------------------------------------------------------------------------------------------

    def _asked_to_add(self, request: RequestAdd) -> Reaction:
        router, name = self._context.router, self._context.name
        if router.neighbours:
            reason = f"{name} is in a tree already: it is linked to {', '.join(sorted(router.neighbours))}"
            return Reaction([Concluded(request.operation, reason)])
        if busy := self._context.locked_for():
            return Reaction([Concluded(request.operation, f"{name} is locked for operation {busy}")])
        if request.to == name:
            return Reaction([Concluded(request.operation, "a broker cannot be its own neighbour")])
        self._context.addresses[request.to] = request.address
        self._state.left, self._state.is_turned_away = "", False
        joining = Changing(request.operation, MembershipRole.JOINING, request.to)
        begun = self._part.begin(joining, RequestAdd, Speaker.OTHER)
        connect = Connect(request.operation, self._context.address)
        return Reaction([begun, LinkUp(request.to, request.address), Send(request.to, connect)])

    def _connect(self, sender: Node, message: Connect) -> Reaction:
        """At a. Nobody is locked: many may join at once, also during a swap (S0 §IV-B)."""
        router, change = self._context.router, self._state.change
        if sender in router.neighbours:
            return Reaction([Send(sender, ConnectNack(message.operation, f"{sender} is a neighbour already"))])
        if change is not None and change.role is MembershipRole.INHERITING and change.partner == sender:
            return Reaction([Send(sender, ConnectNack(message.operation, f"{sender} has not left yet"))])
        if outside := self._outside():
            reason = f"{self._context.name} {outside}"
            return Reaction([LinkUp(sender), Send(sender, ConnectNack(message.operation, reason)), LinkDown(sender)])
        tables = sides.for_a_newcomer(router)
        rewiring = Rewiring(links={sender: NewLink(NO_TABLES, tables)}, parent=router.parent)
        ack = ConnectAck(message.operation, packed(tables))
        return Reaction([LinkUp(sender, message.address), Send(sender, ack), *self._context.rewire(rewiring)])

    def _outside(self) -> str:
        """Why nobody can join the tree here; empty where one can."""
        if self._state.change is not None and self._state.change.role is not MembershipRole.INHERITING:
            return "is itself on its way"
        if self._state.left:
            return "has left the tree"
        return "could not join the tree itself" if self._state.is_turned_away else ""

    def _while_joining(self, change: Changing, message: Message) -> Reaction:
        self._part.advance(change, type(message))
        clients = list(change.clients)
        match message:
            case ConnectAck(_, told):
                link = NewLink(received=unpacked(told), told=NO_TABLES)
                rewired = self._context.rewire(Rewiring(links={change.partner: link}, parent=change.partner))
                return Reaction([*rewired, Concluded(change.operation)], released=clients)
            case ConnectNack(_, reason):
                self._state.is_turned_away = True
                return Reaction([LinkDown(change.partner), Concluded(change.operation, reason)], released=clients)
        raise AssertionError(message)

    # RemoveBroker, at b --------------------------------------------------------------------------------------

    def _asked_to_remove(self, request: RequestRemove, *, attempts: int) -> Reaction:
        neighbours, name = self._context.router.neighbours, self._context.name
        if not neighbours:
            joining = self._state.change is not None
            reason = "is not in the tree yet" if joining else "is the last broker: nobody could take its clients"
            return Reaction([Concluded(request.operation, f"{name} {reason}")])
        if len(neighbours) > 1:
            reason = f"{name} has {len(neighbours)} neighbours: swap links until it is a leaf"
            return Reaction([Concluded(request.operation, reason)])
        if hosted := self._context.component_host.running:
            reason = f"{name} hosts components, which would end with it: {', '.join(hosted)}; move them elsewhere first"
            return Reaction([Concluded(request.operation, reason)])
        if busy := self._context.locked_for():
            reason = f"{name} is locked for operation {busy}"
            return Reaction(self._state.retries.put_off(request, attempts, reason))
        self._state.attempts = attempts
        leaving = Changing(request.operation, MembershipRole.LEAVING, neighbours[0], absent=request.absent)
        begun = self._part.begin(leaving, RequestRemove, Speaker.OTHER)
        return Reaction([begun, Send(neighbours[0], RemoveReq(request.operation))])

    def _while_leaving(self, change: Changing, sender: Node, message: Message) -> Reaction:
        match message:
            case RemoveAck():
                return self._hand_over(change)
            case RemoveNack(_, reason, is_busy):
                self._part.advance(change, RemoveNack)
                request = RequestRemove(change.operation, self._context.name, change.absent)
                if is_busy:
                    return Reaction(self._state.retries.put_off(request, self._state.attempts, reason))
                return Reaction([Concluded(change.operation, reason)])
            case CloseAB(_, address, life):
                change.partner_address, change.partner_life, change.passed_on = address, life, {}
                return self._send_on(change)
            case Farewell():
                return Reaction([*self._let_go(change, sender), *self._leave_if_alone(change)])
        raise AssertionError(message)

    def _send_on(self, change: Changing) -> Reaction:
        """close(ab): clients are told where to go, but those who were sent on before a lost its memory."""
        redirects = [Send(client, change.redirect()) for client, is_told in change.clients.items() if not is_told]
        change.clients = dict.fromkeys(change.clients, True)
        gone = [client for client, is_gone in self._state.sent_on.items() if is_gone and client in change.clients]
        left = [effect for client in gone for effect in self._let_go(change, client)]
        noted = self._part.advance(change, CloseAB)
        return Reaction([*noted, *redirects, *left, *self._leave_if_alone(change)])

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
        noted = self._part.advance(change, RemoveAck)
        return Reaction([Send(change.partner, Handover(change.operation, handed)), *noted])

    def _leave_if_alone(self, change: Changing) -> list[Effect]:
        if change.clients:
            return []
        self._part.end()
        self._context.reset()
        self._state.left, self._state.sent_on = change.partner, {}
        left = Send(change.partner, Left(change.operation))
        return [left, LinkDown(change.partner), Concluded(change.operation)]

    # RemoveBroker, at a --------------------------------------------------------------------------------------

    def _remove_req(self, sender: Node, message: RemoveReq) -> Reaction:
        if busy := self._context.locked_for():
            reason = f"{self._context.name} is locked for operation {busy}"
            return Reaction([Send(sender, RemoveNack(message.operation, reason, is_busy=True))])
        if sender not in self._context.router.neighbours:
            reason = f"{self._context.name} and {sender} are no neighbours"
            return Reaction([Send(sender, RemoveNack(message.operation, reason))])
        inheriting = Changing(message.operation, MembershipRole.INHERITING, sender)
        begun = self._part.begin(inheriting, RemoveReq, Speaker.PARTNER)
        return Reaction([begun, Send(sender, RemoveAck(message.operation))])

    def _while_inheriting(self, change: Changing, message: Message) -> Reaction:
        match message:
            case Handover(_, clients):
                return self._inherit(change, clients)
            case Said():
                return self._said(change, message)
            case RemoveAbandoned():
                self._part.advance(change, RemoveAbandoned)
                return Reaction()
            case ClientLeft(_, client):
                if change.clients.pop(client, None) is None or self._is_broker(client):
                    return Reaction()
                return Reaction(released=[client])
            case Left():
                self._part.advance(change, Left)
                return Reaction([LinkDown(change.partner)])
        raise AssertionError(message)

    def _is_broker(self, client: Node) -> bool:
        """Whether a client of b is called like this broker, or like a neighbour, of which b could not know."""
        return client == self._context.name or client in self._context.router.neighbours

    def _inherit(self, change: Changing, handed: Sequence[HandedClient]) -> Reaction:
        """Take over the clients, but those that are called like brokers here: they are refused if they come."""
        router, sessions = self._context.router, self._context.sessions
        change.clients = dict.fromkeys((client.name for client in handed), False)
        clients = [client for client in handed if not self._is_broker(client.name)]
        for client in clients:
            sessions.take_over(client)
        parent = None if router.parent == change.partner else router.parent
        tables = {client.name: tables_of(client) for client in clients}
        rewired = self._context.rewire(Rewiring(gone=(change.partner,), clients=tables, parent=parent))
        links = [LinkUp(client.name, is_client=True) for client in clients]
        close = Send(change.partner, CloseAB(change.operation, self._context.client_address, self._context.life))
        confirmed = [effect for client in clients for effect in confirm(self._context, client.name, client.waiting)]
        return Reaction([*links, close, *self._part.advance(change, Handover), *rewired, *confirmed])

    def _said(self, change: Changing, said: Said) -> Reaction:
        """A client said something to b after the handover; a newcomer at b is one of those on their way, too."""
        client, request = said.client, said.request
        if self._is_broker(client):
            change.clients[client] = False
            return Reaction()
        if said.access is not None:
            self._context.sessions.announce(client, said.access)
        links = [] if client in change.clients else [LinkUp(client, is_client=True)]
        change.clients[client] = False
        return Reaction([*links, *self._context.sessions.handle(client, request)])
