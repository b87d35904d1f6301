"""What a broker tells its neighbours so that they can take care of its place: who the others are, and where.

It is told when a neighbour has come up, in whatever life, and whenever anything of it has changed. What neighbours have
told is in the machine (core/overlay/healing/neighbour_info.py), and on disk with it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pleach.core.effects import Observe, Observed, Send
from pleach.core.messages import FallbackBrokers, NeighbourAddress, NeighbourReport, Node, StandInAddress
from pleach.core.overlay.healing.neighbour_info import NeighbourInfo
from pleach.core.overlay.healing.stand_in import StandIn, StandInPhase
from pleach.server.committer import Wire

if TYPE_CHECKING:
    from pleach.server.node import BrokerNode

log = logging.getLogger(__name__)


class NeighbourReports:
    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._neighbour_info = node.broker.machine(NeighbourInfo)
        self._stand_in = node.broker.machine(StandIn)
        self._told: dict[Node, tuple[int, NeighbourReport]] = {}  # per neighbour: its life, and what it was told last
        self._refuges: dict[
            Node, tuple[Wire, FallbackBrokers]
        ] = {}  # per client: its connection, and what it was told there

    def of(self, neighbour: Node) -> NeighbourReport | None:
        return self._neighbour_info.of(neighbour) if self._neighbour_info else None

    def stand_of(self, broker: Node) -> StandInAddress | None:
        """Where a broker stands that is a stand-in."""
        return self._neighbour_info.stands.get(broker) if self._neighbour_info else None

    def address_of(self, broker: Node) -> str:
        """Where clients find a broker that is a stand-in; empty where nothing is known of it."""
        stand = self.stand_of(broker)
        return stand.client if stand else ""

    @property
    def phase(self) -> StandInPhase:
        """How far this broker is, as a stand-in."""
        return self._stand_in.phase if self._stand_in else StandInPhase.IDLE

    def observe(self, seen: Observe) -> None:
        """What a stand-in says of itself."""
        if self._node.settings.stand_in is not None and seen.kind is Observed.STATE:
            log.info("%s%s", seen.detail, f": {seen.event_id}" if seen.event_id else "")

    def tell(self, now: float) -> None:
        """To be called now and then."""
        node = self._node
        if node.settings.heal is None or self._neighbour_info is None:
            return
        kin = self._kin(self._neighbour_info)
        for peer in sorted(node.broker.router.neighbours):
            told = node.endpoint.admit(peer).peer_epoch, kin
            if node.is_up(peer) and self._told.get(peer) != told:
                self._told[peer] = told
                node.endpoint.perform([Send(peer, kin)], now=now)
        self._tell_clients(FallbackBrokers([place.client for place in kin.neighbours.values() if place.client]), now)

    def _tell_clients(self, refuge: FallbackBrokers, now: float) -> None:
        """Whoever is connected, once on each connection, and whenever it has changed."""
        node, before = self._node, self._refuges
        here = [client for client in node.broker.sessions.clients if client in node.links and node.is_up(client)]
        self._refuges = {client: (node.links[client].wire, refuge) for client in here}
        new = [client for client in here if before.get(client) != self._refuges[client]]
        node.endpoint.perform([Send(client, refuge) for client in new], now=now)

    def _kin(self, neighbour_info: NeighbourInfo) -> NeighbourReport:
        node, places = self._node, self._node.directory.places
        own = NeighbourAddress(places.client, places.peer, places.admin)
        neighbours = {peer: self._place(peer) for peer in sorted(node.broker.router.neighbours)}
        stands = dict(neighbour_info.stands)
        if node.settings.stand_in is not None:
            stands[node.name] = StandInAddress(node.endpoint.epoch, places.client)
        beyond = {peer: self._beyond(peer) for peer in neighbours}
        return NeighbourReport(own, neighbours, node.broker.router.parent or "", beyond, dict(sorted(stands.items())))

    def _beyond(self, neighbour: Node) -> list[str]:
        kin = self.of(neighbour)
        others = kin.neighbours if kin else {}
        return [place.admin for name, place in sorted(others.items()) if name != self._node.name and place.admin]

    def _place(self, neighbour: Node) -> NeighbourAddress:
        kin = self.of(neighbour)
        return kin.own if kin else NeighbourAddress(admin=self._node.directory.admins.get(neighbour, ""))
