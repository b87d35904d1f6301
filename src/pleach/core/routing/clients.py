"""The clients of one broker: what they asked for by name, turned into routing requests, and the answers to them.

Requests are idempotent (S1 §2.2.1): asking again for what is there is confirmed again, taking back what is not
there too. A name stands for one filter until it is taken back; using it for another one is refused. Where the
network uses advertisements, an event is taken only from a client with a confirmed advertisement that matches it:
without one, subscriptions that the event concerns need not be known here, and it might get lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

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
    Renewed,
    Subscribe,
    Subscribed,
    Unadvertise,
    Unadvertised,
    Unsubscribe,
    Unsubscribed,
)
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Ticket
from pleach.core.routing.router import Router
from pleach.errors import EventError

NAMES_PER_CLIENT_MAX = 10_000  # subscriptions, and advertisements, of one client
ORDINARY_CHARACTERS = 1_024  # of a filter's text
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


class ClientState(msgspec.Struct, array_like=True):
    own_events: bool
    subscriptions: dict[str, Filter]
    advertisements: dict[str, Filter]
    confirmed: dict[str, None]  # advertisements in effect

    @property
    def weight(self) -> int:
        return sum(weight(wanted) for layer in Layer for wanted in self.names(layer).values())

    def names(self, layer: Layer) -> dict[str, Filter]:
        return self.subscriptions if layer is Layer.SUBSCRIPTIONS else self.advertisements


def weight(wanted: Filter) -> int:
    """How many ordinary subscriptions one with this filter takes the room of."""
    return 1 + len(wanted.text) // ORDINARY_CHARACTERS


def owner(client: Node, name: str) -> str:
    """The owner of a client's entry, unique in the network: the length keeps a/b + c and a + b/c apart."""
    return f"{len(client)}/{client}/{name}"


class Receivers(NamedTuple):
    """Whom an event goes to. `not_own`: those of the clients who do not want it if it is their own."""

    neighbours: tuple[Node, ...]
    clients: tuple[Node, ...]
    not_own: frozenset[Node]

    def clients_but(self, one: Node | None) -> tuple[Node, ...]:
        return tuple(client for client in self.clients if client != one)


