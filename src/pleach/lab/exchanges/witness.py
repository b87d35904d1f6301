"""Watches a run hop by hop: what a reconfiguration costs beside what the trace says it broke.

S2 §5 counts as overhead, in hops: (un)subscriptions that are exchanged because of the reconfiguration; events that are
misrouted along obsolete subscriptions; and the protocol's own messages. Here:

- *entries* are Install and Withdraw between brokers. That all of them are due to the exchange is the workload's affair:
  let nobody (un)subscribe meanwhile.
- *misrouted* is each hop of an event that did not bring it to a client for the first time: copies that came to a broker
  to which, or behind which, nobody wants the event (dead ends), and copies that came to a broker which had it already
  (second copies). In S2 the old link is broken, so that it carries no second copies; here it goes on for a while.
- *protocol* are the messages that the reconfiguration's own machines own.

Our confirmations (Installed, Settle: decision 3) have no counterpart in the papers. They are counted apart, and stand
in `control`, which is all that travels between brokers and is no event.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pleach.core.broker import Broker
from pleach.core.effects import Effect, Observe
from pleach.core.messages import (
    Deliver,
    Forward,
    Install,
    Installed,
    Marked,
    Message,
    Node,
    Publish,
    Settle,
    Withdraw,
    encode,
)
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.sim.run import ScenarioRun, SimResult

ENTRIES: frozenset[type[Message]] = frozenset((Install, Withdraw))
CONFIRMATIONS: frozenset[type[Message]] = frozenset((Installed, Settle))


@dataclass
class ControlTraffic:
    """Messages between brokers that are no events, by type, from the beginning of the watch on."""

    messages: Counter[type[Message]] = field(default_factory=Counter)
    bytes: Counter[type[Message]] = field(default_factory=Counter)

    def add(self, message: Message) -> None:
        kind = type(message)
        self.messages[kind] += 1
        self.bytes[kind] += len(encode(message))

    @property
    def entries(self) -> int:
        return sum(self.messages[kind] for kind in ENTRIES)

    @property
    def confirmations(self) -> int:
        return sum(self.messages[kind] for kind in CONFIRMATIONS)

    @property
    def protocol(self) -> int:
        return self.control - self.entries - self.confirmations

    @property
    def control(self) -> int:
        return self.messages.total()

    @property
    def control_bytes(self) -> int:
        return self.bytes.total()


class Misrouted(NamedTuple):
    dead_ends: int = 0
    second_copies: int = 0

    @property
    def hops(self) -> int:
        return self.dead_ends + self.second_copies


@dataclass
class EventRoute:
    """The ways of one event. `came_from`: by whom a broker got it first. `served`: who had a client for it."""

    came_from: dict[Node, Node | None] = field(default_factory=dict)  # None: by the publisher
    served: dict[Node, None] = field(default_factory=dict)
    hops: list[tuple[float, Node, Node]] = field(default_factory=list)  # when sent, from whom, to whom

    def misrouted(self, since: float) -> Misrouted:
        """Of the hops that were made from then on."""
        useful = self._useful()
        hops = [(sender, to) for at, sender, to in self.hops if at >= since]
        firsts = {(sender, to) for sender, to in hops if self.came_from.get(to) == sender}
        dead_ends = sum(to not in useful for _, to in firsts)
        return Misrouted(dead_ends, len(hops) - len(firsts))

    def _useful(self) -> dict[Node, None]:
        """The brokers on the ways to those that served somebody."""
        found: dict[Node, None] = {}
        for broker in self.served:
            here: Node | None = broker
            while here is not None and here not in found:
                found[here] = None
                here = self.came_from.get(here)
        return found


class RunWitness:
    """Put one beside a run before it begins, then `finish` it here."""

    def __init__(self, run: ScenarioRun, *, since: float, cycle: Sequence[Node] = ()) -> None:
        self.run = run
        self.traffic = ControlTraffic()
        self.outside = 0  # entries that travelled to or from a broker that is not on the cycle
        self.locked_seconds = 0.0  # summed over brokers
        self.locked_brokers: dict[Node, None] = {}
        self.unlocked_at = 0.0  # the last one of them
        self._since = since
        self._cycle = frozenset(cycle)
        self._locked_since: dict[Node, float] = {}
        self._journeys: defaultdict[str, EventRoute] = defaultdict(EventRoute)
        for name, broker in run.brokers.items():
            run.sim.add(name, _Eyes(name, broker, self))
        self._on_send, run.sim.on_send = run.sim.on_send, self._sent
        self._on_observe, run.sim.on_observe = run.sim.on_observe, self._observed

    def finish(self) -> SimResult:
        return self.run.finish()

    @property
    def is_anyone_locked(self) -> bool:
        return bool(self._locked_since)

    @property
    def misrouted(self) -> Misrouted:
        found = [journey.misrouted(self._since) for journey in self._journeys.values()]
        return Misrouted(sum(each.dead_ends for each in found), sum(each.second_copies for each in found))

    @property
    def overhead(self) -> int:
        """S2 §5, in hops."""
        return self.traffic.entries + self.traffic.protocol + self.misrouted.hops

    # What happens --------------------------------------------------------------------------------------------

    def _sent(self, at: float, sender: Node, to: Node, message: Message) -> None:
        if self._on_send:
            self._on_send(at, sender, to, message)
        brokers = self.run.brokers
        if sender not in brokers:
            return
        self.look(sender, brokers[sender], at)
        if isinstance(message, Deliver):
            self._journeys[str(message.event.id)].served[sender] = None
        if to not in brokers:
            return
        event = _event_id(message)
        if event:
            self._journeys[event].hops.append((at, sender, to))
        elif at >= self._since:
            self._control(sender, to, message)

    def _control(self, sender: Node, to: Node, message: Message) -> None:
        self.traffic.add(message)
        if type(message) in ENTRIES and not {sender, to} <= self._cycle:
            self.outside += 1

    def arrived(self, sender: Node, to: Node, message: Message) -> None:
        event = _event_id(message)
        if event:
            self._journeys[event].came_from.setdefault(to, None if isinstance(message, Publish) else sender)

    def _observed(self, at: float, node: Node, seen: Observe) -> None:
        if self._on_observe:
            self._on_observe(at, node, seen)
        if node in self.run.brokers:
            self.look(node, self.run.brokers[node], at)

    def look(self, name: Node, broker: BrokerMachine, now: float) -> None:
        """Whether the broker takes part in a reconfiguration, or holds something on account of one."""
        is_locked = isinstance(broker, Broker) and not broker.seam.is_idle
        if is_locked == (name in self._locked_since):
            return
        if is_locked:
            self._locked_since[name] = now
            self.locked_brokers[name] = None
        else:
            self.locked_seconds += now - self._locked_since.pop(name)
            self.unlocked_at = now


class _Eyes:
    """A broker, and the witness that sees what comes to it."""

    def __init__(self, name: Node, broker: BrokerMachine, witness: RunWitness) -> None:
        self._name, self._broker, self._witness = name, broker, witness

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        self._witness.arrived(sender, self._name, message)
        effects = self._broker.handle(sender, message, now=now)
        self._witness.look(self._name, self._broker, now)
        return effects

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        effects = self._broker.handle_timer(name, now=now)
        self._witness.look(self._name, self._broker, now)
        return effects


def _event_id(message: Message) -> str:
    """Empty for what is no event."""
    match message:
        case Forward(event) | Marked(message=Forward(event)) | Publish(event):
            return str(event.id)
        case _:
            return ""
