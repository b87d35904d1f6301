"""Which machines may be lost for good: as many as standbys promise to survive, and not one more.

With `copies = 2` one machine may be lost, and another one when all that it held is elsewhere; with 3 it is two. Deaths
are judged by the views that are in play when they happen: of each, a majority of members and one copy must stay alive.
Machines that are down or cut off count as alive: they come back. And there must be machines enough for the copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from pleach.core.messages import Node
from pleach.core.standby.views import Machine, Register, View
from pleach.scenario.steps import RemoveBroker
from pleach.sim.standby.standbys import Standbys


def machine_of(standbys: Standbys, broker: Node) -> Machine:
    """Where the broker runs, or is to run."""
    current = standbys.brokers[broker].current
    return current.host.name if current else standbys.view_of(broker).primary


def can_lose(standbys: Standbys, machine: Machine) -> bool:
    gone = {*standbys.destroyed, machine}
    if _left(standbys, gone) < standbys.config.copies:
        return False
    brokers = [name for name, broker in standbys.brokers.items() if not broker.is_dissolved]
    return all(_survives(view, gone) for broker in brokers for view in in_play(standbys, broker))


def _left(standbys: Standbys, gone: set[Machine]) -> int:
    """Machines that stay, when all brokers that are to leave have left."""
    leaves = sum(isinstance(step, RemoveBroker) for step in standbys.scenario.steps)
    alive = [host for name, host in standbys.hosts.items() if name not in gone]
    return len(alive) - max(leaves, sum(host.is_leaving for host in alive))


def _survives(view: View, gone: set[Machine]) -> bool:
    alive = [member for member in view.members if member not in gone]
    return len(alive) >= view.majority and any(copy in alive for copy in view.copies)


def in_play(standbys: Standbys, broker: Node) -> Iterator[View]:
    """The newest view, what may follow it, and the one before until a majority knows the newest."""
    registers = _registers(standbys, broker)
    newest = max((register.view for register in registers.values()), key=lambda view: view.number, default=None)
    if newest is None:
        return
    yield newest
    yield from (each.accepted.view for each in registers.values() if each.accepted and each.view == newest)
    aware = [machine for machine in newest.members if machine in registers and registers[machine].view == newest]
    if len(aware) < newest.majority:
        yield from (each.view for each in registers.values() if each.view.number == newest.number - 1)


def _registers(standbys: Standbys, broker: Node) -> dict[Machine, Register]:
    return {
        name: host.disk.registers[broker]
        for name, host in standbys.hosts.items()
        if name not in standbys.destroyed and broker in host.disk.registers
    }
