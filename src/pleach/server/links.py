"""The table of links: for each peer that is connected, its connection and how it came about.

Rule 1: a peer has one link at a time; a newer connection replaces an older one.
Rule 2: `wires` is never changed in place, so that a sealed batch keeps the connections that its frames were made for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from pleach.core.broker import Broker
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import Frame
from pleach.core.links.session import SessionPhase
from pleach.core.messages import Node


class Port(Enum):
    """The listener that a connection came in by; a connection that was dialled counts as one of PEERS."""

    CLIENTS = "client"
    PEERS = "peer"


class Wire(Protocol):
    """A connection, as far as a broker node cares."""

    @property
    def unsent_bytes(self) -> int: ...

    def send(self, frame: Frame) -> None: ...

    def close(self, reason: str = ...) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Pause(Enum):
    """Why a link is not read from."""

    PRESSURE = "too much waits to be taken"
    QUOTA = "its principal publishes too fast"


@dataclass(slots=True)
class PeerLink:
    wire: Wire
    port: Port
    is_dialled: bool
    relay: Node = ""  # the broker that passes it on; empty: it is direct
    paused_by: set[Pause] = field(default_factory=set)  # not read from while there is a reason
    read_until: float = 0.0  # not paused before, by pressure

    def pause(self, why: Pause) -> None:
        self.paused_by.add(why)
        self.wire.pause_reading()

    def resume(self, why: Pause) -> None:
        self.paused_by.discard(why)
        if not self.paused_by:
            self.wire.resume_reading()


class LinkTable(Mapping[Node, PeerLink]):
    def __init__(self, broker: Broker, endpoint: Endpoint) -> None:
        self._components = broker.hosting
        self._endpoint = endpoint
        self._links: dict[Node, PeerLink] = {}
        self.wires: Mapping[Node, Wire] = {}

    def __getitem__(self, peer: Node) -> PeerLink:
        return self._links[peer]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._links)

    def __len__(self) -> int:
        return len(self._links)

    def put(self, peer: Node, link: PeerLink) -> PeerLink | None:
        """Returns the link that this one replaces."""
        old = self._links.get(peer)
        self._links[peer] = link
        self.wires = {**self.wires, peer: link.wire}
        return old

    def drop(self, peer: Node) -> None:
        del self._links[peer]
        self.wires = {name: kept for name, kept in self.wires.items() if name != peer}

    def is_up(self, peer: Node) -> bool:
        """Whether a peer has said Hello on its connection; components are up as long as the broker runs."""
        session = self._endpoint.sessions.get(peer)
        return (session is not None and session.phase is SessionPhase.UP) or peer in self._components.here

    def relay_of(self, peer: Node) -> Node:
        """The broker that passes a link on; empty: it is direct, or down."""
        link = self._links.get(peer)
        return link.relay if link is not None else ""

    def is_client(self, peer: Node) -> bool:
        """Whether a peer is connected by the port for clients."""
        link = self._links.get(peer)
        return link is not None and link.port is Port.CLIENTS
