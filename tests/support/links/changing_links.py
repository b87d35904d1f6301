"""Endpoints whose machines open and close links and set timers, on unreliable ground.

A `Linker` does what an operator tells it: open a link, say something over an open one, close it, set a timer that says
something later. Who is spoken to over a link that it has not opens its own end, and whose peer closes does so, too.
The account of what is owed is that of every `RelayWorld`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from random import Random

import msgspec

from pleach.core.effects import Concluded, Effect, LinkDown, LinkUp, Send, SetTimer
from pleach.core.links.endpoint import Batch
from pleach.core.links.session import SessionPhase
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import OPERATOR, Message, Node, Subscribed, decode, pack, unpack
from support.links.link_ledger import Relay, RelayWorld
from support.links.unreliable_endpoints import Host, Weather

NODES = ("a", "b", "c")
TIMER_SECONDS = 0.3


class LinkerState(msgspec.Struct, array_like=True):
    kept: dict[Node, list[str]]
    open: list[Node]
    timers: dict[str, Node]  # what is to be said once they are due, and to whom


class Linker(Relay):
    def __init__(self, name: Node) -> None:
        super().__init__(name, {}, count())
        self.open: list[Node] = []
        self.timers: dict[str, Node] = {}

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        assert isinstance(message, Subscribed)
        if sender == OPERATOR:
            return self._told(*message.subscription.split(maxsplit=2))
        effects = super().handle(sender, message, now=now)
        if "closes" not in message.subscription:
            return [*self._opened(sender, ""), *effects]
        return [*self._closed(sender, f"{self.name} closes, too, {message.subscription}"), *effects]

    def _told(self, what: str, peer: Node, text: str) -> Sequence[Effect]:
        said = Send(peer, Subscribed(text))
        match what:
            case "open":
                return [*self._opened(peer, f"where {peer} is"), said, Concluded(text)]
            case "say" if peer in self.open:
                return [said]
            case "close":
                return self._closed(peer, f"{self.name} closes {text}")
            case "later" if peer in self.open:
                self.timers[text] = peer
                return [SetTimer(text, TIMER_SECONDS)]
        return []

    def _opened(self, peer: Node, address: str) -> Sequence[Effect]:
        if peer in self.open:
            return []
        self.open.append(peer)
        return [LinkUp(peer, address)]

    def _closed(self, peer: Node, text: str) -> Sequence[Effect]:
        if peer not in self.open:
            return []
        self.open.remove(peer)
        return [Send(peer, Subscribed(text)), LinkDown(peer)]

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        peer = self.timers.pop(name)
        return [Send(peer, Subscribed(name))] if peer in self.open else []

    def resume(self, *, now: float) -> Sequence[Effect]:
        return [SetTimer(name, TIMER_SECONDS) for name in self.timers]

    def capture(self) -> bytes:
        return pack(LinkerState(dict(sorted(self.kept.items())), self.open, self.timers))

    def restore(self, data: bytes) -> None:
        state = unpack(data, LinkerState)
        self.kept, self.open, self.timers = state.kept, state.open, state.timers


class ChangingWorld(RelayWorld):
    """Only an end that knows an address dials. Beside each node a twin that never dies is told the node's journal."""

    def __init__(self, stream: Random, weather: Weather) -> None:
        super().__init__((), stream, weather)
        self.twins = {name: Linker(name) for name in NODES}
        self.counts = dict.fromkeys(("concluded", "dialled", "retired", "fired", "reopened", "crashed"), 0)
        for name in NODES:
            self.add(name, lambda name=name: Linker(name), durable=True)

    def act(self) -> None:
        name, peer = self.stream.sample(NODES, 2)
        if self.hosts[name].endpoint is None:
            return
        what = self.stream.choice(("open", "say", "say", "say", "later", "close"))
        self.ask(name, f"{what} {peer} {name} {what} {next(self._numbers)}")

    def ask(self, name: Node, text: str) -> None:
        self.hosts[name].live.request(Subscribed(text), now=self.now)

    def step(self) -> None:
        for host in self.hosts.values():
            if host.endpoint is not None and (host.endpoint.upkeep.next_due or self.now + 1.0) <= self.now:
                host.endpoint.fire(now=self.now)
                self.counts["fired"] += 1
        super().step()

    # What the world sees -------------------------------------------------------------------------------------

    def committed(self, host: Host, batch: Batch) -> None:
        super().committed(host, batch)
        twin = self.twins[host.name]
        for entry in batch.journal:
            if entry.timer:
                twin.handle_timer(entry.timer, now=entry.now)
            else:
                twin.handle(entry.peer, decode(entry.payload), now=entry.now)
        assert twin.capture() == host.live.machine.capture(), f"{host.name} is not as if it had never crashed"
        former = [peer for peer, _ in batch.dial if host.live.sessions[peer].received]
        self.counts["concluded"] += len(batch.concluded)
        self.counts["dialled"] += len(batch.dial)
        self.counts["retired"] += len(batch.retired)
        self.counts["reopened"] += len(former)

    def started(self, host: Host) -> None:
        super().started(host)
        assert host.live.machine.capture() == self.twins[host.name].capture()
        assert sorted(host.live.upkeep.timers) == sorted(host.live.machine.timers)
        wanted = [peer for peer, note in host.live.upkeep.links.items() if note.phase is LinkPhase.WANTED]
        assert sorted(wanted) == sorted(host.live.machine.open)

    def crashed(self, host: Host) -> None:
        super().crashed(host)
        self.counts["crashed"] += 1

    # Connections ---------------------------------------------------------------------------------------------

    def _redial(self, probability: float) -> None:
        for name, host in self.hosts.items():
            for peer in self.diallable(name):
                if self.hosts[peer].endpoint is not None and peer not in host.connections and self._chance(probability):
                    self.dial(name, peer)

    def diallable(self, name: Node) -> list[Node]:
        endpoint = self.hosts[name].endpoint
        return (
            []
            if endpoint is None
            else [
                peer
                for peer, note in endpoint.upkeep.links.items()
                if note.address and note.phase is not LinkPhase.FORMER
            ]
        )

    def _is_quiet(self) -> bool:
        """Nothing is unconfirmed, no timer is set, links that are wanted are up, and nobody dials without need."""
        for host in self.hosts.values():
            live = host.live
            wanted = [peer for peer, note in live.upkeep.links.items() if note.phase is LinkPhase.WANTED]
            dialled_in_vain = [
                peer for peer in self.diallable(host.name) if live.upkeep.phase(peer) is LinkPhase.RETIRING
            ]
            if any(s.unconfirmed for s in live.sessions.values()) or dialled_in_vain or live.upkeep.timers:
                return False
            if any(live.sessions[peer].phase is not SessionPhase.UP for peer in wanted):
                return False
        return True

    def _calm_round(self) -> None:
        super()._calm_round()
        for host in self.hosts.values():
            host.live.fire(now=self.now)
