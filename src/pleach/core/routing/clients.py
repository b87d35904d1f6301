"""The clients of one broker: their named requests, turned into routing requests, and the answers to them.

Requests are idempotent (S1 §2.2.1): repeating one is confirmed again, and so is taking back one that does not exist. A
name stands for one filter until it is taken back; using it for another filter is refused. With advertisements, an event
is accepted only from a client with a confirmed advertisement that matches it: otherwise subscriptions to the event may
not be known here, and it could be lost.

With rights (docs/protocols/rights.md) routing gets the effective filter of a request, which may be narrower than the
one asked for; a name stands for the filter that was asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pleach.core.access.client_access import ClientAccess, ExpectedClients
from pleach.core.access.rights import Denied, Granted, Rights, judge, redacted
from pleach.core.effects import Send
from pleach.core.events.event import Event, checked
from pleach.core.events.filter import Filter
from pleach.core.messages import (
    Advertise,
    Advertised,
    Attach,
    Attached,
    ClientRequest,
    Deliver,
    Detach,
    Forward,
    HandedClient,
    Layer,
    Message,
    Node,
    Publish,
    Published,
    PublishRefused,
    Refused,
    Rejudge,
    Renewed,
    Subscribe,
    Subscribed,
    Unadvertise,
    Unadvertised,
    Unsubscribe,
    Unsubscribed,
)
from pleach.core.routing.client_state import ClientState, weight
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Ticket
from pleach.core.routing.router import Router
from pleach.errors import EventError

NAMES_PER_CLIENT_MAX = 10_000  # subscriptions, and advertisements, of one client
TOO_MANY_NAMES = f"a client has at most {NAMES_PER_CLIENT_MAX} of these"

LAYERS: dict[type[Message], Layer] = {
    Subscribe: Layer.SUBSCRIPTIONS,
    Unsubscribe: Layer.SUBSCRIPTIONS,
    Advertise: Layer.ADVERTISEMENTS,
    Unadvertise: Layer.ADVERTISEMENTS,
}
CONFIRMATIONS: dict[Layer, type[Subscribed | Advertised]] = {
    Layer.SUBSCRIPTIONS: Subscribed,
    Layer.ADVERTISEMENTS: Advertised,
}


def owner(client: Node, name: str) -> str:
    """The owner of a client's entry, unique in the network: the length distinguishes a/b + c from a + b/c."""
    return f"{len(client)}/{client}/{name}"


class Receivers(NamedTuple):
    """The receivers of an event. `not_own`: clients among them that do not want their own events."""

    neighbours: tuple[Node, ...]
    clients: tuple[Node, ...]
    not_own: frozenset[Node]

    def clients_but(self, one: Node | None) -> tuple[Node, ...]:
        return tuple(client for client in self.clients if client != one)


