"""Who of a broker's peers can be reached: told to its leases, which renew nothing to those who cannot hear it; or to
what rebuilds its tables, which vouches for them.

    connected   renews what it has asked for every ρ; what a whole round of it does not bring runs out
    away        a client between two connections, a neighbour that restarts: no round comes, and nothing of it runs out
    forgotten   a client that was away for too long (absence.py): its session ends, and with it all that it has

Rule 1: links decide, and nothing else. The machine keeps what it was told; where the two differ it is told again, so
        that a fault in it mends with the next look.
Rule 2: what the machine is told is in the journal, so that it does the same when the journal is read again.
"""

from __future__ import annotations

from collections.abc import Collection

from pleach.core.broker import Broker
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.session import SessionPhase
from pleach.core.messages import Node, Presence
from pleach.core.stabilise.leases import Leases
from pleach.core.stabilise.paced import PacedRebuild


class PeerPresence:
    def __init__(self, broker: Broker, endpoint: Endpoint) -> None:
        self._broker = broker
        self._endpoint = endpoint
        self._leases = broker.machine(Leases) or broker.machine(PacedRebuild)

    @property
    def away(self) -> Collection[Node]:
        """As the leases know it; nobody, where nothing is leased."""
        return self._leases.away if self._leases else ()

    def look(self, now: float) -> None:
        """To be called now and then."""
        if self._leases is None:
            return
        known, away = {*self._leases.away}, self._away()
        if known != away:
            self._endpoint.request(Presence(sorted(away - known), sorted(known - away)), now=now)

    def _away(self) -> set[Node]:
        sessions = self._endpoint.sessions
        known = (*self._broker.router.neighbours, *self._broker.sessions.clients)
        linked = (peer for peer in known if peer not in self._broker.hosting.here)
        return {peer for peer in linked if peer not in sessions or sessions[peer].phase is not SessionPhase.UP}
