"""What must be over when a network has come to rest: nobody waits for anything that does not come.

The oracle reads only what was promised: to a subscription that is never confirmed it finds nothing owed. So every
judged run asks for this besides.

clients    every request is answered, nothing is kept back, none is halted or on its way. With leases a client asks
           again for what was refused, since a fault may have refused it: what rights refuse counts as answered
brokers    no install unanswered, no confirmation due, no link suspended or in doubt; no operation under way, none put
           off, no search for a broker, no component that does not start
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.messages import Node
from pleach.core.mobility.phases import ClientPhase
from pleach.core.overlay.retries import Retries
from pleach.core.routing.snapshot import PropagationState
from pleach.core.stabilise.twin import TwinRouter

KEPT_EARLY = "keeps early"  # also what a fault has forged in the name of a broker that the client does not go to


def unfinished(brokers: Mapping[Node, Broker], clients: Mapping[Node, ClientMachine]) -> list[str]:
    return [*open_at_brokers(brokers), *unanswered_clients(clients)]


def open_at_brokers(brokers: Mapping[Node, Broker]) -> list[str]:
    return [f"{name} {what}" for name in sorted(brokers) for what in _open_at(brokers[name])]


def unanswered_clients(
    clients: Mapping[Node, ClientMachine], refused: Container[tuple[Node, str]] = frozenset()
) -> list[str]:
    """`refused`: subscriptions of clients that their rights have refused."""
    return [f"{name} {what}" for name in sorted(clients) for what in _left_at(clients[name], refused)]


# Clients ----------------------------------------------------------------------------------------------------------


def _left_at(client: ClientMachine, refused: Container[tuple[Node, str]]) -> Iterator[str]:
    state = client._state
    kept = {
        "was never told of": [each for each in sorted(state.unanswered.asked) if (client.name, each) not in refused],
        "waits with": state.waiting,
        "has unconfirmed": state.unconfirmed,
        "has not sent": state.unsaid,
        KEPT_EARLY: state.early,
    }
    yield from (f"{what}: {each}" for what, each in kept.items() if each)
    if state.phase is not ClientPhase.RUNNING:
        yield f"is {state.phase}"
    if state.resettling is not None:
        yield f"resettles: {state.resettling}"


# Brokers ----------------------------------------------------------------------------------------------------------


def _open_at(broker: Broker) -> Iterator[str]:
    """Tables that are rebuilt in turn are not looked into: what one waits for goes when it is emptied."""
    if broker.operation:
        yield f"takes part in {broker.operation}"
    if not broker.seam.is_idle:
        yield "is still locked"
    if not isinstance(broker.router, TwinRouter):
        state = broker.router.capture()
        yield from _open_in(state.subscriptions)
        yield from _open_in(state.advertisements)
    yield from (f"has put off {operation}" for operation in _put_off(broker))
    yield from (f"searches for {operation}" for operation in broker._remote_requests._state.searches)
    yield from (f"starts {component}" for component in broker.hosting._starting)


def _open_in(layer: PropagationState) -> Iterator[str]:
    yield from (f"waits: {wait}" for wait in layer.waits)
    yield from (f"doubts what is behind {to}: {way}" for to, way in layer.doubted.items())
    yield from (f"waits for answers of {to} to {numbers}" for to, numbers in layer.unanswered.items() if numbers)
    yield from (f"has a suspended link to {to}: {told}" for to, told in layer.suspended.items())


def _put_off(broker: Broker) -> Iterator[str]:
    for machine in broker._machines.values():
        retries: Retries | None = getattr(getattr(machine, "_state", None), "retries", None)
        yield from retries.waiting if retries is not None else ()