class ClientTable:
    """`expected`: rights of clients that are not attached, which outlive this table."""

    def __init__(self, router: Router, expected: ExpectedClients | None = None) -> None:
        self._router = router
        self._clients: dict[Node, ClientState] = {}
        self._screened: dict[Node, ClientAccess] = {}  # of clients that do not get all that their entries match
        self.expected = expected or ExpectedClients()
        self.names = 0  # weight of the subscriptions and advertisements of all clients

    def __contains__(self, node: Node) -> bool:
        return node in self._clients

    @property
    def clients(self) -> Sequence[Node]:
        return sorted(self._clients)

    def subscriptions(self, client: Node) -> dict[str, Filter]:
        return dict(self._clients[client].subscriptions)

    def has_names(self, client: Node) -> bool:
        """Whether a client has subscriptions or advertisements."""
        state = self._clients.get(client)
        return state is not None and bool(state.subscriptions or state.advertisements)

    def handle(self, client: Node, message: ClientRequest) -> list[Send]:
        if isinstance(message, Attach):
            return self._attach(client, own_events=message.own_events)
        if client not in self._clients:
            is_own = isinstance(message, Rejudge)  # of its broker; the client has left meanwhile
            return [] if is_own else [refusal(client, message, "not attached: send Attach first")]
        match message:
            case Publish(event):
                return self._publish(client, event)
            case Subscribe(name, wanted, renews=True) | Advertise(name, wanted, renews=True):
                return self._renew(LAYERS[type(message)], client, name, wanted)
            case Subscribe(name, wanted, network_wide):
                return self._add(Layer.SUBSCRIPTIONS, client, name, wanted, wait=network_wide)
            case Advertise(name, advertised):
                return self._add(Layer.ADVERTISEMENTS, client, name, advertised, wait=True)
            case Unsubscribe() | Unadvertise():
                return self._take_back(client, message)
            case Renewed() | Rejudge() | Detach():
                return self._of_all_names(client, message)

    def _of_all_names(self, client: Node, message: Renewed | Rejudge | Detach) -> list[Send]:
        match message:
            case Renewed():
                return [*self._router.end_round(client)]
            case Rejudge():
                return self._rejudge(client)
            case Detach():
                return self._detach(client)

    def settle(self, due: Sequence[Ticket]) -> list[Send]:
        """Confirm to clients that their requests are in effect."""
        sends = []
        for layer, client, name in due:
            state = self._clients.get(client)
            if state is None or not isinstance(name, str) or name not in state.names(layer):
                continue
            if layer is Layer.ADVERTISEMENTS:
                state.confirmed[name] = None
            effective = state.access.shown(layer, name, state.names(layer)[name])
            sends.append(Send(client, CONFIRMATIONS[layer](name, effective)))
        return sends

    def forward(self, message: Forward, source: Node) -> list[Send]:
        """Forward an event to its destinations."""
        return self.send_to(self._router.destinations(message.event.attributes, source), message)

    def send_to(self, destinations: Sequence[Node], message: Forward) -> list[Send]:
        """Send an event unchanged to neighbours, as a delivery to clients.

        A publisher may not want its own events, wherever they come from: in a changing tree they may return.
        """
        clients = self._clients
        event = message.event
        delivery = Deliver(event)
        sends = []
        for to in destinations:
            if to not in clients:
                sends.append(Send(to, message))
            elif to != event.id.publisher or clients[to].own_events:
                sends.append(Send(to, delivery))
        return self._screen(sends) if self._screened else sends

    def _screen(self, sends: list[Send]) -> list[Send]:
        """Deliveries without those that a client may not see, and without what is hidden from it."""
        shown: list[Send] = []
        for send in sends:
            is_judged = send.to in self._screened and isinstance(send.message, Deliver)
            shown += self.deliveries(send.to, send.message.events) if is_judged else [send]
        return shown

    def deliveries(self, client: Node, events: Iterable[Event]) -> list[Send]:
        """Deliver events that have waited for a client, as far as its present rights allow it."""
        rights = self._clients[client].access.rights
        return [Send(client, Deliver(redacted(event, rights.hidden))) for event in events if rights.shows(event)]

    def replies(self, client: Node, kept: Iterable[Message]) -> list[Send]:
        """Send messages that were kept for a client; deliveries as its rights allow, where they have changed since."""
        state = self._clients.get(client)
        if state is None or not state.access.is_pending:
            return [Send(client, message) for message in kept]
        rights, sends = state.access.of_waiting, []
        for message in kept:
            if not isinstance(message, Deliver):
                sends.append(Send(client, message))
            elif rights.shows(message.event):
                sends.append(Send(client, Deliver(redacted(message.event, rights.hidden))))
        return sends

    def receivers(self, attributes: Mapping[str, Any], source: Node) -> Receivers | None:
        """The receivers of an event with these attributes, as in `forward`. Clients send only their own events.

        None where the event is refused, or where not all receivers get the same: then it does not pass in a run.
        """
        neighbours, takers, not_own, clients = [], [], [], self._clients
        if source in clients and not clients[source].access.rights.publishes(attributes):
            return None
        for to in self._router.destinations(attributes, source):
            if to not in clients:
                neighbours.append(to)
            elif clients[to].own_events:
                takers.append(to)
            elif to != source:
                takers.append(to)
                not_own.append(to)
        if self._screened and any(access.changes(attributes) for to in takers if (access := self._screened.get(to))):
            return None
        return Receivers(tuple(neighbours), tuple(takers), frozenset(not_own))

    # Requests ------------------------------------------------------------------------------------------------

    def _attach(self, client: Node, *, own_events: bool) -> list[Send]:
        self._router.begin_round(client)
        if client in self._clients:
            self._clients[client].own_events = own_events
        else:
            self._clients[client] = ClientState(own_events, {}, {}, {}, self.expected.take(client))
            self._note_screened(client)
        return [Send(client, Attached(self._router.config.refresh))]

    def _detach(self, client: Node) -> list[Send]:
        state = self._clients[client]
        sends: list[Send] = []
        for layer in Layer:
            for name in sorted(state.names(layer)):
                sends += self._remove(layer, client, name)
        del self._clients[client]
        self._note_screened(client)
        self.expected.gone(client, state.access)
        return [*sends, *self._clear(client)]

    def part_with(self, client: Node) -> list[Send]:
        """A client goes on elsewhere: withdraw all that it has here, also where a fault has taken its session."""
        return self._detach(client) if client in self._clients else self._clear(client)

    def _clear(self, client: Node) -> list[Send]:
        """Remove what a fault has left in the name of somebody who is not here any more."""
        sends: list[Send] = []
        for layer in Layer:
            for entry in self._router.received_from(layer, client):
                sends += self._router.remove(layer, client, entry).sends
        self._router.forget_round(client)
        return sends

    def _publish(self, client: Node, event: Event) -> list[Send]:
        reason = self._why_not(client, event)
        if reason:
            return [Send(client, PublishRefused(event.id, reason))]
        return [*self.forward(Forward(event), client), Send(client, Published(event.id))]

    def _why_not(self, client: Node, event: Event) -> str:
        """Why an event is refused; empty if it is accepted."""
        if event.id.publisher != client:
            return f"the event's publisher is {event.id.publisher!r}, but {client!r} sent it"
        try:
            checked(event)
        except EventError as error:
            return str(error)
        state = self._clients[client]
        if not state.access.rights.publishes(event.attributes):
            return "its right to publish does not match it: ask an operator for the right"
        if not self._router.config.advertisements:
            return ""
        if any(all(each.matches(event.attributes) for each in filters) for filters in state.in_effect()):
            return ""
        return "no confirmed advertisement matches it: advertise first, and wait for the confirmation"

    def _add(self, layer: Layer, client: Node, name: str, asked: Filter, *, wait: bool) -> list[Send]:
        state = self._clients[client]
        known = state.asked(layer, name)
        if known is not None and known != asked:
            reason = f"the name stands for {known.text!r}; take that back first"
            return [Send(client, Refused(name, reason, layer, asked))]
        effective = self._granted(layer, client, name, asked)
        if isinstance(effective, Refused):
            return [Send(client, effective)]
        ticket = Ticket(layer, client, name)
        outcome = self._router.add(layer, client, Entry(owner(client, name), effective), ticket if wait else None)
        due = outcome.due if wait else [ticket]
        return [*outcome.sends, *self.settle(due)]

    def _granted(self, layer: Layer, client: Node, name: str, asked: Filter) -> Filter | Refused:
        """The effective filter of a name, which stands for `asked` from now on, or did before."""
        state = self._clients[client]
        names = state.names(layer)
        if name in names:
            return names[name]
        if len(names) == NAMES_PER_CLIENT_MAX:
            return Refused(name, TOO_MANY_NAMES, layer, asked)
        match judge(asked, layer, state.access.rights):
            case Denied(reason):
                return Refused(name, reason, layer, asked)
            case Granted(effective):
                state.put(layer, name, asked, effective)
                self.names += weight(effective)
                return effective

    def _renew(self, layer: Layer, client: Node, name: str, asked: Filter) -> list[Send]:
        """A renewal: the client's state is authoritative, the broker's may be lost or damaged.

        An entry of the same name with another filter is removed first (S1 §3.3.1). An advertisement must be in effect
        before events are accepted for it; one that is not confirmed is confirmed again.
        """
        state = self._clients[client]
        sends = [] if self._is_as_asked(layer, client, name, asked) else self._remove(layer, client, name)
        if layer is Layer.ADVERTISEMENTS and not (name in state.advertisements and name in state.confirmed):
            return [*sends, *self._add(layer, client, name, asked, wait=True)]
        effective = self._granted(layer, client, name, asked)
        if isinstance(effective, Refused):
            return [*sends, Send(client, effective)]
        return [*sends, *self._router.add(layer, client, Entry(owner(client, name), effective), None).sends]

    def _is_as_asked(self, layer: Layer, client: Node, name: str, asked: Filter) -> bool:
        """Whether a name is free, or stands for this filter, with what the client's right grants of it."""
        state = self._clients[client]
        if state.asked(layer, name) in (None, asked):
            verdict = judge(asked, layer, state.access.rights)
            return isinstance(verdict, Denied) or state.names(layer).get(name) in (None, verdict.filter)
        return False

    def lapse(self) -> int:
        """Remove the names of expired entries. Returns how many."""
        count = 0
        for client, layer in itertools.product(self.clients, Layer):
            held = frozenset(self._router.received_from(layer, client))
            for name, wanted in sorted(self._clients[client].names(layer).items()):
                if Entry(owner(client, name), wanted) not in held:
                    self._remove(layer, client, name)
                    count += 1
        for state in self._clients.values():
            for name in state.confirmed.keys() - state.advertisements.keys():  # forged by a fault
                del state.confirmed[name]
        return count

    def _take_back(self, client: Node, message: Unsubscribe | Unadvertise) -> list[Send]:
        match message:
            case Unsubscribe(name):
                return [*self._remove(Layer.SUBSCRIPTIONS, client, name), Send(client, Unsubscribed(name))]
            case Unadvertise(name):
                return [*self._remove(Layer.ADVERTISEMENTS, client, name), Send(client, Unadvertised(name))]

    def _remove(self, layer: Layer, client: Node, name: str) -> Sequence[Send]:
        wanted = self._clients[client].drop(layer, name)
        if wanted is None:
            return []
        self.names -= weight(wanted)
        self._router.forget(Ticket(layer, client, name))
        return self._router.remove(layer, client, Entry(owner(client, name), wanted)).sends

    def holds(self, layer: Layer, client: Node, name: str, asked: Filter) -> bool:
        """Whether a client has this request in effect already."""
        state = self._clients.get(client)
        if state is None or state.asked(layer, name) != asked:
            return False
        return self._router.has(layer, client, Entry(owner(client, name), state.names(layer)[name]))

    def filters_of(self, principal: str) -> list[Filter]:
        """The filters that all clients of a principal have asked for."""
        states = [state for state in self._clients.values() if state.access.principal == principal]
        named = ((state, layer, name) for state in states for layer in Layer for name in state.names(layer))
        return [asked for state, layer, name in named if (asked := state.asked(layer, name)) is not None]

    # Rights (core/access) --------------------------------------------------------------------------------------

    def access_of(self, client: Node) -> ClientAccess | None:
        """Who a client is and what it may do: one that is attached, or expected; None where nobody has said it."""
        state = self._clients.get(client)
        return state.access if state is not None else self.expected.expected.get(client)

    def rights_on_waiting(self, client: Node) -> Rights:
        """The rights of a client that has a permit, for events that wait for it."""
        access = self.access_of(client)
        assert access is not None
        return access.of_waiting

    @property
    def unjudged(self) -> Sequence[Node]:
        """Clients whose rights the driver of this broker has not said yet."""
        return sorted(self.expected.unjudged)

    def guard(self, newcomers: Rights) -> None:
        """What clients may do for which no permit has come. Permits of clients that are not attached are void."""
        self.expected.newcomers = newcomers
        self.expected.expected.clear()
        for client, state in self._clients.items():
            if not state.access.principal:
                self.expected.await_judgement(client)

    def announce(self, client: Node, access: ClientAccess) -> None:
        """A client is about to attach that logged in at another broker."""
        if client not in self._clients:
            self.expected.expect(client, access)
            self.expected.await_judgement(client)

    def permit(self, client: Node, principal: str, rights: Rights) -> Rights | None:
        """The rights of a client from now on. Returns its former rights, if what it has is to be judged by new ones."""
        self.expected.unjudged.pop(client, None)
        state = self._clients.get(client)
        if state is None:
            return self.expected.permit(client, principal, rights)
        former, access = state.access.rights, state.access
        access.permit(principal, rights)
        self._note_screened(client)
        return former if access.is_pending else None

    def _note_screened(self, client: Node) -> None:
        self._screened.pop(client, None)
        state = self._clients.get(client)
        if state is not None and state.access.screens:
            self._screened[client] = state.access

    def _rejudge(self, client: Node) -> list[Send]:
        """Judge all names of a client by its present rights: advertisements first, they open the way."""
        state = self._clients[client]
        state.access.is_pending = False
        self._note_screened(client)
        named = [(layer, name) for layer in reversed(Layer) for name in sorted(state.names(layer))]
        return [send for layer, name in named for send in self._rejudge_name(layer, client, name)]

    def _rejudge_name(self, layer: Layer, client: Node, name: str) -> list[Send]:
        state = self._clients[client]
        asked, former = state.asked(layer, name), state.names(layer)[name]
        assert asked is not None
        match judge(asked, layer, state.access.rights):
            case Denied(reason):
                return [*self._remove(layer, client, name), Send(client, Refused(name, reason, layer, asked))]
            case Granted(effective) if effective == former:
                return []
            case Granted(effective):
                return self._change(layer, client, name, asked, effective)

    def _change(self, layer: Layer, client: Node, name: str, asked: Filter, effective: Filter) -> list[Send]:
        """Put another filter in effect: added before the former is removed, so that no event of both is missed."""
        state = self._clients[client]
        former = state.names(layer)[name]
        if layer is Layer.ADVERTISEMENTS and name in state.confirmed:
            state.confirmed[name] = state.confirmed[name] or former
        state.put(layer, name, asked, effective)
        self.names += weight(effective) - weight(former)
        ticket = Ticket(layer, client, name)
        is_answer = layer is Layer.ADVERTISEMENTS or ticket in self._router.waiting_of(client)
        entry = Entry(owner(client, name), effective)
        self._router.forget(ticket)  # it waits for what the new entry needs, and is answered once
        added = self._router.add(layer, client, entry, ticket if is_answer else None)
        removed = self._router.remove(layer, client, entry._replace(filter=former))
        shown = state.access.shown(layer, name, effective)
        told = [] if is_answer else [Send(client, Subscribed(name, shown, is_change=True))]
        return [*added.sends, *removed.sends, *self.settle(added.due), *told]

    # Moving --------------------------------------------------------------------------------------------------

    def hand_over(self, client: Node) -> HandedClient:
        """The state of a client, for another broker to take over."""
        state = self._clients[client]
        waiting = [(t.layer, t.token) for t in self._router.waiting_of(client) if isinstance(t.token, str)]
        return HandedClient(
            client,
            state.own_events,
            dict(sorted(state.subscriptions.items())),
            dict(sorted(state.advertisements.items())),
            sorted(name for name, former in state.confirmed.items() if former is None),
            waiting,
            state.access.copy(),
        )

    def leave_unanswered(self, handed: HandedClient) -> None:
        """Drop pending confirmations: the other broker confirms, and a second one could match a later request."""
        for layer, name in handed.waiting:
            self._router.forget(Ticket(layer, handed.name, name))

    def take_over(self, handed: HandedClient) -> None:
        """Take over the state of a client; the router gets its entries by a rewiring."""
        former = self._clients.get(handed.name)
        taken = self._clients[handed.name] = ClientState(
            handed.own_events,
            dict(handed.subscriptions),
            dict(handed.advertisements),
            dict.fromkeys(handed.confirmed),
            handed.access.copy(),
        )
        self._note_screened(handed.name)
        self.expected.await_judgement(handed.name)
        self.names += taken.weight - (former.weight if former else 0)

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> dict[Node, ClientState]:
        """Sorted, so that equal states are equal bytes, independent of arrival order."""
        return {name: state.copy() for name, state in sorted(self._clients.items())}

    def restore(self, clients: dict[Node, ClientState]) -> None:
        self._clients = clients
        self.names = sum(state.weight for state in clients.values())
        self._screened.clear()
        for client in clients:
            self._note_screened(client)


def refusal(client: Node, message: Message, reason: str) -> Send:
    """The refusal of a request."""
    match message:
        case Publish(event):
            return Send(client, PublishRefused(event.id, reason))
        case Subscribe(name, wanted) | Advertise(name, wanted):
            return Send(client, Refused(name, reason, LAYERS[type(message)], wanted))
        case Unsubscribe(name) | Unadvertise(name):
            return Send(client, Refused(name, reason, LAYERS[type(message)]))
        case _:
            return Send(client, Refused(type(message).__name__, reason))
