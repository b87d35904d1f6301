"""Machines for copies of a broker, the best first.

Rule 1: where the operator names machines, only those.
"""

from __future__ import annotations

from collections.abc import Callable

from pleach.core.standby.composition import Candidate
from pleach.server.settings import BrokerSettings
from pleach.server.standby.links import MemberLinks


class CandidateMachines:
    def __init__(self, settings: Callable[[], BrokerSettings], links: MemberLinks) -> None:
        self._settings = settings
        self._links = links

    def __call__(self) -> list[Candidate]:
        return self._named()

    def _named(self) -> list[Candidate]:
        """By the operator; those that have not answered yet are not known."""
        settings = self._settings()
        own = (settings.advertise, settings.peer_listen)
        named = [address for address in (settings.standby.at if settings.standby else ()) if address not in own]
        found = ((address, self._links.machine_at(address)) for address in named)
        return [Candidate(machine, address) for address, machine in found if machine]
