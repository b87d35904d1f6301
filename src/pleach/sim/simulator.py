"""The simulator: virtual time, machines, links between them, and heaps of future events.

Rule 1: three queues tell "all is quiet" from "more is planned": the *network* (messages in flight, timers), the
        *agenda* (steps of the scenario) and the *upkeep* (timers that recur without end). `drain` empties the network
        only; the upkeep does not advance meanwhile.
Rule 2: runs are deterministic: ties are broken by a serial number, every link draws from its own seeded stream, and
        nothing iterates over a set. The same seed gives the same run in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol, TypeAlias, assert_never

from pleach.core.effects import CancelTimer, Concluded, Effect, LinkDown, LinkUp, Observe, Send, SetTimer, Withhold
from pleach.core.messages import Message, Node
from pleach.errors import LinkError, LivenessError
from pleach.sim.links import LinkListener, Links, SimLink
from pleach.sim.service import ServiceQueue

STEPS_MAX = 50_000_000
FOREVER = float("inf")

# Called at the current time with every hop, every observation, and the end of every operation.
SendListener = Callable[[float, Node, Node, Message], None]
ObserveListener = Callable[[float, Node, Observe], None]
ConcludedListener = Callable[[float, Node, Concluded], None]

# Effects other than Send.
OtherEffect: TypeAlias = SetTimer | CancelTimer | LinkUp | LinkDown | Observe | Concluded | Withhold


class Machine(Protocol):
    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]: ...


class TimedMachine(Machine, Protocol):
    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]: ...


class Simulator:
    def __init__(self, seed: str, *, steps_max: int = STEPS_MAX) -> None:
        self.now = 0.0
        self.hops = 0  # messages handed over
        self.on_send: SendListener | None = None
        self.on_observe: ObserveListener | None = None
        self.on_concluded: ConcludedListener | None = None
        self.holds_timers = False  # timers do not fire by themselves, only by `ring`
        self._steps_left = steps_max
        self._serial = 0
        self._machines: dict[Node, Machine] = {}
        self._queues: dict[Node, ServiceQueue] = {}
        self._links = Links(seed)
        self._network: list[tuple[float, int, SimLink | Node | Callable[[], None], Message | str]] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._upkeep: list[tuple[float, int, Node, str]] = []
        self._timers: dict[tuple[Node, str], int] = {}

    # Building ------------------------------------------------------------------------------------------------

    def add(self, name: Node, machine: Machine, *, service: Callable[[Message], float] | None = None) -> None:
        """Add a node, before or during the run. `service`: the service time of a message; None: no time."""
        self._machines[name] = machine
        if service:
            self._queues[name] = ServiceQueue(service, self._later, self.hand_over)
        self._links.add(name)

    def link(self, a: Node, b: Node, latency: tuple[float, float] | None = None) -> None:
        """Open both directions. Without a latency, `on_link` sets it."""
        for sender, receiver in ((a, b), (b, a)):
            self._open(sender, receiver)
        if latency is not None:
            for link in self.links_between(a, b):
                link.set_latency(latency)

    def _open(self, sender: Node, receiver: Node) -> None:
        self._links.open(sender, receiver, is_new=not self.has_link(sender, receiver))

    @property
    def on_link(self) -> LinkListener | None:
        """Called with each direction of a new link, to set its latency and loss."""
        return self._links.on_new

    @on_link.setter
    def on_link(self, listener: LinkListener) -> None:
        self._links.on_new = listener

    def has_link(self, a: Node, b: Node) -> bool:
        """Whether a link is open at one end at least, or has messages in flight."""
        if self._links.is_open(a, b):
            return True
        between = self._links.between(a, b)
        if any(link.kept or self._is_awaited(link) for link in between):
            return True
        return any(item[2] in between for item in self._network)

    def may_send(self, sender: Node, receiver: Node) -> bool:
        return self._links.leads(sender, receiver)

    def _is_awaited(self, link: SimLink) -> bool:
        """Whether a message has arrived over a link and is not handled yet."""
        return link.receiver in self._queues and self._queues[link.receiver].has_waiting(link)

    def links_between(self, a: Node, b: Node) -> list[SimLink]:
        """Both directions, that from `a` first."""
        return self._links.between(a, b)

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Plan an action; if its time has passed it happens as soon as possible."""
        self._serial += 1
        heappush(self._agenda, (time, self._serial, action))

    def soon(self, action: Callable[[], None]) -> None:
        """Do this next; `drain` waits for it."""
        self._later(0.0, action)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._serial += 1
        heappush(self._network, (self.now + seconds, self._serial, action, ""))

    # Running -------------------------------------------------------------------------------------------------

    def run(self, until: float = FOREVER) -> None:
        """Run until nothing is left to do up to `until`. Without it, the upkeep does not keep the run going."""
        agenda, network = self._agenda, self._network
        while agenda or network or (self._upkeep and until < FOREVER):
            if self._keep_up(min(until, agenda[0][0] if agenda else FOREVER)):
                continue
            if agenda and (not network or agenda[0][0] <= network[0][0]):
                if agenda[0][0] > until:
                    break
                time, _, action = heappop(agenda)
                self.now = max(self.now, time)
                action()
            elif not network or network[0][0] > until:
                break
            else:
                self._step()

    def _keep_up(self, until: float) -> bool:
        """Fire the next timer of the upkeep, if nothing else comes first and it is due before the end."""
        upkeep, network = self._upkeep, self._network
        if not upkeep or until == FOREVER or upkeep[0][0] > until or (network and network[0][0] <= upkeep[0][0]):
            return False
        time, serial, node, name = heappop(upkeep)
        self._step_other(time, serial, node, name)
        return True

    def drain(self) -> bool:
        """Empty the network; False if messages wait because of a cut or a crash."""
        start = self.now
        while self._network:
            self._step()
        late = self.now - start
        self._upkeep = [(time + late, serial, node, name) for time, serial, node, name in self._upkeep]
        return not self._links.is_stuck

    def _step(self) -> None:
        """Hand over the next message, fire the next timer, or call what was given to `soon`."""
        self._steps_left -= 1
        if self._steps_left < 0:
            raise LivenessError(
                f"not quiet at {self.now:.3f} s: the bound on steps is used up; a protocol may be looping"
            )
        time, serial, target, what = heappop(self._network)
        if not isinstance(target, SimLink):
            self._step_other(time, serial, target, what)  # type: ignore[arg-type]
            return
        self.now = time
        if self._queues and target.receiver in self._queues:
            self._queues[target.receiver].take(target, what)  # type: ignore[arg-type]
        elif target.blocked:
            target.kept.append(what)  # type: ignore[arg-type]
        else:  # `hand_over`, written out: this is the inner loop
            self.hops += 1
            receiver = target.receiver
            self.perform(receiver, self._machines[receiver].handle(target.sender, what, now=self.now))  # type: ignore[arg-type]

    def hand_over(self, link: SimLink, message: Message) -> None:
        self.hops += 1
        receiver = link.receiver
        self.perform(receiver, self._machines[receiver].handle(link.sender, message, now=self.now))

    def _step_other(self, time: float, serial: int, target: Node | Callable[[], None], name: str) -> None:
        """A step that is not a message. A timer that was set again or cancelled is ignored; time does not advance."""
        if not isinstance(target, str):
            self.now = time
            target()
        elif self._timers.get((target, name)) == serial:
            self.now = time
            self.ring(target, name)

    def has_timer(self, node: Node, name: str) -> bool:
        return (node, name) in self._timers

    def ring(self, node: Node, name: str) -> None:
        """Fire a timer that is set."""
        del self._timers[node, name]
        machine: TimedMachine = self._machines[node]  # type: ignore[assignment]
        self.perform(node, machine.handle_timer(name, now=self.now))

    def perform(self, node: Node, effects: Sequence[Effect]) -> None:
        """Carry out the effects of a machine."""
        now = self.now
        out = self._links.out[node]
        for effect in effects:
            if not isinstance(effect, Send):  # rare
                self._perform_other(node, effect)
                continue
            try:
                link = out[effect.to]
            except KeyError:
                raise LinkError(node, effect.to) from None
            if self.on_send:
                self.on_send(now, node, effect.to, effect.message)
            if link.loss and link.loses():
                continue
            self._serial = serial = self._serial + 1
            heappush(self._network, (link.arrival(now), serial, link, effect.message))

    def _perform_other(self, node: Node, effect: OtherEffect) -> None:
        match effect:
            case Observe():
                if self.on_observe:
                    self.on_observe(self.now, effect.client or node, effect)
            case SetTimer():
                self._set_timer(node, effect)
            case CancelTimer(name):
                self._timers.pop((node, name), None)
            case LinkUp(to):
                self._open(node, to)
            case LinkDown(to):
                self._links.close(node, to)
            case Concluded():
                if self.on_concluded:
                    self.on_concluded(self.now, node, effect)
            case Withhold():
                pass  # links have no queues: all is in flight
            case _:
                assert_never(effect)

    def _set_timer(self, node: Node, timer: SetTimer) -> None:
        self._serial += 1
        self._timers[node, timer.name] = self._serial
        due = (self.now + timer.after, self._serial, node, timer.name)
        if timer.is_upkeep:
            heappush(self._upkeep, due)
        elif not self.holds_timers:
            heappush(self._network, due)

    # Faults --------------------------------------------------------------------------------------------------

    def cut(self, a: Node, b: Node) -> None:
        for link in self._links.cut(a, b):
            self.block(link)

    def heal(self, a: Node, b: Node) -> None:
        for link in self._links.heal(a, b):
            self.unblock(link)

    def block(self, link: SimLink) -> None:
        link.blocked += 1

    def unblock(self, link: SimLink) -> None:
        """Remove one reason to block; after the last one the link resends what it kept, in order."""
        link.blocked -= 1
        if link.blocked:
            return
        kept, link.kept = link.kept, []
        self.resend(link, [*kept, *self.take_in_flight(link)])  # kept messages were sent before those in flight

    def take_in_flight(self, link: SimLink) -> list[Message]:
        """Remove the messages in flight on a link, in order; those in the service queue of its receiver come first."""
        waiting = self._queues[link.receiver].take_away(link) if link.receiver in self._queues else []
        in_flight = [item for item in self._network if item[2] is link]
        if in_flight:
            self._network[:] = [item for item in self._network if item[2] is not link]
            heapify(self._network)
        return [*waiting, *(message for _, _, _, message in sorted(in_flight))]  # type: ignore[list-item]

    def take_from_link(self, link: SimLink) -> list[Message]:
        """Remove what is under way, to replace it by something else."""
        return self.take_in_flight(link)

    def resend(self, link: SimLink, messages: Sequence[Message]) -> None:
        """Send these messages now, regardless of earlier ones."""
        link.free_at = self.now
        for message in messages:
            self._serial += 1
            heappush(self._network, (link.arrival(self.now), self._serial, link, message))

    def crash(self, node: Node) -> None:
        """Take a node down; messages to it wait."""
        self._links.take_down(node)
        for key in [key for key in self._timers if key[0] == node]:
            del self._timers[key]

    def restart(self, node: Node, machine: Machine) -> None:
        self._machines[node] = machine
        for link in self._links.bring_up(node):
            self.unblock(link)
