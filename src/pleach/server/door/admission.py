"""Admission: whether the node accepts a connection, by its first frame.

Brokers come by the port for peers: neighbours, brokers that a reconfiguration has linked or is about to unlink, and
brokers that may join. Any other one is refused, and tries again: a link may be known at its other end first. Features
have further reasons (`Feature.refuse_hello`), and are asked last.

Rule 1: a role belongs to a port: clients do not come as brokers.
Rule 2: an epoch is a time of day (server/opening.py), or less. One from the future is refused: it would fence whoever
        has the name rightly, for as long as it lies ahead. One that was met before is none: this machine's own clock
        may have been put back since.
Rule 3: a broker that is connected is not replaced by another one of its name, whatever its epoch.
Rule 4: of two views of a broker the newer one counts. It replaces the older one, also while that is connected; and the
        older one is refused as fenced by whoever has heard of the newer one, connected or not.
Rule 5: a neighbour that has standbys does not come back without memory: a newer epoch with an older view is an empty
        machine of its name, and is refused as well. An operator may let it in (`expect`) where all copies are lost.
Rule 6: a neighbour with a data directory does not come back with another one, or without: that is a second broker of
        its name, which would end the first one for good. It is refused, also while the first one is away, unless an
        operator says that the first one is lost: to the newcomer (`replace`), or here (`expect`). What memory it
        had is not on disk here: after a restart, a neighbour that is away counts as one of the newcomer's kind.
        Who is about to be a neighbour was let in by others, and `replace` need not be said for ever: its memory may
        be another one than when it was a neighbour here before.
Rule 7: neighbours agree on the settings of their network (agreement.py).
Rule 8: whoever comes with an older epoch than that of a broker in memory is told this one, so that it may take a higher
        epoch: its clock was put back. That of a data directory is not told in this way: it does not change.
"""

from __future__ import annotations

import time

from pleach.core.broker import Broker
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import BROKER, CLIENT, ByeReason, Hello, Memory
from pleach.core.links.session import Session
from pleach.core.messages import Node
from pleach.server.door.agreement import disagreement
from pleach.server.feature import Feature, Features, HelloRefusal
from pleach.server.links import LinkTable, Port
from pleach.server.peer_directory import PeerDirectory
from pleach.server.settings import NAME_BYTES_MAX

