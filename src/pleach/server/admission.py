"""Admission: whether the node accepts a connection, by its first frame.

Brokers come by the port for peers: neighbours, brokers that a reconfiguration has linked or is about to unlink, and
brokers that may join. Any other one is refused, and tries again: a link may be known at its other end first. Features
have further reasons (`Feature.refuse_hello`), and are asked last.
"""

from __future__ import annotations

from pleach.core.broker import Broker
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import ByeReason, Hello
from pleach.core.messages import Node
from pleach.server.feature import Feature, Features, HelloRefusal
from pleach.server.links import LinkTable, Port
from pleach.server.peer_directory import PeerDirectory
from pleach.server.settings import NAME_BYTES_MAX

NUMBER_MAX = 2**62  # of epochs and sequences: a store keeps 64 bits with a sign, and they only rise


class Admission:
    def __init__(
        self, broker: Broker, endpoint: Endpoint, directory: PeerDirectory, links: LinkTable, features: Features
    ) -> None:
        self._broker = broker
        self._endpoint = endpoint
        self._directory = directory
        self._links = links
        self._welcomes = features.hooks(Feature.welcomes)
        self._refusals = features.hooks(Feature.refuse_hello)

    def refusal(self, hello: Hello, port: Port) -> HelloRefusal | None:
        """Why a connection is refused; None: it is accepted."""
        name, peer = self._broker.name, hello.node
        if reason := _malformed(hello):
            return HelloRefusal(ByeReason.REFUSED, reason)
        if peer == name or not self._is_right_port(peer, port):
            reason = f"{name} does not take {peer!r} as a {port.value}: not a name for this port"
            return HelloRefusal(ByeReason.REFUSED, reason)
        if peer in self._broker.hosting.here:
            return HelloRefusal(ByeReason.REFUSED, f"{peer} is a component that {name} hosts: choose another name")
        session = self._endpoint.sessions.get(peer)
        if session is not None and hello.epoch < session.peer_epoch:
            reason = f"a newer {peer} (epoch {session.peer_epoch}) is known to {name}"
            return HelloRefusal(ByeReason.FENCED, reason)
        if session is not None and session.peer_epoch == hello.epoch and self._prefers_own(peer):
            return HelloRefusal(ByeReason.LEAVING, f"{name} has a connection to {peer} already")
        if port is Port.CLIENTS and hello.wants not in ("", name):
            return HelloRefusal(ByeReason.ELSEWHERE, f"this is {name}, not {hello.wants}")
        return next((found for refuse in self._refusals if (found := refuse(hello, port))), None)

    def _is_right_port(self, peer: Node, port: Port) -> bool:
        if port is Port.CLIENTS:
            return not self._directory.is_linked(peer)
        return self._directory.is_welcome(peer) or any(welcomes(peer) for welcomes in self._welcomes)

    def _prefers_own(self, peer: Node) -> bool:
        """Where both sides dial, the connection that the smaller name made is the one that stays."""
        link = self._links.get(peer)
        return link is not None and link.is_dialled and self._links.is_up(peer) and self._broker.name < peer


def _malformed(hello: Hello) -> str:
    """What is wrong with a Hello whose numbers cannot be stored, or whose name cannot be shown; empty: nothing."""
    if not 0 < len(hello.node.encode()) <= NAME_BYTES_MAX or not hello.node.isprintable():
        return f"malformed Hello: the name must be 1 to {NAME_BYTES_MAX} printable bytes"
    if hello.epoch <= 0 or hello.first <= 0:
        return "malformed Hello: epoch and first sequence must be above 0"
    if not all(0 <= number < NUMBER_MAX for number in (hello.epoch, hello.peer_epoch, hello.received, hello.first)):
        return f"malformed Hello: numbers must be at least 0 and below {NUMBER_MAX:,}"
    return ""
