"""Where brokers of the network are, and the hosts of their copies, as far as neighbours have told.

The driver (server/location_reports.py) sends the reports, and reads what is known. It is on disk with the broker: one
that was promoted elsewhere finds its neighbours by it, also those that were promoted at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pleach.core.effects import Effect
from pleach.core.messages import BrokerLocation, HostLocation, LocationReport, Message, Node, pack, unpack
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.seam import Reaction, Reconfiguration

BROKERS_MAX = 10_000
HOSTS_MAX = 10_000  # of more, those that began first are forgotten


class LocationsState(msgspec.Struct, array_like=True):
    brokers: dict[Node, BrokerLocation] = {}
    hosts: dict[Node, HostLocation] = {}


class KnownLocations:
    name = "locations"
    accepts: frozenset[type[Message]] = frozenset((LocationReport,))
    under_way: Reconfiguration | None = None
    operation = ""

    def __init__(self, context: BrokerContext) -> None:
        self.revision = 0  # rises whenever something is news
        self._context = context
        self._state = LocationsState()

    @property
    def brokers(self) -> Mapping[Node, BrokerLocation]:
        """Of other brokers."""
        return self._state.brokers

    @property
    def hosts(self) -> Mapping[Node, HostLocation]:
        """By machine."""
        return self._state.hosts

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        assert isinstance(message, LocationReport)
        for broker, location in message.brokers.items():
            if self._is_news(broker, location):
                self._state.brokers[broker] = location
                self.revision += 1
        for machine, host in message.hosts.items():
            known = self._state.hosts.get(machine)
            if known is None or known.since < host.since:
                self._state.hosts[machine] = host
                self.revision += 1
        self._forget_hosts()
        return Reaction()

    def _is_news(self, broker: Node, told: BrokerLocation) -> bool:
        if broker == self._context.name:
            return False
        known = self._state.brokers.get(broker)
        return len(self._state.brokers) < BROKERS_MAX if known is None else known.term < told.term

    def _forget_hosts(self) -> None:
        hosts = self._state.hosts
        if len(hosts) > HOSTS_MAX:
            for machine in sorted(hosts, key=lambda each: hosts[each].since)[: len(hosts) - HOSTS_MAX]:
                del hosts[machine]

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        raise AssertionError(f"{self.name} sets no timers, but {name} fired")

    def resume(self) -> Sequence[Effect]:
        return []

    def capture(self) -> bytes:
        state = self._state
        return pack(LocationsState(dict(sorted(state.brokers.items())), dict(sorted(state.hosts.items()))))

    def restore(self, state: bytes) -> None:
        self.revision += 1
        self._state = unpack(state, LocationsState)