NUMBER_MAX = 2**62  # of epochs and sequences: a store keeps 64 bits with a sign, and they only rise
AHEAD_SECONDS_MAX = 600  # of an epoch: how far two clocks may differ
ROLES = {Port.CLIENTS: (CLIENT,), Port.PEERS: (BROKER,)}  # readers and meters have no session (daemon.py)


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
        if (flaw := self.flaw(hello, port)) is not None:
            return flaw
        if peer == name or not self._is_right_port(peer, port):
            reason = f"{name} does not take {peer!r} as a {port.value}: not a name for this port"
            return HelloRefusal(ByeReason.REFUSED, reason)
        if peer in self._broker.hosting.here:
            return HelloRefusal(ByeReason.REFUSED, f"{peer} is a component that {name} hosts: choose another name")
        session = self._endpoint.sessions.get(peer)
        if (fenced := self._fenced(hello, port)) is not None:
            return fenced
        if session is not None and session.peer_epoch == hello.epoch and self._prefers_own(hello, session):
            return HelloRefusal(ByeReason.LEAVING, f"{name} has a connection to {peer} already")
        if port is Port.CLIENTS and hello.wants not in ("", name):
            return HelloRefusal(ByeReason.ELSEWHERE, f"this is {name}, not {hello.wants}")
        if port is Port.PEERS and (mismatch := self._mismatch(hello)) is not None:
            return mismatch
        refusal = next((found for refuse in self._refusals if (found := refuse(hello, port))), None)
        if refusal is None and session is not None and hello.epoch > session.peer_epoch:
            return self._replacing(hello, session, port)
        return refusal

    def flaw(self, hello: Hello, port: Port) -> HelloRefusal | None:
        """What is wrong with a Hello in itself."""
        if reason := malformed(hello, port):
            return HelloRefusal(ByeReason.REFUSED, reason)
        if reason := self._from_the_future(hello):
            return HelloRefusal(ByeReason.REFUSED, reason)
        return self._outdated(hello) if port is Port.PEERS else None

    def _from_the_future(self, hello: Hello) -> str:
        """Rule 2."""
        session, ahead = self._endpoint.sessions.get(hello.node), hello.epoch / 1e9 - time.time()
        is_met = session is not None and hello.epoch <= session.peer_epoch
        if is_met or ahead <= AHEAD_SECONDS_MAX:
            return ""
        return f"the epoch of {hello.node} lies {ahead:,.0f} s in the future: set the clocks of both machines"

    def flaw_of_answer(self, hello: Hello, port: Port) -> HelloRefusal | None:
        """What is wrong with a Hello on a connection that is let in, or was dialled."""
        flaw = self.flaw(hello, port) or self._fenced(hello, port)
        return self._mismatch(hello) if flaw is None and port is Port.PEERS else flaw

    def _fenced(self, hello: Hello, port: Port) -> HelloRefusal | None:
        """Refuse an older epoch. Rule 8: who may have been in memory is told the newer one."""
        name, peer, session = self._broker.name, hello.node, self._endpoint.sessions.get(hello.node)
        if session is None or hello.epoch >= session.peer_epoch:
            return None
        if port is Port.CLIENTS:
            return HelloRefusal(ByeReason.FENCED, f"a newer {peer} is known to {name}")
        reason = f"a newer {peer} is known to {name}: if no other one runs, the clock of its machine was put back"
        was_in_memory = self._directory.memory_of(peer) is Memory.PROCESS
        known = session.peer_epoch if was_in_memory else 0
        return HelloRefusal(ByeReason.FENCED, reason, self._links.is_up(peer), epoch=known)

    def _mismatch(self, hello: Hello) -> HelloRefusal | None:
        """Why a broker that may come in does not fit here, which only an operator can change (rules 6 and 7)."""
        if (reason := self._other_memory(hello)) is not None:
            return HelloRefusal(ByeReason.REPLACED, reason)
        agreed = self._directory.agreed
        reason = disagreement((self._broker.name, agreed), (hello.node, dict(hello.terms.settings)))
        return HelloRefusal(ByeReason.DIFFERENT, reason) if reason else None

    def _other_memory(self, hello: Hello) -> str | None:
        name, peer, session = self._broker.name, hello.node, self._endpoint.sessions.get(hello.node)
        if session is None or not 0 < session.peer_epoch < hello.epoch or not self._directory.is_awaited(peer):
            return None
        if peer not in self._broker.router.neighbours:
            return None  # a link that is being made: its neighbours know it, and this broker knew it long ago
        if hello.terms.memory in (Memory.UNTOLD, Memory.REPLACEMENT):
            return None
        former = self._directory.memory_of(peer)
        if former is Memory.PROCESS or (former, hello.terms.memory) == (Memory.UNTOLD, Memory.PROCESS):
            return None
        remedy = f"start {peer} with --replace if the former one is lost for good, else end this one"
        return f"{name} knows another {peer}, whose memory this one does not have: {remedy}"

    def _is_right_port(self, peer: Node, port: Port) -> bool:
        if port is Port.CLIENTS:
            return not self._directory.is_linked(peer)
        return self._directory.is_welcome(peer) or any(welcomes(peer) for welcomes in self._welcomes)

    def _outdated(self, hello: Hello) -> HelloRefusal | None:
        """Refuse an older view (rules 4 and 5)."""
        name, peer, known = self._broker.name, hello.node, self._directory.newest(hello.node)
        if hello.view >= known.view or hello.epoch < known.epoch:
            return None
        if hello.epoch > known.epoch and not self._directory.is_awaited(peer):
            return None
        session = self._endpoint.sessions.get(peer)
        is_met = session is not None and (session.peer_epoch, session.peer_view) == known
        reason = f"{name} knows view {known.view} of {peer}, and this one is of view {hello.view}"
        return HelloRefusal(ByeReason.FENCED, reason, is_met and self._links.is_up(peer), known.view)

    def _replacing(self, hello: Hello, session: Session, port: Port) -> HelloRefusal | None:
        """Refuse a newer broker while the one of its name is connected (rule 3)."""
        peer = hello.node
        if port is Port.CLIENTS or not self._links.is_up(peer) or hello.view > session.peer_view:
            return None
        reason = f"{peer} is connected to {self._broker.name}: end that one first, or choose another name"
        return HelloRefusal(ByeReason.REFUSED, reason)

    def _prefers_own(self, hello: Hello, session: Session) -> bool:
        """Where both sides dial, the connection that the smaller name made is the one that stays (but rule 4)."""
        peer, link = hello.node, self._links.get(hello.node)
        if link is None or (link.relay and not hello.relay):  # the direct way is preferred to one through a relay
            return False
        is_kept = link.is_dialled and self._links.is_up(peer) and hello.view <= session.peer_view
        return is_kept and self._broker.name < peer


def malformed(hello: Hello, port: Port) -> str:
    """What is wrong with a Hello in itself, on a connection of this port; empty: nothing."""
    if not 0 < len(hello.node.encode()) <= NAME_BYTES_MAX or not hello.node.isprintable():
        return f"malformed Hello: the name must be 1 to {NAME_BYTES_MAX} printable bytes"
    if hello.epoch <= 0 or hello.first <= 0:
        return "malformed Hello: epoch and first sequence must be above 0"
    if hello.view and port is Port.CLIENTS:
        return "malformed Hello: only brokers have views"
    if len(hello.relay.encode()) > NAME_BYTES_MAX or not hello.relay.isprintable():
        return f"malformed Hello: the relay must be up to {NAME_BYTES_MAX} printable bytes"
    numbers = (hello.epoch, hello.peer_epoch, hello.received, hello.first, hello.view)
    if not all(0 <= number < NUMBER_MAX for number in numbers):
        return f"malformed Hello: numbers must be at least 0 and below {NUMBER_MAX:,}"
    if hello.role not in ROLES[port]:
        return f"malformed Hello: {hello.role!r} is no role for the {port.value} port"
    return ""
