"""Names of brokers win over those of clients: who is to be linked as a broker, takes the name from a client.

A broker knows its neighbours, and refuses clients that call themselves like one (admission.py). It does not know those
further off: a client may have the name of one that a reconfiguration is about to link here. Sessions, routing entries
and held messages go by name, so the two cannot be here at once. Before the broker handles a message that names its next
neighbour, a client of that name is sent away, and told why (docs/decisions/0036-names-of-clients-and-brokers.md). That
neighbour itself may be here already, where it is welcome: its session stays, as it would not begin another one.

A component that begins here, or arrives, takes its name likewise: a connection in its name would speak for it.
"""

from __future__ import annotations

import logging

from pleach.core.messages import (
    CycleEnded,
    CycleForgotten,
    Lock,
    LockCycle,
    Message,
    MoveState,
    Node,
    RequestAdd,
    RequestExchange,
    RequestHost,
    RequestSwap,
)
from pleach.server.feature import Feature
from pleach.server.parts import NodeParts

log = logging.getLogger(__name__)


class BrokerNames(Feature):
    def __init__(self, parts: NodeParts) -> None:
        self._broker, self._endpoint, self._gate, self._links = parts.broker, parts.endpoint, parts.gate, parts.links
        self._directory, self._counters, self._clock = parts.directory, parts.counters.clients, parts.clock

    def message_received(self, sender: Node, message: Message) -> None:
        for name in next_neighbours(message, self._broker.name):
            self.claim(name)
        component = next_component(message)
        if (
            component in self._links and component not in self._broker.sessions
        ):  # of one that is attached, it is refused
            self.claim(component)

    def claim(self, name: Node) -> None:
        """Send away the client that has the name of a broker or a component, if there is one."""
        if self._directory.is_broker(name) or name in self._broker.hosting.here or not self._is_of_client(name):
            return
        log.warning("sent away: client %s, which has the name of a broker or a component that comes here", name)
        self._counters.evicted += 1
        self._endpoint.give_name(
            name, f"{name} is the name of a broker or a component: choose another one", now=self._clock()
        )
        self._gate.forget(name)

    def _is_of_client(self, name: Node) -> bool:
        """Whether a session is one of a client, or was: a broker that is here by the other port, or has been, and was
        never linked, has said nothing yet.
        """
        session = self._endpoint.sessions.get(name)
        if session is None or self._directory.is_client(name):
            return session is not None
        return name not in self._links and (session.last > 0 or session.received > 0)


def next_neighbours(message: Message, own: Node) -> set[Node]:
    """The brokers that a message is about to link to this one."""
    match message:
        case RequestSwap(_, a, _, c) | Lock(_, a, _, c):
            ends = {a, c}
        case RequestExchange(_, path) | LockCycle(_, path) | CycleForgotten(_, path) | CycleEnded(_, path):
            ends = {path[0], path[-1]}
        case RequestAdd(_, to):
            ends = {own, to}
        case _:
            return set()
    return ends - {own} if own in ends else set()


def next_component(message: Message) -> Node:
    """The component that a message is about to begin here; empty: none."""
    match message:
        case RequestHost(component=component):
            return component
        case MoveState(client=client, component=state) if state:
            return client.name
        case _:
            return ""
