"""Steps in which a client acts: the same for every world that has clients of its own."""

from __future__ import annotations

from typing import Protocol, TypeAlias, assert_never

from pleach.core.messages import Node
from pleach.scenario.client_load import PlannedEvent
from pleach.scenario.steps import AdvertiseStep, PublishStep, SubscribeStep, UnadvertiseStep, UnsubscribeStep

ClientStep: TypeAlias = SubscribeStep | UnsubscribeStep | AdvertiseStep | UnadvertiseStep | PublishStep


class ClientActions(Protocol):
    """What the clients of a world can be made to do at once. Filters are as the file spells them."""

    def subscribe(self, client: Node, text: str) -> None: ...

    def unsubscribe(self, client: Node, text: str) -> None: ...

    def advertise(self, client: Node, text: str) -> None: ...

    def unadvertise(self, client: Node, text: str) -> None: ...

    def publish(self, client: Node, publication: PlannedEvent) -> None: ...


def perform_client_step(clients: ClientActions, step: ClientStep, *, now: float) -> None:
    match step:
        case SubscribeStep(client=client, filter=text):
            clients.subscribe(client, text)
        case UnsubscribeStep(client=client, filter=text):
            clients.unsubscribe(client, text)
        case AdvertiseStep(client=client, filter=text):
            clients.advertise(client, text)
        case UnadvertiseStep(client=client, filter=text):
            clients.unadvertise(client, text)
        case PublishStep(client=client, attributes=attributes):
            clients.publish(client, PlannedEvent(now, dict(attributes)))
        case _:
            assert_never(step)
