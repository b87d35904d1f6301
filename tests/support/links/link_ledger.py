"""What links owe: every payload that a committed batch queued arrives once, in order; what is void may be missing.

`RelayWorld` runs simple machines that write down what arrives and pass it on. It keeps its own account of every
direction of every link, from committed batches alone, and `faults` compares what was owed with what came.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from random import Random
from typing import NamedTuple

from pleach.core.effects import Effect, Passed, Send
from pleach.core.links.endpoint import Batch
from pleach.core.messages import Message, Node, Subscribed, decode, pack, unpack
from pleach.core.messages.runs import Run
from support.links.unreliable_endpoints import Host, Weather, World


class Relay:
    """Keeps what arrives, per sender, and passes it on: the simplest machine with a state and with effects."""

    def __init__(self, name: Node, routes: Mapping[Node, Sequence[Node]], numbers: Iterator[int]) -> None:
        self.name = name
        self._numbers = numbers  # make texts unique
        self.routes = routes  # sender → to whom its messages go on
        self.kept: dict[Node, list[str]] = {}
        self.seen: list[tuple[Node, str]] = []  # since the last batch; not part of the state
        self.reborn: list[Node] = []  # likewise

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        assert isinstance(message, Subscribed)
        self.kept.setdefault(sender, []).append(message.subscription)
        self.seen.append((sender, message.subscription))
        return [Send(to, message) for to in self.routes.get(sender, ())]

    def handle_run(self, sender: Node, run: Run) -> Passed | None:
        return None

    def peer_reset(self, peer: Node) -> Sequence[Effect]:
        self.kept.pop(peer, None)
        self.reborn.append(peer)
        return [Send(peer, Subscribed(f"{greeting(self.name, peer)} {next(self._numbers)}"))]

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        raise AssertionError(f"{name}: nobody sets timers here")

    def resume(self, *, now: float) -> Sequence[Effect]:
        return []

    def is_changed_by(self, sender: Node, message: Message) -> bool:
        return True

    def capture(self) -> bytes:
        return pack(dict(sorted(self.kept.items())))

    def restore(self, data: bytes) -> None:
        self.kept = unpack(data, dict[Node, list[str]])


def greeting(name: Node, peer: Node) -> str:
    """How what a machine says to a peer that was reborn begins."""
    return f"{name} greets {peer} anew,"


class Owed(NamedTuple):
    sequence: int
    text: str
    life: int  # of the sender


class RelayWorld(World):
    def __init__(self, links: Sequence[tuple[Node, Node]], stream: Random, weather: Weather | None = None) -> None:
        super().__init__(links, stream, weather)
        self.owed: dict[tuple[Node, Node], list[Owed]] = defaultdict(list)
        self.came: dict[tuple[Node, Node], list[str]] = defaultdict(list)
        self.void: dict[tuple[Node, Node], tuple[int, int]] = {}  # direction → up to which (life, sequence)
        self.rebirths: dict[tuple[Node, Node], list[int]] = defaultdict(list)  # (who noticed, of whom) → epochs
        self._numbers = count(1)

    def add_relay(self, name: Node, *, durable: bool = True) -> None:
        peers = sorted({n for link in self.links for n in link if name in link} - {name})
        routes = {peer: [other for other in peers if other != peer] for peer in peers}
        self.add(name, lambda: Relay(name, routes, self._numbers), durable=durable)

    def say(self, name: Node, to: Node) -> str:
        """Let a node send something new; it counts once it is committed."""
        text = f"{name} says {next(self._numbers)}"
        self.perform(name, [Send(to, Subscribed(text))])
        return text

    # The account ---------------------------------------------------------------------------------------------

    def committed(self, host: Host, batch: Batch) -> None:
        for peer, sequence, payload in batch.queued:
            message = decode(payload)
            assert isinstance(message, Subscribed)
            self.owed[host.name, peer].append(Owed(sequence, message.subscription, host.epoch))
        machine = host.live.machine
        assert isinstance(machine, Relay)
        for sender, text in machine.seen:
            self.came[sender, host.name].append(text)
        for peer in machine.reborn:
            session = host.live.sessions[peer]
            self.rebirths[host.name, peer].append(session.peer_epoch)
            greets = greeting(host.name, peer).encode()
            sequence = max(q.sequence for q in batch.queued if q.peer == peer and greets in q.payload)
            self.void[host.name, peer] = (host.epoch, sequence - 1)
        machine.seen, machine.reborn = [], []

    def started(self, host: Host) -> None:
        """Handling the journal again is no arrival."""
        machine = host.live.machine
        assert isinstance(machine, Relay)
        machine.seen, machine.reborn = [], []

    def crashed(self, host: Host) -> None:
        """A node without a disk takes along what it owed."""
        if host.disk is None:
            for direction, owed in self.owed.items():
                if direction[0] == host.name and owed:
                    self.void[direction] = (host.epoch, owed[-1].sequence)

    def faults(self) -> list[str]:
        """Everything wrong with what came so far; what has not come yet is not wrong."""
        found = []
        for direction, came in self.came.items():
            places = {owed.text: index for index, owed in enumerate(self.owed[direction])}
            found += [f"{direction}: {text!r} was never sent" for text in came if text not in places]
            order = [places[text] for text in came if text in places]
            if order != sorted(set(order)):
                found.append(f"{direction}: doubled or out of order: {came}")
        return found

    def forgotten(self) -> list[str]:
        """Where a machine's state does not hold all that came to it; only for worlds in which nobody is reborn."""
        kept = {name: host.live.machine.kept for name, host in self.hosts.items()}
        return [f"{y} kept other things of {x}" for (x, y), came in self.came.items() if kept[y].get(x, []) != came]

    def missing(self) -> list[str]:
        """What is owed, not void, and has not come."""
        return [
            f"{direction}: {owed.text!r} is missing"
            for direction, each in self.owed.items()
            for owed in each
            if (owed.life, owed.sequence) > self.void.get(direction, (0, 0)) and owed.text not in self.came[direction]
        ]
