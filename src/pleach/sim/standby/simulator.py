"""The simulator of a network with standbys: messages are numbered, and machines talk beside brokers.

Rule 1: what members say and their ticks are in a heap of their own (*members*). It advances with time, also in a drain;
        it never keeps a run or a drain from ending by itself.
Rule 2: a drain lasts while something is *owed*: a message that is not confirmed, a commit, a promotion; and while a
        broker has too few copies, so that whatever comes after the drain meets a network that can bear it. It gives up
        where nothing has changed for so many times `after`.
Rule 3: where all is at rest, or nothing has changed for long (a partition lasts), and nothing else happens for longer
        than `after`, time passes without ticks. Members take it for a pause of all machines, and nobody is silent for
        it (core/standby/timing.py, rule 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, cast

from pleach.core.effects import CancelTimer, Effect, Send, SetTimer
from pleach.core.messages import OPERATOR, Message, Node
from pleach.errors import LinkError
from pleach.sim.links import SimLink
from pleach.sim.service import Service
from pleach.sim.simulator import FOREVER, Machine, OtherEffect, Simulator, TimedMachine
from pleach.sim.standby.sessions import OUTSIDE, Numbered
from pleach.sim.standby.ways import Way

if TYPE_CHECKING:
    from pleach.sim.standby.hosts import HostMessage
    from pleach.sim.standby.standbys import Standbys

PATIENCE = 12.0  # times `after`
STILL = 10.0  # times `after`; whatever members do by themselves takes less


class SessionNode:
    """A node that is not replicated: it drops what it has already, and confirms at once."""

    def __init__(self, name: Node, machine: Machine, standbys: Standbys) -> None:
        self._name = name
        self._machine = machine
        self._sessions = standbys.sessions
        self._received: dict[Node, int] = {}

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        number, content = cast(Numbered, message)
        if number != OUTSIDE:
            if not self._sessions.is_new(self._name, sender, number, self._received.get(sender, 0)):
                return ()
            self._received[sender] = number
            self._sessions.confirm(sender, self._name, number)
        return self._machine.handle(sender, content, now=now)

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        return cast(TimedMachine, self._machine).handle_timer(name, now=now)


class StandbySimulator(Simulator):
    def __init__(self, seed: str) -> None:
        super().__init__(seed)
        self.standbys: Standbys
        self._members: list[tuple[float, int, Way | None, object, int]] = []
        self._changed_at = 0.0
        self.said = 0  # messages of members

    # Building ------------------------------------------------------------------------------------------------

    def add(self, name: Node, machine: Machine, *, service: Service | None = None) -> None:
        is_broker = name in self.standbys.brokers
        wrapped = machine if is_broker else SessionNode(name, machine, self.standbys)
        super().add(name, wrapped, service=_of_numbered(service) if service else None)

    def _open(self, sender: Node, receiver: Node) -> None:
        """A link goes the way between the machines of its ends, and is cut where that is."""
        is_new = not self._links.between(sender, receiver)
        self._links.open(sender, receiver, is_new=is_new)
        if is_new:
            for link in self._links.between(sender, receiver):
                self.standbys.sessions.add(link)
                self.standbys.find_way(link)

    def has_link(self, a: Node, b: Node) -> bool:
        if self._links.is_open(a, b):
            return True
        return any(self.standbys.sessions.add(link).outbox for link in self._links.between(a, b))

    # Messages ------------------------------------------------------------------------------------------------

    def perform(self, node: Node, effects: Sequence[Effect]) -> None:
        if not effects:
            return
        broker = self.standbys.brokers.get(node)
        if broker is not None:
            broker.perform(effects)
            return
        sessions = self.standbys.sessions.all
        for effect in effects:
            if isinstance(effect, Send):
                session = sessions.get((node, effect.to))
                self.transmit(node, session.sent + 1 if session else 1, effect)
            else:
                self._perform_other(node, effect)

    def transmit(self, node: Node, number: int, send: Send, *, is_connected: bool = True) -> None:
        """Send a message whose number is known. It arrives later if there is no connection now."""
        if send.to not in self._links.out[node]:
            raise LinkError(node, send.to)
        if self.on_send and node != OPERATOR:
            self.on_send(self.now, node, send.to, send.message)
        sessions = self.standbys.sessions
        session = sessions.all[node, send.to]
        numbered, link = session.keep(number, send.message), session.link
        sessions.unconfirmed += 1
        if link.loss and link.loses():
            session.outbox.pop()
            sessions.unconfirmed -= 1
        elif is_connected and not link.blocked:
            self._serial = serial = self._serial + 1
            heappush(self._network, (link.arrival(self.now), serial, link, cast(Message, numbered)))

    def perform_other(self, node: Node, effect: OtherEffect) -> None:
        self._perform_other(node, effect)

    def set_timer(self, node: Node, effect: SetTimer | CancelTimer) -> None:
        self._perform_other(node, effect)

    def take_from_link(self, link: SimLink) -> list[Message]:
        """What replaces it belongs to no session, and nobody sends it again."""
        numbered: list[Numbered] = self.take_in_flight(link)  # type: ignore[assignment]
        if numbered:
            self.standbys.sessions.confirm(link.sender, link.receiver, numbered[-1][0])
        return [message for _, message in numbered]

    def resend(self, link: SimLink, messages: Sequence[Message]) -> None:
        numbered: list[Any] = [each if isinstance(each, tuple) else (OUTSIDE, each) for each in messages]
        super().resend(link, numbered)

    def send_again(self, link: SimLink, messages: Sequence[Numbered]) -> None:
        """Over a new connection: nothing of the old one arrives."""
        link.kept = []
        self.take_in_flight(link)
        self.resend(link, messages)  # type: ignore[arg-type]

    def tear(self, link: SimLink) -> None:
        """The sender is gone: any number of the last messages under way is lost."""
        under_way: list[Message] = self.take_in_flight(link)
        self.resend(link, under_way[: self.standbys.ways.draws.randint(0, len(under_way))])

    # Processes -----------------------------------------------------------------------------------------------

    def admit(self, key: Node, machine: Machine) -> None:
        """A process with timers."""
        self._machines[key] = machine

    def dismiss(self, key: Node) -> None:
        del self._machines[key]
        for timer in [timer for timer in self._timers if timer[0] == key]:
            del self._timers[timer]

    # Members -------------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Something was confirmed, promoted or replaced: a drain goes on waiting."""
        self._changed_at = self.now

    def send_member(self, way: Way, message: HostMessage) -> None:
        self._serial += 1
        self.said += 1
        heappush(self._members, (way.link.arrival(self.now), self._serial, way, message, way.connection))

    def later_member(self, seconds: float, action: Callable[[], None]) -> None:
        self._serial += 1
        heappush(self._members, (self.now + seconds, self._serial, None, action, 0))

    def tear_way(self, way: Way) -> None:
        under_way = sorted(item for item in self._members if item[2] is way)
        lost = under_way[self.standbys.ways.draws.randint(0, len(under_way)) :]
        if lost:
            gone = {item[1] for item in lost}
            self._members[:] = [item for item in self._members if item[1] not in gone]
            heapify(self._members)

    def _step_member(self) -> None:
        self.now, _, way, what, connection = heappop(self._members)
        if way is None:
            what()  # type: ignore[operator]
        elif way.connection == connection:
            self.standbys.arrived(way, what)  # type: ignore[arg-type]

    # Running -------------------------------------------------------------------------------------------------

    def _passes(self, until: float) -> bool:
        """Rule 3. Whether the members were put off, or nothing happens at that time after all."""
        gap, standbys = until - self._members[0][0], self.standbys
        if gap < standbys.config.after or gap == FOREVER:
            return False
        is_still = self.now - self._changed_at > STILL * standbys.config.after
        if not is_still and (standbys.is_owing or standbys.is_short):
            return False
        if self._drop_void(self._network) or self._drop_void(self._upkeep):
            return True
        self._members[:] = [(item[0] + gap, *item[1:]) for item in self._members]
        return True

    def _drop_void(self, heap: list[Any]) -> bool:
        """Drop a timer that was set again or cancelled, if it is the first of a heap."""
        is_void = bool(heap) and isinstance(heap[0][2], str) and self._timers.get(heap[0][2:]) != heap[0][1]
        if is_void:
            heappop(heap)
        return is_void

    def run(self, until: float = FOREVER) -> None:
        agenda, network, members = self._agenda, self._network, self._members
        while agenda or network or until < FOREVER:
            limit = min(until, agenda[0][0] if agenda else FOREVER)
            upkeep = self._upkeep[0][0] if self._upkeep and limit < FOREVER else FOREVER
            following = min(network[0][0] if network else FOREVER, upkeep, limit)
            if members and members[0][0] < following:
                if not self._passes(following):
                    self._step_member()
            elif self._keep_up(limit):
                continue
            elif network and network[0][0] < limit:
                self._step()
                self._changed_at = self.now
            elif agenda and agenda[0][0] <= until:
                time, _, action = heappop(agenda)
                self.now = self._changed_at = max(self.now, time)
                action()
            elif network and network[0][0] <= until:
                self._step()
                self._changed_at = self.now
            else:
                break

    def drain(self) -> bool:
        start = self._changed_at = self.now
        network, members, standbys = self._network, self._members, self.standbys
        patience = PATIENCE * standbys.config.after
        while network or ((standbys.is_owing or standbys.is_short) and self.now - self._changed_at < patience):
            if members and (not network or members[0][0] < network[0][0]):
                if not network or not self._passes(network[0][0]):
                    self._step_member()
            else:
                self._step()
                self._changed_at = self.now
        late = self.now - start
        self._upkeep = [(time + late, serial, node, name) for time, serial, node, name in self._upkeep]
        return not standbys.is_owing


def _of_numbered(service: Service) -> Service:
    return lambda numbered: service(numbered[1])  # type: ignore[index]
