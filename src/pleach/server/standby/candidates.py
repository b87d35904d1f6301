"""Machines for copies of a broker, the best first.

Rule 1: where the operator names machines, only those.
Rule 2: else all that are known, in this order: those of preferred brokers (a ring has some), of neighbours in another
        zone, of other neighbours, others in another zone, all others.
Rule 3: no more than `CANDIDATES_MAX` are spoken to, besides the members of the view. One that has not answered for
        `PATIENCE_SECONDS` makes room for the next, and has its turn again when there is no better one.
Rule 4: a name stands for one machine, that of its newest disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from pleach.core.messages import HostLocation, Node
from pleach.core.routing.router import Router
from pleach.core.standby.composition import Candidate
from pleach.core.standby.member import StandbyMember
from pleach.core.standby.views import Machine
from pleach.server.peer_directory import PeerDirectory
from pleach.server.settings import BrokerSettings
from pleach.server.standby.links import MemberLinks
from pleach.server.standby.registers import display, life

CANDIDATES_MAX = 8
PATIENCE_SECONDS = 10.0


class CandidateMachines:
    def __init__(
        self,
        member: StandbyMember,
        directory: PeerDirectory,
        router: Router,
        links: MemberLinks,
        settings: Callable[[], BrokerSettings],
    ) -> None:
        self.preferred: Callable[[], Sequence[Node]] = tuple  # names of brokers, the best first
        self._member = member
        self._directory = directory
        self._router = router
        self._links = links
        self._settings = settings
        self._tried: dict[Machine, float] = {}  # since when a machine is spoken to that has not answered

    def __call__(self) -> list[Candidate]:
        standby = self._settings().standby
        return self._named(standby.at) if standby is not None and standby.at else self._chosen()

    def _named(self, addresses: Sequence[str]) -> list[Candidate]:
        """By the operator; who has not answered yet is known only as a member."""
        settings, view = self._settings(), self._member.view
        own = (settings.advertise, settings.peer_listen)
        members = {address: machine for machine, address in view.addresses.items()} if view is not None else {}
        named = [address for address in addresses if address not in own]
        found = [(self._links.machine_at(address) or members.get(address, ""), address) for address in named]
        return [Candidate(machine, address) for machine, address in found if machine]

    def _chosen(self) -> list[Candidate]:
        """Rules 2 and 3."""
        hosts = newest_lives(self._directory.known.hosts)
        view = self._member.view
        members = view.members if view is not None else ()
        ranks = self._ranks(hosts)
        ranked = sorted((each for each in hosts if each != self._member.machine), key=lambda each: (ranks[each], each))
        patient = sorted(ranked, key=self._turn)  # stable: the order of ranks stays
        taken = {*members, *[each for each in patient if each not in members][:CANDIDATES_MAX]}
        return [Candidate(machine, hosts[machine].address) for machine in ranked if machine in taken]

    def _ranks(self, hosts: Mapping[Machine, HostLocation]) -> dict[Machine, int]:
        brokers, zone = self._directory.known.brokers, self._settings().zone
        preferred = [brokers[name].machine for name in self.preferred() if name in brokers]
        near = {brokers[name].machine for name in self._router.neighbours if name in brokers}
        others = len(preferred)
        return {
            machine: preferred.index(machine)
            if machine in preferred
            else others + 2 * (machine not in near) + (not zone or host.zone == zone)
            for machine, host in hosts.items()
        }

    def _turn(self, machine: Machine) -> int:
        """How often a machine has been waited for in vain."""
        now = time.monotonic()
        heard = self._member.heard.get(machine)
        if heard is not None and now - heard < PATIENCE_SECONDS:
            self._tried.pop(machine, None)
            return 0
        return int((now - self._tried.setdefault(machine, now)) / PATIENCE_SECONDS)


def newest_lives(hosts: Mapping[Machine, HostLocation]) -> dict[Machine, HostLocation]:
    """Rule 4."""
    newest: dict[Node, Machine] = {}
    for machine in hosts:
        name = display(machine)
        if name not in newest or life(machine) > life(newest[name]):
            newest[name] = machine
    return {machine: host for machine, host in hosts.items() if newest[display(machine)] == machine}