class ClientTable:
    def __init__(self, router: Router) -> None:
        self._router = router
        self._clients: dict[Node, ClientState] = {}
        self.names = 0  # subscriptions and advertisements of all clients together, by their weight

    def __contains__(self, node: Node) -> bool:
        return node in self._clients

    @property
    def clients(self) -> Sequence[Node]:
        return sorted(self._clients)

    def subscriptions(self, client: Node) -> dict[str, Filter]:
        return dict(self._clients[client].subscriptions)

    def has_names(self, client: Node) -> bool:
        """Whether a client has asked for anything that is still there."""
        state = self._clients.get(client)
        return state is not None and bool(state.subscriptions or state.advertisements)

    def handle(self, client: Node, message: ClientRequest) -> list[Send]:
        if isinstance(message, Attach):
            return self._attach(client, own_events=message.own_events)
        if client not in self._clients:
            return [refusal(client, message, "not attached: send Attach first")]
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
            case Renewed():
                return [*self._router.end_round(client)]
            case Detach():
                return self._detach(client)

    def settle(self, due: Sequence[Ticket]) -> list[Send]:
        """Tell clients that their requests are in effect."""
        sends = []
        for layer, client, name in due:
            state = self._clients.get(client)
            if state is None or not isinstance(name, str) or name not in state.names(layer):
                continue
            if layer is Layer.ADVERTISEMENTS:
                state.confirmed[name] = None
            sends.append(Send(client, CONFIRMATIONS[layer](name)))
        return sends

    def forward(self, message: Forward, source: Node) -> list[Send]:
        """Send an event on to where it has to go."""
        return self.send_to(self._router.destinations(message.event.attributes, source), message)

    def send_to(self, destinations: Sequence[Node], message: Forward) -> list[Send]:
        """An event as it is to neighbours, as a delivery to clients.

        Its publisher may not want it, wherever it comes from: in a tree that changes it may come back.
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
        return sends

    def receivers(self, attributes: Mapping[str, Any], source: Node) -> Receivers:
        """Who gets an event with these attributes: as `forward` sends it. From a client come its own events only."""
        neighbours, takers, not_own, clients = [], [], [], self._clients
        for to in self._router.destinations(attributes, source):
            if to not in clients:
                neighbours.append(to)
            elif clients[to].own_events:
                takers.append(to)
            elif to != source:
                takers.append(to)
                not_own.append(to)
        return Receivers(tuple(neighbours), tuple(takers), frozenset(not_own))

    # Requests ------------------------------------------------------------------------------------------------

    def _attach(self, client: Node, *, own_events: bool) -> list[Send]:
        self._router.begin_round(client)
        if client in self._clients:
            self._clients[client].own_events = own_events
        else:
            self._clients[client] = ClientState(own_events, {}, {}, {})
        return [Send(client, Attached(self._router.config.refresh))]

    def _detach(self, client: Node) -> list[Send]:
        state = self._clients[client]
        sends: list[Send] = []
        for layer in Layer:
            for name in sorted(state.names(layer)):
                sends += self._remove(layer, client, name)
        del self._clients[client]
        self._router.forget_round(client)
        return sends

    def _publish(self, client: Node, event: Event) -> list[Send]:
        reason = self._why_not(client, event)
        if reason:
            return [Send(client, PublishRefused(event.id, reason))]
        return [*self.forward(Forward(event), client), Send(client, Published(event.id))]

    def _why_not(self, client: Node, event: Event) -> str:
        """Why an event cannot be taken; empty where it can."""
        if event.id.publisher != client:
            return f"the event's publisher is {event.id.publisher!r}, but {client!r} sent it"
        try:
            checked(event)
        except EventError as error:
            return str(error)
        state = self._clients[client]
        if not self._router.config.advertisements:
            return ""
        in_effect = (wanted for name, wanted in state.advertisements.items() if name in state.confirmed)
        if any(wanted.matches(event.attributes) for wanted in in_effect):
            return ""
        return "no confirmed advertisement matches it: advertise first, and wait for the confirmation"

    def _add(self, layer: Layer, client: Node, name: str, wanted: Filter, *, wait: bool) -> list[Send]:
        names = self._clients[client].names(layer)
        if name in names and names[name] != wanted:
            reason = f"the name stands for {names[name].text!r}; take that back first"
            return [Send(client, Refused(name, reason, layer, wanted))]
        if name not in names and len(names) == NAMES_PER_CLIENT_MAX:
            return [Send(client, Refused(name, TOO_MANY_NAMES, layer, wanted))]
        if name not in names:
            self.names += weight(wanted)
        names[name] = wanted
        ticket = Ticket(layer, client, name)
        outcome = self._router.add(layer, client, Entry(owner(client, name), wanted), ticket if wait else None)
        due = outcome.due if wait else [ticket]
        return [*outcome.sends, *self.settle(due)]

    def _renew(self, layer: Layer, client: Node, name: str, wanted: Filter) -> list[Send]:
        """The client knows what it has: where the broker knows otherwise, it has forgotten, or never should have known.

        Before an entry comes, any other of that name goes (S1 §3.3.1): names and filters can be damaged, too. What is
        advertised must be in effect before events are taken for it, so that one which is not is confirmed again.
        """
        state = self._clients[client]
        names = state.names(layer)
        sends = [] if names.get(name, wanted) == wanted else self._remove(layer, client, name)
        if layer is Layer.ADVERTISEMENTS and not (name in names and name in state.confirmed):
            return [*sends, *self._add(layer, client, name, wanted, wait=True)]
        if name not in names:
            if len(names) == NAMES_PER_CLIENT_MAX:
                return [Send(client, Refused(name, TOO_MANY_NAMES, layer, wanted))]
            names[name] = wanted
            self.names += weight(wanted)
        return [*sends, *self._router.add(layer, client, Entry(owner(client, name), wanted), None).sends]

    def lapse(self) -> int:
        """Names go with the entries that they stand for, once these have run out. Returns how many."""
        count = 0
        for client, layer in itertools.product(self.clients, Layer):
            held = frozenset(self._router.received_from(layer, client))
            for name, wanted in sorted(self._clients[client].names(layer).items()):
                if Entry(owner(client, name), wanted) not in held:
                    self._remove(layer, client, name)
                    count += 1
        for state in self._clients.values():
            for name in state.confirmed.keys() - state.advertisements.keys():  # a fault has made it up
                del state.confirmed[name]
        return count

    def _take_back(self, client: Node, message: Unsubscribe | Unadvertise) -> list[Send]:
        match message:
            case Unsubscribe(name):
                return [*self._remove(Layer.SUBSCRIPTIONS, client, name), Send(client, Unsubscribed(name))]
            case Unadvertise(name):
                return [*self._remove(Layer.ADVERTISEMENTS, client, name), Send(client, Unadvertised(name))]

    def _remove(self, layer: Layer, client: Node, name: str) -> Sequence[Send]:
        state = self._clients[client]
        wanted = state.names(layer).pop(name, None)
        if wanted is None:
            return []
        self.names -= weight(wanted)
        self._router.forget(Ticket(layer, client, name))
        if layer is Layer.ADVERTISEMENTS:
            state.confirmed.pop(name, None)
        return self._router.remove(layer, client, Entry(owner(client, name), wanted)).sends

    # Moving --------------------------------------------------------------------------------------------------

    def hand_over(self, client: Node) -> HandedClient:
        """All that this broker knows of a client, for another broker to take over."""
        state = self._clients[client]
        waiting = [(t.layer, t.token) for t in self._router.waiting_of(client) if isinstance(t.token, str)]
        return HandedClient(
            client,
            state.own_events,
            dict(sorted(state.subscriptions.items())),
            dict(sorted(state.advertisements.items())),
            sorted(state.confirmed),
            waiting,
        )

    def leave_unanswered(self, handed: HandedClient) -> None:
        """Another broker confirms what waits: a second confirmation could pass for that of a later request."""
        for layer, name in handed.waiting:
            self._router.forget(Ticket(layer, handed.name, name))

    def take_over(self, handed: HandedClient) -> None:
        """Know a client as another broker did; its entries come to the router by a rewiring."""
        former = self._clients.get(handed.name)
        taken = self._clients[handed.name] = ClientState(
            handed.own_events, dict(handed.subscriptions), dict(handed.advertisements), dict.fromkeys(handed.confirmed)
        )
        self.names += taken.weight - (former.weight if former else 0)

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> dict[Node, ClientState]:
        """Sorted throughout: equal states are equal bytes, whatever came first."""
        return {
            name: ClientState(
                state.own_events,
                dict(sorted(state.subscriptions.items())),
                dict(sorted(state.advertisements.items())),
                dict(sorted(state.confirmed.items())),
            )
            for name, state in sorted(self._clients.items())
        }

    def restore(self, clients: dict[Node, ClientState]) -> None:
        self._clients = clients
        self.names = sum(state.weight for state in clients.values())


def refusal(client: Node, message: Message, reason: str) -> Send:
    """The answer to a request that is not carried out."""
    match message:
        case Publish(event):
            return Send(client, PublishRefused(event.id, reason))
        case Subscribe(name, wanted) | Advertise(name, wanted):
            return Send(client, Refused(name, reason, LAYERS[type(message)], wanted))
        case Unsubscribe(name) | Unadvertise(name):
            return Send(client, Refused(name, reason, LAYERS[type(message)]))
        case _:
            return Send(client, Refused(type(message).__name__, reason))
