"""The state of one movement at a broker, by the role of the broker in it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pleach.core.events.event import Event, EventId
from pleach.core.messages import ClientReply, HandedClient, Layer, Node, RequestMove
from pleach.core.mobility.phases import PathPhase, SourcePhase, TargetPhase


class SourceMovement(msgspec.Struct, tag="source"):
    """At the source."""

    request: RequestMove
    attempts: int  # to begin: how often it was put off before
    is_outdated: bool = False  # the client has changed its subscriptions or advertisements since the negotiation
    phase: SourcePhase = SourcePhase.NEGOTIATING
    address: str = ""  # where the target listens for clients
    delivered: list[EventId] = []  # to the client since the negotiation began: the target may have received them too
    kept: list[ClientReply] = []  # messages for the client since its state was sent
    waiting: list[
        tuple[Layer, str]
    ] = []  # requests that were unconfirmed then: the target confirms them, or this broker
    reason: str = ""  # why the movement was given up
    life: int = 0  # the epoch in which the target took the client over

    @property
    def operation(self) -> str:
        return self.request.operation

    @property
    def client(self) -> Node:
        return self.request.client

    @property
    def after(self) -> Node:
        return self.request.path[1]

    @property
    def target(self) -> Node:
        return self.request.path[-1]


class TargetMovement(msgspec.Struct, tag="target"):
    """At the target. `before`: the neighbour towards the source."""

    operation: str
    handed: HandedClient
    before: Node
    delay_ms_max: int
    phase: TargetPhase = TargetPhase.APPROVED
    queued: list[Event] = []  # events for the client since the approval

    @property
    def client(self) -> Node:
        return self.handed.name


class PathMovement(msgspec.Struct, tag="path"):
    """At a broker in between."""

    operation: str
    client: Node
    before: Node
    after: Node
    phase: PathPhase = PathPhase.LOCKED
    path: list[Node] = []  # from the source to the target


Movement: TypeAlias = SourceMovement | TargetMovement | PathMovement
