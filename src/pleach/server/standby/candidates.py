"""Machines for copies of a broker, the best first (core/standby/candidates.py), among those that are known here.

Rule 1: where the operator names machines, only those.
Rule 2: one that has not answered for `PATIENCE_SECONDS` makes room for the next, and has its turn again when there is
        no better one.
Rule 3: a name stands for one machine, that of its newest disk.
Rule 4: a machine that is leaving is none, so that its copies move elsewhere.
Rule 5: while too few of the best answer for a view to be full, all that are known are asked at once, and whoever
        answers comes first: a broker that has just been promoted does not know which machines were lost before.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from pleach.core.messages import HostLocation, Node
from pleach.core.routing.router import Router
from pleach.core.standby.candidates import KnownMachine, Preference, best, candidates
from pleach.core.standby.composition import Candidate
from pleach.core.standby.member import StandbyMember
from pleach.core.standby.views import Machine
from pleach.server.peer_directory import PeerDirectory
from pleach.server.settings import BrokerSettings
from pleach.server.standby.links import MemberLinks
from pleach.server.standby.registers import display, life

PATIENCE_SECONDS = 10.0
ASKED_MAX = 64  # at once (rule 5)


class CandidateMachines:
    def __init__(
        self,
        member: StandbyMember,
        directory: PeerDirectory,
        router: Router,
        links: MemberLinks,
        settings: Callable[[], BrokerSettings],
        *,
        owner: Callable[[], Node] = lambda: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`owner`: the broker that owns this one's key in a ring when this one is gone; empty: there is no ring."""
        self._member = member
        self._directory = directory
        self._router = router
        self._links = links
        self._settings = settings
        self._owner = owner
        self._clock = clock
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
        return [Candidate(machine, address) for machine, address in found if machine and not self._is_leaving(machine)]

    def _is_leaving(self, machine: Machine) -> bool:
        """Rule 4."""
        host = self._directory.known.hosts.get(machine)
        return host is not None and host.is_leaving

    def _chosen(self) -> list[Candidate]:
        preference = Preference(self._settings().zone, self._router.neighbours, owner=self._owner())
        ranked = candidates(self._member.broker, self._member.machine, self._known(), preference)
        patient = sorted(ranked, key=self._turn)  # stable: the order of ranks stays
        return self._enough(patient)

    def _enough(self, ranked: Sequence[Candidate]) -> list[Candidate]:
        """Rule 5."""
        copies = self._member.config.copies
        chosen = best(ranked, copies)
        if sum(map(self._answers, chosen)) >= 2 * copies - 2:  # the other members of a view
            return list(chosen)
        answering = best([each for each in ranked if self._answers(each)], copies)
        return [*answering, *(each for each in ranked if each not in answering)][:ASKED_MAX]

    def _known(self) -> list[KnownMachine]:
        running: defaultdict[Machine, list[Node]] = defaultdict(list)
        for name, place in sorted(self._directory.known.brokers.items()):
            running[place.machine].append(name)
        hosts = newest_lives(self._directory.known.hosts)
        return [
            KnownMachine(each, host.address, host.zone, tuple(running[each]))
            for each, host in hosts.items()
            if not self._is_leaving(each)
        ]

    def _turn(self, candidate: Candidate) -> int:
        """How often a machine has been waited for in vain."""
        machine, now = candidate.machine, self._clock()
        if self._answers(candidate):
            self._tried.pop(machine, None)
            return 0
        return int((now - self._tried.setdefault(machine, now)) / PATIENCE_SECONDS)

    def _answers(self, candidate: Candidate) -> bool:
        heard = self._member.heard.get(candidate.machine)
        return heard is not None and self._clock() - heard < PATIENCE_SECONDS


def newest_lives(hosts: Mapping[Machine, HostLocation]) -> dict[Machine, HostLocation]:
    """Rule 3."""
    newest: dict[Node, Machine] = {}
    for machine in hosts:
        name = display(machine)
        if name not in newest or life(machine) > life(newest[name]):
            newest[name] = machine
    return {machine: host for machine, host in hosts.items() if newest[display(machine)] == machine}
