"""Reports of a broker to its neighbours: who its other neighbours are, and where; and to its clients: where to ask.

A report is sent when a neighbour has come up, in whatever epoch, and whenever its content has changed. What neighbours
have reported is in the machine (core/overlay/neighbour_info.py), and on disk with it.
"""

from __future__ import annotations

from pleach.core.effects import Send
from pleach.core.messages import FallbackBrokers, NeighbourAddress, NeighbourReport, Node
from pleach.core.overlay.neighbour_info import NeighbourInfo
from pleach.server.feature import Feature
from pleach.server.links import Wire
from pleach.server.parts import NodeParts


class NeighbourReports(Feature):
    def __init__(self, parts: NodeParts) -> None:
        self._broker, self._endpoint, self._links = parts.broker, parts.endpoint, parts.links
        self._directory = parts.directory
        neighbour_info = parts.broker.machine(NeighbourInfo)
        assert neighbour_info is not None, "assemble.py gives it to every broker"
        self.of = neighbour_info.of
        self._told: dict[Node, tuple[int, NeighbourReport]] = {}  # per neighbour: its epoch, and the last report to it
        self._fallbacks: dict[Node, tuple[Wire, FallbackBrokers]] = {}  # per client: its connection, and what was sent

    def address_of(self, broker: Node) -> str:
        """Where clients find a neighbour; empty: not known."""
        report = self.of(broker)
        return report.own.client if report else ""

    def tick(self, now: float) -> None:
        report = self._report()
        for peer in sorted(self._broker.router.neighbours):
            told = self._endpoint.admit(peer).peer_epoch, report
            if self._links.is_up(peer) and self._told.get(peer) != told:
                self._told[peer] = told
                self._endpoint.perform([Send(peer, report)], now=now)
        addresses = [place.client for place in report.neighbours.values() if place.client]
        self._tell_clients(FallbackBrokers(addresses), now)

    def _tell_clients(self, fallback: FallbackBrokers, now: float) -> None:
        """All that are connected, once on each connection if there is anything to tell, and whenever it has changed."""
        links, before = self._links, self._fallbacks
        here = [client for client in self._broker.sessions.clients if client in links and links.is_up(client)]
        self._fallbacks = {client: (links[client].wire, fallback) for client in here}
        new = [
            client
            for client in here
            if before.get(client) != self._fallbacks[client] and (client in before or fallback.addresses)
        ]
        self._endpoint.perform([Send(client, fallback) for client in new], now=now)

    def _report(self) -> NeighbourReport:
        places = self._directory.places
        own = NeighbourAddress(places.client, places.peer, places.admin)
        return NeighbourReport(own, {peer: self._place(peer) for peer in sorted(self._broker.router.neighbours)})

    def _place(self, neighbour: Node) -> NeighbourAddress:
        report = self.of(neighbour)
        return report.own if report else NeighbourAddress(admin=self._directory.admins.get(neighbour, ""))
