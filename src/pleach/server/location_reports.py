"""Reports of a broker to its neighbours, and to its clients: where it and others are, should one be lost and promoted.

Rule 1: a neighbour is told all that is known when it comes up in another epoch, and later what is new. What it does not
        know of it, it passes on: so every broker knows where each broker is, and which hosts know more.
Rule 2: clients of a broker that has standbys are told other brokers' addresses, where they ask for it when it is gone.
Rule 3: where no broker has standbys, nothing is told.

What neighbours have told is in the machine (core/overlay/locations.py), and on disk with it.
"""

from __future__ import annotations

import time

import msgspec

from pleach.core.effects import Send
from pleach.core.messages import BrokerLocation, FallbackBrokers, HostLocation, LocationReport, Node
from pleach.core.standby.views import Machine
from pleach.server.feature import Feature
from pleach.server.parts import NodeParts

NOTHING = LocationReport({}, {})


class LocationReports(Feature):
    def __init__(self, parts: NodeParts) -> None:
        self._broker, self._endpoint, self._links = parts.broker, parts.endpoint, parts.links
        self._directory, self._clock = parts.directory, parts.clock
        self._known = parts.directory.known
        self._since = time.time_ns()
        self._told: dict[Node, tuple[int, LocationReport]] = {}  # per neighbour: its epoch, and all that it was told

    def announce(self, machine: Machine, host: HostLocation) -> None:
        """A machine has said that it may hold copies of brokers, or that it is leaving; it says so again and again."""
        known = self._known.hosts.get(machine)
        if known is None or (known.since < host.since and msgspec.structs.replace(known, since=host.since) != host):
            self._endpoint.request(LocationReport({}, {machine: host}), now=self._clock())

    def tick(self, now: float) -> None:
        everything = LocationReport(
            {**self._known.brokers, self._broker.name: self._own_location()}, dict(self._known.hosts)
        )
        for peer in sorted(self._broker.router.neighbours):
            if self._links.is_up(peer) and self._is_of_use(peer):
                self._tell(peer, everything, now)
        if self._directory.view is not None:
            self._tell_clients(self._directory.fallbacks, now)

    def _is_of_use(self, peer: Node) -> bool:
        """Rule 3."""
        is_replicated = self._directory.view is not None or self._endpoint.sessions[peer].peer_view > 0
        return is_replicated or bool(self._known.brokers)

    def _own_location(self) -> BrokerLocation:
        view, places = self._directory.view, self._directory.places
        machine, hosts = (view.primary, view.addresses) if view is not None else ("", {})
        term = (self._endpoint.epoch, self._directory.view_number, self._since)
        return BrokerLocation(*term, places.client, places.peer, places.admin, machine, dict(hosts))

    def _tell(self, peer: Node, everything: LocationReport, now: float) -> None:
        epoch = self._endpoint.sessions[peer].peer_epoch
        told_epoch, told = self._told.get(peer, (0, NOTHING))
        if told_epoch != epoch:
            told = NOTHING
        self._told[peer] = epoch, everything
        brokers = {name: each for name, each in everything.brokers.items() if told.brokers.get(name) != each}
        hosts = {name: each for name, each in everything.hosts.items() if told.hosts.get(name) != each}
        brokers.pop(peer, None)
        if brokers or hosts:
            self._endpoint.perform([Send(peer, LocationReport(brokers, hosts))], now=now)

    def _tell_clients(self, addresses: tuple[str, ...], now: float) -> None:
        """Those that are connected, and whom their broker's Hello or a later message has told otherwise."""
        here = [client for client in self._broker.sessions.clients if client in self._links]
        for client in filter(self._links.is_up, here):
            own = self._endpoint.sessions[client].introduction
            if own.fallbacks != addresses:
                own.fallbacks = addresses
                self._endpoint.perform([Send(client, FallbackBrokers(list(addresses)))], now=now)
