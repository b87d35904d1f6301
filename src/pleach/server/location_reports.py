"""Reports of a broker to its neighbours, and to its clients: where it and others are, should one be lost and promoted.

Rule 1: a neighbour is told all that is known when it comes up in another epoch, and later what is new. What it does not
        know of it, it passes on: so every broker knows where each broker is, and which hosts know more.
Rule 2: clients of a broker that has standbys are told other brokers' addresses, where they ask for it when it is gone.
Rule 3: where no broker has standbys, and none has others pass on its links ([relay]), nothing is told.

What neighbours have told is in the machine (core/overlay/locations.py), and on disk with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec

from pleach.core.effects import Send
from pleach.core.messages import BrokerLocation, FallbackBrokers, HostLocation, LocationReport, Node
from pleach.core.standby.views import Machine
from pleach.server.feature import Feature
from pleach.server.parts import NodeParts

Location = TypeVar("Location", BrokerLocation, HostLocation)

NOTHING = LocationReport({}, {})
LOCATIONS_PER_REPORT = 500  # of brokers, and of hosts: a network of any size fits into frames


class Told(NamedTuple):
    """All that a neighbour was told, in its present epoch."""

    epoch: int
    report: LocationReport


class LocationReports(Feature):
    def __init__(self, parts: NodeParts) -> None:
        self._broker, self._endpoint, self._links = parts.broker, parts.endpoint, parts.links
        self._directory, self._clock = parts.directory, parts.clock
        self._known = parts.directory.known
        self._settings = parts.settings
        self._since = time.time_ns()
        self._epoch = 0  # the highest that neighbours go by: above its own where its clock was put back
        self._told: dict[Node, Told] = {}
        self._report = NOTHING  # all that is known
        self._revision = -1  # of what `_report` says of others

    def announce(self, machine: Machine, host: HostLocation) -> None:
        """A machine has said that it may hold copies of brokers, or that it is leaving; it says so again and again."""
        known = self._known.hosts.get(machine)
        if known is None or (known.since < host.since and msgspec.structs.replace(known, since=host.since) != host):
            self._endpoint.request(LocationReport({}, {machine: host}), now=self._clock())

    def tick(self, now: float) -> None:
        self._update()
        for peer in sorted(self._broker.router.neighbours):
            if self._links.is_up(peer) and self._is_of_use(peer):
                self._tell(peer, now)
        if self._directory.view is not None:
            self._tell_clients(self._directory.fallbacks, now)

    def _update(self) -> None:
        """In a large network, copied and compared only where something is new."""
        own = self._own_location()
        if self._revision != self._known.revision or self._report.brokers.get(self._broker.name) != own:
            self._revision = self._known.revision
            self._report = LocationReport({**self._known.brokers, self._broker.name: own}, dict(self._known.hosts))

    def _is_of_use(self, peer: Node) -> bool:
        """Rule 3."""
        is_replicated = self._directory.view is not None or self._endpoint.sessions[peer].peer_view > 0
        return is_replicated or self._settings().relay is not None or bool(self._known.brokers)

    def _own_location(self) -> BrokerLocation:
        view, places = self._directory.view, self._directory.places
        machine, hosts = (view.primary, view.addresses) if view is not None else ("", {})
        sessions = self._endpoint.sessions
        taken = (sessions[peer].introduction.epoch for peer in self._broker.router.neighbours if peer in sessions)
        self._epoch = max(self._epoch, self._endpoint.epoch, *taken)
        term = (self._epoch, self._directory.view_number, self._since)
        return BrokerLocation(*term, places.client, places.peer, places.admin, machine, dict(hosts))

    def _tell(self, peer: Node, now: float) -> None:
        epoch, everything = self._endpoint.sessions[peer].peer_epoch, self._report
        told = self._told.get(peer)
        if told is not None and told.epoch == epoch and told.report is everything:
            return
        before = told.report if told is not None and told.epoch == epoch else NOTHING
        self._told[peer] = Told(epoch, everything)
        brokers = {name: each for name, each in everything.brokers.items() if before.brokers.get(name) != each}
        hosts = {name: each for name, each in everything.hosts.items() if before.hosts.get(name) != each}
        brokers.pop(peer, None)
        for report in portions(LocationReport(brokers, hosts)):
            self._endpoint.perform([Send(peer, report)], now=now)

    def _tell_clients(self, addresses: tuple[str, ...], now: float) -> None:
        """Those that are connected, and whom their broker's Hello or a later message has told otherwise."""
        here = [client for client in self._broker.sessions.clients if client in self._links]
        for client in filter(self._links.is_up, here):
            own = self._endpoint.sessions[client].introduction
            if own.fallbacks != addresses:
                own.fallbacks = addresses
                self._endpoint.perform([Send(client, FallbackBrokers(list(addresses)))], now=now)


def portions(report: LocationReport) -> Iterator[LocationReport]:
    """Of bounded size; none where there is nothing to tell."""
    yield from (LocationReport(brokers, {}) for brokers in _cut(report.brokers))
    yield from (LocationReport({}, hosts) for hosts in _cut(report.hosts))


def _cut(locations: dict[Node, Location]) -> Iterator[dict[Node, Location]]:
    items = iter(locations.items())
    while portion := dict(islice(items, LOCATIONS_PER_REPORT)):
        yield portion
