"""Reports of a broker to its neighbours: who its other neighbours are, and where, so that they can replace it.

A report is sent when a neighbour has come up, in whatever epoch, and whenever its content has changed. What neighbours
have reported is in the machine (core/overlay/neighbour_info.py), and on disk with it.
"""

from __future__ import annotations

import logging

from pleach.core.effects import Observed, Send
from pleach.core.links.batch import Batch
from pleach.core.links.frames import STAND_IN, ByeReason, Hello
from pleach.core.messages import FallbackBrokers, NeighbourAddress, NeighbourReport, Node, StandInAddress
from pleach.core.overlay.healing.stand_in import StandIn, StandInPhase
from pleach.core.overlay.neighbour_info import NeighbourInfo
from pleach.server.feature import Feature, HelloRefusal
from pleach.server.links import Port, Wire
from pleach.server.parts import NodeParts

log = logging.getLogger(__name__)


class NeighbourReports(Feature):
    def __init__(self, parts: NodeParts) -> None:
        self._broker, self._endpoint, self._links = parts.broker, parts.endpoint, parts.links
        self._directory, self._settings = parts.directory, parts.settings
        self._neighbour_info = parts.broker.machine(NeighbourInfo)
        self._stand_in = parts.broker.machine(StandIn)
        self._told: dict[Node, tuple[int, NeighbourReport]] = {}  # per neighbour: its epoch, and the last report to it
        self._fallbacks: dict[Node, tuple[Wire, FallbackBrokers]] = {}  # per client: its connection, and what was sent

    def of(self, neighbour: Node) -> NeighbourReport | None:
        return self._neighbour_info.of(neighbour) if self._neighbour_info else None

    def stand_in_of(self, broker: Node) -> StandInAddress | None:
        """Where a broker is that is a stand-in."""
        return self._neighbour_info.stands.get(broker) if self._neighbour_info else None

    def address_of(self, broker: Node) -> str:
        """Where clients find a broker that is a stand-in; empty: not known."""
        stand_in = self.stand_in_of(broker)
        return stand_in.client if stand_in else ""

    def refuse_hello(self, hello: Hello, port: Port) -> HelloRefusal | None:
        """A stand-in where nobody heals; or a broker without memory that came back, while its stand-in is connected."""
        if hello.role == STAND_IN and self._settings().heal is None:
            reason = f"healing is off at {self._broker.name}: it takes no stand-in for {hello.node}"
            return HelloRefusal(ByeReason.REFUSED, reason)
        stand_in = self.stand_in_of(hello.node)
        if port is Port.CLIENTS or hello.role == STAND_IN or stand_in is None:
            return None
        if stand_in.epoch == hello.epoch or not self._links.is_up(hello.node):
            return None
        reason = f"{hello.node} has a stand-in, which is at work; remove that one first"
        return HelloRefusal(ByeReason.FENCED, reason, is_at_work=True)

    @property
    def phase(self) -> StandInPhase:
        """How far this broker is, as a stand-in."""
        return self._stand_in.phase if self._stand_in else StandInPhase.IDLE

    def committed(self, batch: Batch, now: float) -> None:
        """Log what a stand-in observes."""
        if self._settings().stand_in is not None:
            for seen in batch.observed:
                if seen.kind is Observed.STATE:
                    log.info("%s%s", seen.detail, f": {seen.event_id}" if seen.event_id else "")

    def tick(self, now: float) -> None:
        if self._settings().heal is None or self._neighbour_info is None:
            return
        report = self._report(self._neighbour_info)
        for peer in sorted(self._broker.router.neighbours):
            told = self._endpoint.admit(peer).peer_epoch, report
            if self._links.is_up(peer) and self._told.get(peer) != told:
                self._told[peer] = told
                self._endpoint.perform([Send(peer, report)], now=now)
        addresses = [place.client for place in report.neighbours.values() if place.client]
        self._tell_clients(FallbackBrokers(addresses), now)

    def _tell_clients(self, fallback: FallbackBrokers, now: float) -> None:
        """All that are connected, once on each connection, and whenever it has changed."""
        links, before = self._links, self._fallbacks
        here = [client for client in self._broker.sessions.clients if client in links and links.is_up(client)]
        self._fallbacks = {client: (links[client].wire, fallback) for client in here}
        new = [client for client in here if before.get(client) != self._fallbacks[client]]
        self._endpoint.perform([Send(client, fallback) for client in new], now=now)

    def _report(self, neighbour_info: NeighbourInfo) -> NeighbourReport:
        router, places = self._broker.router, self._directory.places
        own = NeighbourAddress(places.client, places.peer, places.admin)
        neighbours = {peer: self._place(peer) for peer in sorted(router.neighbours)}
        stand_ins = dict(neighbour_info.stands)
        if self._settings().stand_in is not None:
            stand_ins[self._broker.name] = StandInAddress(self._endpoint.epoch, places.client)
        beyond = {peer: self._beyond(peer) for peer in neighbours}
        return NeighbourReport(own, neighbours, router.parent or "", beyond, dict(sorted(stand_ins.items())))

    def _beyond(self, neighbour: Node) -> list[str]:
        report = self.of(neighbour)
        others = report.neighbours if report else {}
        return [place.admin for name, place in sorted(others.items()) if name != self._broker.name and place.admin]

    def _place(self, neighbour: Node) -> NeighbourAddress:
        report = self.of(neighbour)
        return report.own if report else NeighbourAddress(admin=self._directory.admins.get(neighbour, ""))
