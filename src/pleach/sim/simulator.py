"""Virtual time: machines, links between them, and a heap of what happens next.

Two queues, so that "all is quiet" can be told from "more is planned": the *network* (messages in flight, timers)
and the *agenda* (what the scenario still wants done). `drain` runs the network dry and leaves the agenda where it
is.

Determinism: ties are broken by a serial number, every link draws from its own seeded stream, and nothing iterates
over a set. The same seed gives the same run in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol, assert_never

from pleach.effects import CancelTimer, Effect, LinkDown, LinkUp, Observe, Send, SetTimer
from pleach.errors import LivenessError
from pleach.messages import Message, Node
from pleach.sim.links import Link

STEPS_MAX = 50_000_000

# (node, message) for every hop, and what clients and brokers observe; both at the current time.
SendListener = Callable[[float, Node, Node, Message], None]
ObserveListener = Callable[[float, Node, Observe], None]


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
        self._seed = seed
        self._steps_left = steps_max
        self._serial = 0
        self._machines: dict[Node, Machine] = {}
        self._out: dict[Node, dict[Node, Link]] = {}
        self._network: list[tuple[float, int, Link | Node, Message | str]] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._timers: dict[tuple[Node, str], int] = {}

    # Building ------------------------------------------------------------------------------------------------

    def add(self, name: Node, machine: Machine) -> None:
        self._machines[name] = machine
        self._out.setdefault(name, {})

    def link(self, a: Node, b: Node, latency: tuple[float, float]) -> None:
        """Two links, one each way."""
        self._out[a][b] = Link(a, b, latency, self._seed)
        self._out[b][a] = Link(b, a, latency, self._seed)

    def unlink(self, a: Node, b: Node) -> None:
        del self._out[a][b]
        del self._out[b][a]

    def has_link(self, a: Node, b: Node) -> bool:
        return b in self._out.get(a, {})

    def links_between(self, a: Node, b: Node) -> tuple[Link, Link]:
        return self._out[a][b], self._out[b][a]

    def at(self, time: float, action: Callable[[], None]) -> None:
        """Plan an action. One that is late happens as soon as possible."""
        self._serial += 1
        heappush(self._agenda, (time, self._serial, action))

    # Running -------------------------------------------------------------------------------------------------

    def run(self, until: float = float("inf")) -> None:
        """Go on until nothing is left to do up to `until`."""
        agenda, network = self._agenda, self._network
        while agenda or network:
            if agenda and (not network or agenda[0][0] <= network[0][0]):
                if agenda[0][0] > until:
                    break
                time, _, action = heappop(agenda)
                self.now = max(self.now, time)
                action()
            elif network[0][0] > until:
                break
            else:
                self._step()

    def drain(self) -> bool:
        """Run the network dry, leaving the agenda; False if something is stuck behind a cut or a crash."""
        while self._network:
            self._step()
        return not any(link.kept for links in self._out.values() for link in links.values())

    def _step(self) -> None:
        """Hand over the next message, or fire the next timer."""
        self._steps_left -= 1
        if self._steps_left < 0:
            raise LivenessError(
                f"not quiet at {self.now:.3f} s: the bound on steps is used up; a protocol may be looping"
            )
        self.now, serial, target, what = heappop(self._network)
        if not isinstance(target, Link):
            self._fire(target, what, serial)  # type: ignore[arg-type]
        elif target.blocked:
            target.kept.append(what)  # type: ignore[arg-type]
        else:  # `hand_over`, written out: this is the inner loop
            self.hops += 1
            receiver = target.receiver
            self.perform(receiver, self._machines[receiver].handle(target.sender, what, now=self.now))  # type: ignore[arg-type]

    def hand_over(self, link: Link, message: Message) -> None:
        self.hops += 1
        receiver = link.receiver
        self.perform(receiver, self._machines[receiver].handle(link.sender, message, now=self.now))

    def _fire(self, node: Node, name: str, serial: int) -> None:
        """A timer is due, unless it was set anew or cancelled meanwhile."""
        if self._timers.get((node, name)) != serial:
            return
        del self._timers[node, name]
        machine: TimedMachine = self._machines[node]  # type: ignore[assignment]
        self.perform(node, machine.handle_timer(name, now=self.now))

    def perform(self, node: Node, effects: Sequence[Effect]) -> None:
        """Carry out what a machine wants done."""
        now = self.now
        out = self._out[node]
        for effect in effects:
            if not isinstance(effect, Send):  # few are
                self._perform_other(node, effect)
                continue
            link = out[effect.to]
            if self.on_send:
                self.on_send(now, node, effect.to, effect.message)
            if link.loss and link.loses():
                continue
            self._serial = serial = self._serial + 1
            heappush(self._network, (link.arrival(now), serial, link, effect.message))

    def _perform_other(self, node: Node, effect: SetTimer | CancelTimer | LinkUp | LinkDown | Observe) -> None:
        match effect:
            case Observe():
                if self.on_observe:
                    self.on_observe(self.now, node, effect)
            case SetTimer(name, after):
                self._serial += 1
                self._timers[node, name] = self._serial
                heappush(self._network, (self.now + after, self._serial, node, name))
            case CancelTimer(name):
                self._timers.pop((node, name), None)
            case LinkUp() | LinkDown():
                raise NotImplementedError("no protocol that changes links is installed yet")
            case _:
                assert_never(effect)

    # Faults --------------------------------------------------------------------------------------------------

    def block(self, link: Link) -> None:
        link.blocked += 1

    def unblock(self, link: Link) -> None:
        """Once nothing blocks it any more, the link sends again what it kept, in order."""
        link.blocked -= 1
        if link.blocked:
            return
        kept, link.kept = link.kept, []
        in_flight = [item for item in self._network if item[2] is link]
        if in_flight:  # resending puts what was kept before what is still under way
            self._network[:] = [item for item in self._network if item[2] is not link]
            heapify(self._network)
            kept += [message for _, _, _, message in sorted(in_flight)]  # type: ignore[misc]
        link.free_at = self.now
        for message in kept:
            self._serial += 1
            heappush(self._network, (link.arrival(self.now), self._serial, link, message))

    def crash(self, node: Node) -> None:
        """The node is gone; what is sent to it waits."""
        for link in self._links_into(node):
            self.block(link)
        for key in [key for key in self._timers if key[0] == node]:
            del self._timers[key]

    def restart(self, node: Node, machine: Machine) -> None:
        self._machines[node] = machine
        for link in self._links_into(node):
            self.unblock(link)

    def _links_into(self, node: Node) -> list[Link]:
        return [links[node] for links in self._out.values() if node in links]
