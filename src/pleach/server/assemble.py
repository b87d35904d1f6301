"""Assembly of a broker process: the broker with its protocols, from the settings, and the list of its features."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

from pleach.core.broker import Broker, MachineMaker
from pleach.core.hosting.component import Factory
from pleach.core.hosting.running_sum import BUILT_IN
from pleach.core.mobility.admission import up_to
from pleach.core.mobility.machine import Mobility
from pleach.core.overlay.locations import KnownLocations
from pleach.core.overlay.registry import machines
from pleach.core.routing.router import Router
from pleach.core.stabilise.leases import Leases
from pleach.core.stabilise.paced import PacedRebuild
from pleach.errors import SettingsError
from pleach.server.absence import AbsentClients
from pleach.server.backpressure import Backpressure
from pleach.server.council import Council
from pleach.server.dialling import Dial, Dialling, Dials
from pleach.server.door.audit_log import FILE, AuditLog
from pleach.server.door.broker_names import BrokerNames
from pleach.server.door.client_door import ClientDoor, OpenDoor
from pleach.server.door.operator_door import OperatorDoor
from pleach.server.door.quotas import PrincipalQuotas
from pleach.server.door.refused_links import RefusedLinks
from pleach.server.door.transport_security import TransportSecurity
from pleach.server.enquiries import Enquiries
from pleach.server.feature import Feature, Features
from pleach.server.http.faults import InjectedFaults
from pleach.server.leaving import Leaving
from pleach.server.location_reports import LocationReports
from pleach.server.parts import NodeParts
from pleach.server.probes import Probes
from pleach.server.readers import Readers
from pleach.server.relay.relayed_links import RelayedLinks
from pleach.server.relay.replacement import RelayReplacement
from pleach.server.relay.settings import RelaySettings
from pleach.server.relay.tunnels import Tunnels
from pleach.server.ring.member import RingMember
from pleach.server.settings import BrokerSettings
from pleach.server.stabilise_settings import LeaseSettings
from pleach.server.stabilising import Stabilising
from pleach.server.standby.candidates import CandidateMachines
from pleach.server.standby.primary_seat import PrimarySeat
from pleach.server.standby.replication import Replication
from pleach.server.traffic_notes import TrafficNotes

# The broker ----------------------------------------------------------------------------------------------------


def first_broker(settings: BrokerSettings) -> Broker:
    """A broker at its first start; `address` follows once it listens."""
    return Broker(
        settings.name,
        settings.routing_config,
        neighbours=settings.all_neighbours,
        parent=settings.parent or None,
        machines=_machines(settings),
        make_router=settings.stabilise.router_for(settings.all_neighbours) if settings.stabilise else Router,
        components=factories(settings),
    )


def _machines(settings: BrokerSettings) -> list[MachineMaker]:
    stabilising = [settings.stabilise.machine] if settings.stabilise else []
    if settings.stabilise and settings.stabilise.rebuilds:  # on links that stay: no protocol changes any
        return [KnownLocations, *stabilising]
    admit = up_to(settings.limits.clients, settings.limits.subscriptions)
    mobility = partial(Mobility, admit=admit)
    return [*machines(settings.ordering), mobility, KnownLocations, *stabilising]


def factories(settings: BrokerSettings) -> Mapping[str, Factory]:
    """The kinds of components that a broker can host: the built-in ones, and those of its settings.

    Raises SettingsError where a kind cannot be found.
    """
    return {**BUILT_IN, **{kind: _found(kind, place) for kind, place in sorted(settings.components.items())}}


def _found(kind: str, place: str) -> Factory:
    module, _, name = place.partition(":")
    try:
        factory = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        remedy = "write MODULE:FACTORY of something that Python can import where the broker runs"
        raise SettingsError(f"components.{kind}", f"{place!r} is not to be found: {error}", remedy) from None
    if not callable(factory):
        raise SettingsError(f"components.{kind}", f"{place!r} cannot be called", "name a class, or a function")
    return factory  # type: ignore[no-any-return]


# The features --------------------------------------------------------------------------------------------------


def features_of(
    parts: NodeParts, dials: Dials, on_end: Callable[[str], None], seat: PrimarySeat | None = None
) -> Features:
    """The features of a broker, in the order in which their hooks are called. `on_end`: its removal is complete."""
    settings = parts.settings()
    absent, reports = AbsentClients(parts), LocationReports(parts)
    leaving = Leaving(parts, absent, on_end, is_promoted=seat is not None and seat.is_promoted)
    security = TransportSecurity(parts.settings, settings.tls) if settings.tls else None
    door = _client_door(parts, settings, security)
    quotas = PrincipalQuotas(parts, door.principal_of) if door else None
    ring = RingMember(parts, settings.ring, leaving, security) if settings.ring else None
    features: list[Feature | None] = [
        parts.committer,
        parts.operations,
        _replication(parts, seat, reports, ring) if seat else None,
        security,
        _dialling(parts, dials.directly, security) if dials.directly else None,
        *_relaying(parts, dials, settings.relay),
        RefusedLinks(parts),
        BrokerNames(parts),
        door or OpenDoor(parts),
        _operator_door(door, settings, security) if door else None,
        quotas,
        Backpressure(parts, absent, quota=quotas.outbox_bytes_max) if quotas else Backpressure(parts, absent),
        _stabilising(parts, settings.stabilise),
        reports,
        ring,
        leaving,
        absent,
        Probes(parts, number=time.time_ns()),
        Council(parts, settings.improve) if settings.improve else None,
        Readers(parts, absent),
        TrafficNotes(),
        InjectedFaults(parts) if settings.debug_faults else None,
    ]
    return Features(feature for feature in features if feature is not None)


def _replication(parts: NodeParts, seat: PrimarySeat, reports: LocationReports, ring: RingMember | None) -> Replication:
    candidates = CandidateMachines(
        seat.member,
        parts.directory,
        parts.broker.router,
        seat.links,
        parts.settings,
        owner=ring.successor if ring else lambda: "",
    )
    return Replication(parts, seat, candidates, reports.announce)


def _dialling(parts: NodeParts, dial: Dial, security: TransportSecurity | None) -> Dialling:
    tls = security.dialling if security is not None else lambda: None
    enquiries = Enquiries(parts.broker.name, parts.endpoint.epoch, parts.directory, tls)
    return Dialling(parts.directory, parts.links, dial, find=enquiries.find)


def _relaying(parts: NodeParts, dials: Dials, settings: RelaySettings | None) -> list[Feature]:
    """What a broker does for others, and what others do for it."""
    if settings is None or dials.directly is None or dials.through is None:
        return []
    links = RelayedLinks(parts, settings, dials.directly, dials.through)
    return [Tunnels(parts, settings), links, RelayReplacement(parts, settings, links)]


def _client_door(parts: NodeParts, settings: BrokerSettings, security: TransportSecurity | None) -> ClientDoor | None:
    if settings.access is None:
        return None
    certificate = security.own_certificate if security is not None else lambda: b""
    return ClientDoor(parts, Path(settings.access.file), certificate=certificate)


def _operator_door(door: ClientDoor, settings: BrokerSettings, security: TransportSecurity | None) -> OperatorDoor:
    """A broker that keeps nothing on disk has its audit log where it tells everything else."""
    told = settings.access.audit if settings.access else ""
    kept = Path(settings.data_dir) / FILE if settings.data_dir else None
    return OperatorDoor(settings.name, lambda: door.access, security, AuditLog(Path(told) if told else kept))


def _stabilising(parts: NodeParts, settings: LeaseSettings | None) -> Stabilising | None:
    machine = parts.broker.machine(Leases) or parts.broker.machine(PacedRebuild)
    if machine is None or settings is None:
        return None
    return Stabilising(parts.broker, parts.endpoint, machine, settings, parts.counters, clock=parts.clock)
