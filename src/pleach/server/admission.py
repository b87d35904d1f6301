"""Who is let in: what a broker asks of a connection's first frame before it takes the connection over.

Brokers come by the door for peers: neighbours, those that a reconfiguration has linked or is just giving up, and those
that the settings say may join. Who is none of them is refused, and tries again if it knows better: a link can be known
at its other end first.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from pleach.core.links.frames import STAND_IN, ByeReason, Hello
from pleach.core.messages import Node
from pleach.server.settings import NAME_BYTES_MAX

if TYPE_CHECKING:
    from pleach.server.node import BrokerNode

NUMBER_MAX = 2**62  # of epochs and sequences: a store keeps 64 bits with a sign, and they only rise


class Port(Enum):
    """The listener that a connection came in by."""

    CLIENTS = "client"
    PEERS = "peer"


class Admission:
    def __init__(self, node: BrokerNode) -> None:
        self._node = node

    def why_not(self, hello: Hello, door: Port) -> tuple[ByeReason, str]:
        """Why a peer is not let in; the reason is empty for one that is."""
        node, peer = self._node, hello.node
        if not _is_sane(hello):
            return (
                ByeReason.REFUSED,
                f"a Hello that nobody sends who means it: a name of at most {NAME_BYTES_MAX} bytes",
            )
        if peer == node.name or not self._is_right_door(peer, door):
            return ByeReason.REFUSED, f"{node.name} does not take {peer!r} as a {door.value}: not a name for this port"
        if peer in node.broker.hosting.here:
            return ByeReason.REFUSED, f"{peer} is a component that {node.name} hosts: choose another name"
        session = node.endpoint.sessions.get(peer)
        if session is not None and hello.epoch < session.peer_epoch:
            return ByeReason.FENCED, f"a newer {peer} (epoch {session.peer_epoch}) is known to {node.name}"
        if session is not None and session.peer_epoch == hello.epoch and self._prefers_own(peer):
            return ByeReason.LEAVING, f"{node.name} has a connection to {peer} already"
        if door is Port.PEERS and hello.role != STAND_IN and self._has_stand_in(hello):
            return ByeReason.FENCED, f"{peer} has a stand-in, which is at work; remove that one first"
        return (ByeReason.LEAVING, "") if door is Port.PEERS else self._why_no_client(hello)

    def _why_no_client(self, hello: Hello) -> tuple[ByeReason, str]:
        node, peer = self._node, hello.node
        if hello.wants not in ("", node.name):
            return ByeReason.ELSEWHERE, f"this is {node.name}, not {hello.wants}"
        if node.guardian.cut_off:
            return ByeReason.REFUSED, node.guardian.cut_off
        if node.leaving.has_left and peer not in node.endpoint.upkeep.links:
            return ByeReason.REFUSED, f"{node.name} has been removed from the tree"
        if node.ring is not None and node.ring.is_outside:
            return ByeReason.REFUSED, f"{node.name} is not in the tree yet; come again"
        is_present = peer in node.broker.sessions or peer in node.links
        if not is_present and node.absence.clients >= node.settings.limits.clients:
            return ByeReason.REFUSED, f"{node.name} has {node.settings.limits.clients} clients, its limit"
        return ByeReason.LEAVING, ""

    def _is_right_door(self, peer: Node, door: Port) -> bool:
        return self._node.directory.is_welcome(peer) if door is Port.PEERS else not self._node.directory.is_linked(peer)

    def _has_stand_in(self, hello: Hello) -> bool:
        """Whether this is another life of a broker whose stand-in we hear: a broker without memory that came back."""
        stand = self._node.neighbour_reports.stand_of(hello.node)
        return stand is not None and stand.epoch != hello.epoch and self._node.is_up(hello.node)

    def _prefers_own(self, peer: Node) -> bool:
        """Where both sides dial, the connection that the smaller name made is the one that stays."""
        link = self._node.links.get(peer)
        return link is not None and link.is_dialled and self._node.is_up(peer) and self._node.name < peer


def _is_sane(hello: Hello) -> bool:
    """Whether the numbers of a Hello can be kept and the name shown: strangers write what they like."""
    numbers = (hello.epoch, hello.peer_epoch, hello.received, hello.first)
    name = hello.node
    is_name = 0 < len(name.encode()) <= NAME_BYTES_MAX and name.isprintable()
    return is_name and hello.epoch > 0 and hello.first > 0 and all(0 <= number < NUMBER_MAX for number in numbers)
