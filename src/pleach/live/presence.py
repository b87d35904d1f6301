"""Who of a broker's peers can be reached: told to its leases, so that nothing runs out of those who cannot renew it.

    connected   renews what it has asked for every ρ; what it does not renew runs out
    away        a client between two connections, a neighbour that restarts: the broker vouches for all it has of it
    forgotten   a client that was away for too long (absence.py): its session ends, and with it all of this

Rule 1: links decide, and nothing else. The machine keeps what it was told; where the two differ it is told again, so
        that a fault in it mends with the next look.
Rule 2: what the machine is told is in the journal, so that it does the same when the journal is read again.
Rule 3: whoever no session is kept for is not waited for.
"""

from __future__ import annotations

from collections.abc import Collection

from pleach.broker import Broker
from pleach.links.endpoint import Endpoint
from pleach.links.session import Phase
from pleach.messages import Node, Presence
from pleach.stabilise.machine import Leases


class Attendance:
    def __init__(self, broker: Broker, endpoint: Endpoint) -> None:
        self._broker = broker
        self._endpoint = endpoint
        self._leases = broker.machine(Leases)

    @property
    def away(self) -> Collection[Node]:
        """Whom the broker vouches for; nobody, where nothing is leased."""
        return self._leases.away if self._leases else ()

    def look(self, now: float) -> None:
        """To be called before anything can run out, and now and then."""
        if self._leases is None:
            return
        known, away = {*self._leases.away}, self._away()
        if known != away:
            self._endpoint.request(Presence(sorted(away - known), sorted(known - away)), now=now)

    def _away(self) -> set[Node]:
        sessions = self._endpoint.sessions
        unmet = {neighbour for neighbour in self._broker.router.neighbours if neighbour not in sessions}
        known = (*self._broker.router.neighbours, *self._broker.sessions.clients)
        return unmet | {peer for peer in known if peer in sessions and sessions[peer].phase is not Phase.UP}
