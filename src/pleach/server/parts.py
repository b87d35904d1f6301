"""The parts of a broker node, of which features are made; each feature takes those that it needs, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pleach.core.broker import Broker
from pleach.core.links.endpoint import Endpoint
from pleach.server.door.gate import Gate
from pleach.server.links import LinkTable
from pleach.server.metrics import Counters
from pleach.server.operations import Operations
from pleach.server.peer_directory import PeerDirectory
from pleach.server.settings import BrokerSettings
from pleach.server.storage.committer import Committer


@dataclass(frozen=True, slots=True)
class NodeParts:
    broker: Broker
    gate: Gate
    endpoint: Endpoint
    links: LinkTable
    directory: PeerDirectory
    operations: Operations
    committer: Committer
    counters: Counters
    settings: Callable[[], BrokerSettings]
    clock: Callable[[], float]
