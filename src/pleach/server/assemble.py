"""Assembly of a broker process: the broker with its protocols, from the settings, and the list of its features."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pleach.core.broker import Broker, MachineMaker
from pleach.core.links.endpoint import Endpoint
from pleach.core.mobility.admission import up_to
from pleach.core.mobility.machine import Mobility
from pleach.core.overlay.healing.neighbour_info import NeighbourInfo
from pleach.core.overlay.healing.stand_in import StandIn
from pleach.core.overlay.registry import machines
from pleach.core.routing.router import Router
from pleach.core.stabilise.machine import Leases
from pleach.core.stabilise.paced import PacedRebuild
from pleach.server.absence import AbsentClients
from pleach.server.backpressure import Backpressure
from pleach.server.committer import Committer
from pleach.server.component_kinds import factories
from pleach.server.council import Council
from pleach.server.dialling import Dial, Dialling
from pleach.server.feature import Feature, Features
from pleach.server.gate import Gate
from pleach.server.healing.guardian import Guardian
from pleach.server.healing.neighbour_info import NeighbourReports
from pleach.server.healing.settings import GRACE_SECONDS
from pleach.server.healing.stand_in_host import StandInHost
from pleach.server.healing.witness import DeathWitness
from pleach.server.injected_faults import InjectedFaults
from pleach.server.leaving import Leaving
from pleach.server.links import LinkTable
from pleach.server.metrics import Counters
from pleach.server.operations import Operations
from pleach.server.peer_directory import PeerDirectory
from pleach.server.probes import Probes
from pleach.server.readers import Readers
from pleach.server.ring.member import RingMember
from pleach.server.settings import BrokerSettings
from pleach.server.stabilising import Stabilising
from pleach.server.store import Store
from pleach.server.traffic_notes import TrafficNotes

# The broker ----------------------------------------------------------------------------------------------------


def first_broker(settings: BrokerSettings) -> Broker:
    """A broker at its first start; `address` follows once it listens."""
    return Broker(
        settings.name,
        settings.routing_config,
        neighbours=[] if settings.stand_in else settings.all_neighbours,
        parent=settings.parent or None,
        machines=_machines(settings),
        make_router=settings.stabilise.router_for(settings.all_neighbours) if settings.stabilise else Router,
        components=factories(settings),
    )


def _machines(settings: BrokerSettings) -> list[MachineMaker]:
    stabilising = [settings.stabilise.machine] if settings.stabilise else []
    if settings.stabilise and settings.stabilise.rebuilds:  # on links that stay: no protocol changes any
        return stabilising
    admit = up_to(settings.limits.clients, settings.limits.subscriptions)
    mobility = partial(Mobility, admit=admit)
    return [*machines(settings.ordering), mobility, *_healers(settings), *stabilising]


def _healers(settings: BrokerSettings) -> list[MachineMaker]:
    """Wherever there is order: so that healing can be turned on or off at any start with the same data directory."""
    if settings.ordering == "none":
        return []
    grace = settings.heal.grace if settings.heal else GRACE_SECONDS
    return [NeighbourInfo, partial(StandIn, ordering=settings.ordering, grace=grace)]


# The features --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What features are made of; each is given only the parts that it needs."""

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


def features_of(parts: NodeParts, store: Store | None, dial: Dial | None, on_end: Callable[[str], None]) -> Features:
    """The features of a broker, in the order in which their hooks are called. `on_end`: its removal is complete."""
    absent = _absent_clients(parts)
    leaving = Leaving(parts.endpoint, parts.gate, absent, limits=lambda: parts.settings().limits, on_end=on_end)
    reports = NeighbourReports(parts.broker, parts.endpoint, parts.directory, parts.links, parts.settings)
    features: list[Feature | None] = [
        parts.committer,
        parts.operations,
        Dialling(parts.directory, parts.links, dial) if dial else None,
        _backpressure(parts, absent),
        _stabilising(parts),
        reports,
        _guardian(parts, reports),
        _death_witness(parts, store),
        _ring_member(parts, leaving),
        leaving,
        absent,
        Probes(parts.broker, parts.links, parts.operations, number=time.time_ns()),
        _council(parts),
        Readers(parts.endpoint, parts.directory, parts.links, absent=absent, committer=parts.committer),
        TrafficNotes(),
        _injected_faults(parts),
    ]
    return Features(feature for feature in features if feature is not None)


def _absent_clients(parts: NodeParts) -> AbsentClients:
    return AbsentClients(
        parts.endpoint,
        parts.gate,
        parts.directory,
        parts.links,
        parts.counters.clients,
        committer=parts.committer,
        limits=lambda: parts.settings().limits,
        now=parts.clock(),
    )


def _backpressure(parts: NodeParts, absent: AbsentClients) -> Backpressure:
    return Backpressure(
        parts.broker,
        parts.endpoint,
        parts.directory,
        parts.links,
        parts.counters.clients,
        absent=absent,
        publishers=parts.gate.publishers,
        limits=lambda: parts.settings().limits,
        clock=parts.clock,
    )


def _stabilising(parts: NodeParts) -> Stabilising | None:
    machine = parts.broker.machine(Leases) or parts.broker.machine(PacedRebuild)
    settings = parts.settings().stabilise
    if machine is None or settings is None:
        return None
    return Stabilising(parts.broker, parts.endpoint, machine, settings, parts.counters, clock=parts.clock)


def _guardian(parts: NodeParts, reports: NeighbourReports) -> Guardian:
    host = StandInHost(parts.settings)
    return Guardian(
        parts.broker,
        parts.endpoint,
        parts.directory,
        parts.links,
        parts.counters.heal,
        reports=reports,
        host=host,
        settings=parts.settings,
        clock=parts.clock,
        is_durable=parts.committer.is_durable,
    )


def _death_witness(parts: NodeParts, store: Store | None) -> DeathWitness | None:
    if parts.settings().heal is None:
        return None
    known = store.sightings() if store else ()
    return DeathWitness(parts.endpoint, parts.counters.heal, known, is_client=parts.links.is_client)


def _ring_member(parts: NodeParts, leaving: Leaving) -> RingMember | None:
    if parts.settings().ring is None:
        return None
    return RingMember(
        parts.broker,
        parts.directory,
        parts.operations,
        parts.counters.datagrams,
        leaving=leaving,
        settings=parts.settings(),
        is_durable=parts.committer.is_durable,
    )


def _council(parts: NodeParts) -> Council | None:
    settings = parts.settings()
    if settings.improve is None:
        return None
    return Council(
        parts.broker,
        parts.endpoint.epoch,
        parts.directory,
        parts.links,
        parts.operations,
        parts.counters.improve,
        conduct=settings.improve,
        where=settings.circumstances,
        clock=parts.clock,
    )


def _injected_faults(parts: NodeParts) -> InjectedFaults | None:
    if not parts.settings().debug_faults:
        return None
    return InjectedFaults(parts.broker, parts.endpoint, parts.committer, clock=parts.clock)
